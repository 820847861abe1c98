"""`gs.timeline()`: when everything asked of devices inside runs, by the device's model, or on a GPU as measured.

    with gs.timeline() as timeline:
        …
        device.synchronize()
    print(timeline)
    timeline.trace("trace.json")     # for https://ui.perfetto.dev
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gridstride.errors import UsageError
from gridstride.events.operations import Step
from gridstride.events.schedule import Placed
from gridstride.events.timeline import Reason, Timeline
from gridstride.events.transfers import link_of
from gridstride.report import timeline_text, trace

if TYPE_CHECKING:
    from gridstride.runtime.device import Device

_open: list[Recording] = []


class Measurement(Protocol):
    """What a device measures for one recording."""

    def timeline(self) -> Timeline:
        """What was measured so far, once it has ended."""
        ...


M = TypeVar("M", bound=Measurement)


class Recording:
    """The timelines of the devices that were used, one each; of the only one where it is asked itself."""

    def __init__(self, durations: Mapping[str, float]) -> None:
        self.durations = dict(durations)
        self._steps: dict[Device, list[Step]] = {}
        self._measured: dict[Device, Any] = {}

    def add(self, device: Device, step: Step) -> None:
        self._steps.setdefault(device, []).append(step)

    def measurement(self, device: Device, make: Callable[[], M]) -> M:
        """A device's measurement for this recording, made when it is first asked for."""
        if device not in self._measured:
            self._measured[device] = make()
        found: M = self._measured[device]
        return found

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """One for each device that was asked for something."""
        modelled = [Timeline.of(device.name, steps, link_of(device.spec)) for device, steps in self._steps.items()]
        return (*modelled, *(measurement.timeline() for measurement in self._measured.values()))

    @property
    def timeline(self) -> Timeline:
        """The only one. Raises UsageError where nothing was asked of any device, or something of several."""
        found = self.timelines
        if len(found) != 1:
            raise UsageError("nothing was asked of a device inside gs.timeline()" if not found else f"{len(found)} devices were used: look at .timelines")
        return found[0]

    @property
    def total_us(self) -> float:
        """Microseconds from the first operation's start to the last one's end."""
        return self.timeline.total_us

    @property
    def operations(self) -> tuple[Placed, ...]:
        return self.timeline.operations

    @property
    def copy_us(self) -> float:
        return self.timeline.copy_us

    @property
    def kernel_us(self) -> float:
        return self.timeline.kernel_us

    @property
    def overlap_us(self) -> float:
        """Microseconds in which copies and kernels ran at once."""
        return self.timeline.overlap_us

    @property
    def overlap_share(self) -> float:
        return self.timeline.overlap_share

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What stopped more overlap."""
        return self.timeline.reasons

    def trace(self, path: str | PathLike[str]) -> None:
        """Write the timelines for Perfetto or Chrome (`chrome://tracing`)."""
        trace.write(Path(path), self.timelines)

    def __str__(self) -> str:
        return "\n\n".join(timeline_text.plain(timeline) for timeline in self.timelines) or "nothing was asked of a device"


@contextmanager
def timeline(durations: Mapping[str, float] | None = None) -> Iterator[Recording]:
    """Record what is asked of devices inside.

    durations: microseconds that kernels take, by their names, where they are known from elsewhere; the others are estimated from what
    they do, for which they are counted as in `gs.profiling()`.
    """
    if durations is not None and not isinstance(durations, Mapping):
        raise UsageError(f"durations are microseconds by kernel, as in {{'scale': 20.0}}, not {type(durations).__name__} {durations!r:.40}")
    given = dict(durations or {})
    for name, microseconds in given.items():
        if not isinstance(microseconds, int | float) or not microseconds >= 0:
            raise UsageError(f"a duration is a number of microseconds, not {microseconds!r} for {name!r}")
    recording = Recording(given)
    _open.append(recording)
    try:
        yield recording
    finally:
        _open.remove(recording)


def is_recording() -> bool:
    return bool(_open)


def known_duration(kernel: str) -> float | None:
    """Microseconds of a kernel as the innermost recording was told; None where it was not."""
    for recording in reversed(_open):
        if kernel in recording.durations:
            return recording.durations[kernel]
    return None


def record(device: Device, step: Step) -> None:
    """Put a step into every open recording."""
    for recording in tuple(_open):
        recording.add(device, step)


def measurements(device: Device, make: Callable[[], M]) -> list[M]:
    """A device that measures: its measurement for every open recording."""
    return [recording.measurement(device, make) for recording in tuple(_open)]
