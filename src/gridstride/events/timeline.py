"""`Timeline`: the operations of a piece of a program in time, how much of the copying hid behind kernels, and what stood in the way of more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gridstride.events.operations import HOST, LEGACY, Kind, Step
from gridstride.events.schedule import Placed, Schedule, Waited, busy, common, schedule
from gridstride.events.transfers import Link

COPIES = frozenset({Kind.TO_DEVICE, Kind.TO_HOST, Kind.PREFETCH_TO_DEVICE, Kind.PREFETCH_TO_HOST})
KERNELS = frozenset({Kind.KERNEL})
_SILENT = frozenset({Kind.EVENT, Kind.WAIT, Kind.GRAPH, Kind.ALLOCATE, Kind.FREE})
WORTH_SAYING = 0.1
"""Share of the hideable copying that must have stood alone before anything is said about it."""


@dataclass(frozen=True)
class Reason:
    """Something that kept copies and kernels apart. what: in a word; sentence: what was seen and what to do."""

    what: str
    sentence: str


@dataclass(frozen=True)
class Timeline:
    """measured: the times were read from a GPU; otherwise they are the model's."""

    device: str
    placed: Schedule
    measured: bool = False

    @classmethod
    def of(cls, device: str, steps: Sequence[Step], link: Link) -> Timeline:
        """The modelled times of what the host asked for."""
        return cls(device, schedule(steps, link))

    @property
    def operations(self) -> tuple[Placed, ...]:
        """All that takes time, in the order in which the host asked for it."""
        return tuple(p for p in self.placed.operations if p.operation.kind not in _SILENT)

    @property
    def host_waits(self) -> tuple[Waited, ...]:
        return self.placed.waits

    def rows(self) -> list[tuple[str, list[Placed]]]:
        """The operations by stream, as rows of a chart in which nothing overlaps: branches of a graph, which run in one stream, get more rows."""
        found: list[tuple[str, list[Placed]]] = []
        for stream in sorted({p.operation.stream for p in self.operations}):
            rows: list[list[Placed]] = []
            for p in sorted((p for p in self.operations if p.operation.stream == stream), key=lambda p: p.start):
                free = next((row for row in rows if row[-1].end <= p.start), None)
                if free is None:
                    rows.append(free := [])
                free.append(p)
            found += [(row[0].operation.where + (f", branch {k + 1}" if k else ""), row) for k, row in enumerate(rows)]
        return found

    @property
    def total_us(self) -> float:
        """Microseconds from the first operation's start to the last one's end."""
        done = self.operations
        return max(p.end for p in done) - min(p.start for p in done) if done else 0.0

    @cached_property
    def copy_us(self) -> float:
        """Microseconds in which a copy between host and device runs."""
        return sum(end - start for start, end in busy(self.placed, COPIES))

    @cached_property
    def kernel_us(self) -> float:
        """Microseconds in which a kernel runs."""
        return sum(end - start for start, end in busy(self.placed, KERNELS))

    @cached_property
    def overlap_us(self) -> float:
        """Microseconds in which a copy and a kernel run at once."""
        return common(busy(self.placed, COPIES), busy(self.placed, KERNELS))

    @property
    def possible_us(self) -> float:
        """At most so many could overlap: the shorter of the two."""
        return min(self.copy_us, self.kernel_us)

    @property
    def overlap_share(self) -> float:
        """Of what could overlap at most; 1 where there is nothing to hide."""
        return self.overlap_us / self.possible_us if self.possible_us else 1.0

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """What stopped more overlap, where there is enough to gain; empty where copies hide as they should."""
        if not self.possible_us or self.overlap_share > 1 - WORTH_SAYING:
            return ()
        return tuple(_reasons(self))


def _reasons(timeline: Timeline) -> list[Reason]:
    operations = timeline.operations
    copies = [p for p in operations if p.operation.kind in COPIES and p.operation.stream != HOST]
    kernels = [p for p in operations if p.operation.kind in KERNELS]
    if len(copies) + len(kernels) < 3:
        return []
    found = []
    pageable = [p for p in copies if p.operation.pageable]
    if pageable:
        found.append(
            Reason(
                "pageable memory",
                f"{len(pageable)} of {len(copies)} copies are from or to pageable memory: the call returns only when the copy is done, so nothing "
                "runs beside it; allocate the host's side with device.pinned(…)",
            )
        )
    streams = {p.operation.stream for p in (*copies, *kernels)}
    legacy = [p for p in (*copies, *kernels) if p.operation.stream == LEGACY]
    if legacy and len(streams) > 1:
        found.append(
            Reason(
                "default stream",
                f"{len(legacy)} operation{'' if len(legacy) == 1 else 's'} went to the legacy default stream, which waits for every other stream and makes them wait; "
                "give each of them a stream, or make the streams with non_blocking=True",
            )
        )
    elif legacy:
        found.append(
            Reason("default stream", "everything went to the default stream, where nothing runs beside anything else; use two streams of device.stream() in turn")
        )
    elif len(streams) == 1:
        found.append(Reason("a missing stream", "everything went to one stream, where nothing runs beside anything else; use two streams in turn"))
    else:
        shared = _one_buffer_for_two(copies, kernels)
        if shared:
            found.append(
                Reason(
                    "one buffer for two",
                    f"the copies and kernels all work on {shared}, so a copy has to wait until the kernel before has done with it; "
                    "use two buffers in turn",
                )
            )
    synchronous = [w for w in timeline.host_waits if w.end - w.start > 0.5 * timeline.possible_us / max(len(kernels), 1)]
    if not pageable and len(synchronous) > 2 and len(streams) > 1:
        found.append(
            Reason(
                "waiting host",
                f"the host waited {len(synchronous)} times ({synchronous[0].what} first) before it asked for the next piece; let streams wait for events "
                "instead, and wait once at the end",
            )
        )
    return found


def _one_buffer_for_two(copies: Sequence[Placed], kernels: Sequence[Placed]) -> str | None:
    """The one device buffer that every copy and kernel shares, if there is one."""
    sets = [set(p.operation.buffers) for p in (*copies, *kernels) if p.operation.buffers]
    shared = set.intersection(*sets) if sets else set()
    return min(shared) if shared and len({p.operation.stream for p in kernels}) > 1 else None
