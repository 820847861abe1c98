"""`gs.profiling()`: everything launched inside is counted.

    with gs.profiling() as profile:
        saxpy[blocks, 256](n, 2.0, x, y)
    profile["saxpy"].sectors_per_load, profile["saxpy"].lines
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from rich.console import Console
from rich.text import Text

from gridstride.errors import GridstrideError, UsageError
from gridstride.frontends.sass import SassListing, machine_code
from gridstride.frontends.source import LoadedSource
from gridstride.observers.metrics.compiler_changes import changed_lines
from gridstride.observers.metrics.launch_metrics import KernelMetrics, LaunchMetrics
from gridstride.ptx.parser import parse
from gridstride.report import profile_text
from gridstride.report.source_lines import SourceLines

_WIDTH = 160
"""Characters a line of a profile that is printed from Python."""

_open: list[Profile] = []
"""Profiles being made, the outermost first; a launch goes into all of them."""


class Profile(Mapping[str, KernelMetrics]):
    """What was launched, kernel by kernel under its name as people write it, and launch by launch (`launches`)."""

    def __init__(self) -> None:
        self._launches: list[LaunchMetrics] = []
        self.skipped: list[str] = []
        """What was launched and not counted, a sentence each."""

    @property
    def launches(self) -> tuple[LaunchMetrics, ...]:
        """Every launch in the order in which they ended."""
        return tuple(self._launches)

    def add(self, launch: LaunchMetrics) -> None:
        self._launches.append(launch)

    def __getitem__(self, kernel: str) -> KernelMetrics:
        launches = [launch for launch in self._launches if launch.profile.kernel == kernel]
        if not launches:
            known = list(dict.fromkeys(launch.profile.kernel for launch in self._launches))
            near = difflib.get_close_matches(kernel, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; launched were {', '.join(known)}" if known else ": nothing was launched"
            raise UnknownKernel(f"no kernel called {kernel!r} was launched inside this profile{hint}")
        return KernelMetrics.of(kernel, launches)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(launch.profile.kernel for launch in self._launches))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<gridstride.Profile of {len(self._launches)} launches: {', '.join(self) or 'none'}>"

    def __str__(self) -> str:
        """What `gridstride profile` prints, kernel by kernel; of several launches of a kernel the one that is estimated to take longest."""
        if not self._launches:
            return "; ".join(self.skipped) or "nothing was launched inside this profile"
        console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
        with console.capture() as captured:
            for kernel in self.values():
                if len(kernel.launches) > 1:
                    console.print(Text(f"{kernel.name}: {len(kernel.launches):,} launches; the one that takes longest:"))
                longest = max(kernel.launches, key=lambda launch: launch.estimate_us)
                console.print(profile_text.profile(longest, SourceLines()), highlight=False)
        return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


class UnknownKernel(UsageError, KeyError):
    """A profile was asked for a kernel that was not launched; also a KeyError, so that `in` and `get` work as for any mapping."""

    __str__ = Exception.__str__


@contextmanager
def profiling() -> Iterator[Profile]:
    """Count what everything launched inside does, on any thread, on the simulator. Profiles nest; each gets all launches inside it."""
    profile = Profile()
    _open.append(profile)
    try:
        yield profile
    finally:
        _open.remove(profile)


def is_profiling() -> bool:
    """Whether launches have to count now."""
    return bool(_open)


def record(launch: LaunchMetrics) -> None:
    """Put a launch that was counted into every open profile."""
    for profile in tuple(_open):
        profile.add(launch)


def skip(what: str) -> None:
    """Say in every open profile that something was launched and not counted."""
    for profile in tuple(_open):
        if what not in profile.skipped:
            profile.skipped.append(what)


_listings: dict[tuple[int, str], tuple[LoadedSource, SassListing | None]] = {}
"""Machine code by source and architecture, of the last few sources (which are kept, so that their ids stay theirs); None: no disassembler."""
_MOST_LISTINGS = 8


_parsed = lru_cache(maxsize=_MOST_LISTINGS)(parse)


def compared_with_machine_code(launch: LaunchMetrics, source: LoadedSource, entry: str) -> LaunchMetrics:
    """The launch with the lines marked whose accesses the machine compiler changed; as it is where there is no disassembler
    (`pip install 'gridstride[sass]'`)."""
    target = launch.spec.target
    key = (id(source), target)
    if key not in _listings:
        try:
            listing = machine_code(source, target)
        except GridstrideError:
            listing = None
        while len(_listings) >= _MOST_LISTINGS:
            del _listings[next(iter(_listings))]
        _listings[key] = (source, listing)
    listing = _listings[key][1]
    if listing is None or entry not in listing.kernels:
        return launch
    return replace(launch, changed_lines=changed_lines(_parsed(source.ptx), listing, entry, launch.instructions))
