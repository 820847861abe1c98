"""`gs.profiling()`: everything launched inside is counted.

    with gs.profiling() as profile:
        saxpy[blocks, 256](n, 2.0, x, y)
    profile["saxpy"].sectors_per_load, profile["saxpy"].lines
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gridstride.errors import UsageError
from gridstride.observers.metrics.launch_metrics import KernelMetrics, LaunchMetrics

_open: list[Profile] = []
"""Profiles being made, the outermost first; a launch goes into all of them."""


class Profile(Mapping[str, KernelMetrics]):
    """What was launched, kernel by kernel under its name as people write it, and launch by launch (`launches`)."""

    def __init__(self) -> None:
        self._launches: list[LaunchMetrics] = []

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
