"""Which operations precede which: streams, events and the host's waits as one happens-before order.

The rules are those of the CUDA C++ Programming Guide ("Streams", "Default Stream", "Events"): a stream is a queue; `wait` lets a stream
follow what an event recorded; the legacy default stream waits for all blocking streams and every blocking stream's later work for it; the
host follows what it has waited for, and everything it asks for afterwards does too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstride.events.operations import LEGACY

Clock = dict[int, int]
"""Stream → number of its operations that are known to have ended."""


def join(into: Clock, other: Mapping[int, int]) -> None:
    """Know what `other` knows as well."""
    for stream, count in other.items():
        if into.get(stream, 0) < count:
            into[stream] = count


@dataclass
class _Queue:
    blocking: bool
    count: int = 0
    clock: Clock = field(default_factory=dict)  # what its next operation follows
    after: set[int] = field(default_factory=set)  # operations that its next one has to wait for
    last: int | None = None  # number of its last operation


@dataclass(frozen=True)
class Moment:
    """A place in a stream, as an event keeps it: what had been asked of the stream by then. `stream` -1: of nobody."""

    stream: int
    clock: Mapping[int, int]
    last: tuple[int, ...]


@dataclass(frozen=True)
class Stamp:
    """Where an operation stands: its place in its stream, what it follows, and the operations it directly waits for."""

    stream: int
    place: int
    clock: Mapping[int, int]
    after: tuple[int, ...]

    def follows(self, earlier: Stamp) -> bool:
        """Whether `earlier` has certainly ended when this one starts."""
        return self.clock.get(earlier.stream, 0) >= earlier.place


class Order:
    """The order of everything asked of one device so far."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {LEGACY: _Queue(blocking=True)}
        self._host: Clock = {}
        self._forks = 0

    def open(self, stream: int, *, blocking: bool) -> None:
        """A stream is there. `blocking`: it takes part in the legacy default stream's rule."""
        self._queues[stream] = _Queue(blocking)

    def fork(self, moment: Moment) -> int:
        """A queue of its own for a branch of a graph, which follows the moment. Its number is no stream's."""
        self._forks -= 1
        self._queues[self._forks] = _Queue(False, clock=dict(moment.clock), after=set(moment.last))
        return self._forks

    def close(self, stream: int) -> None:
        """The stream is asked for nothing more."""
        self._queues.pop(stream, None)

    def add(self, stream: int, number: int) -> Stamp:
        """The next operation of a stream, whose number is `number`."""
        queue = self._queues[stream]
        after = set(queue.after)
        join(queue.clock, self._host)
        if stream == LEGACY:
            for other in self._blocking():
                join(queue.clock, other.clock)
                after |= other.after | ({other.last} if other.last is not None else set())
        if queue.last is not None:
            after.add(queue.last)
        queue.count += 1
        stamp = Stamp(stream, queue.count, dict(queue.clock), tuple(sorted(after)))
        queue.clock[stream] = queue.count
        queue.after, queue.last = set(), number
        if stream == LEGACY:
            for other in self._blocking():
                join(other.clock, queue.clock)
                other.after.add(number)
        return stamp

    def _blocking(self) -> list[_Queue]:
        return [queue for stream, queue in self._queues.items() if stream != LEGACY and queue.blocking]

    def moment(self, stream: int) -> Moment:
        """Now, in a stream."""
        queue = self._queues[stream]
        last = queue.after | ({queue.last} if queue.last is not None else set())
        return Moment(stream, dict(queue.clock), tuple(sorted(last)))

    def wait(self, stream: int, moment: Moment) -> None:
        """What is asked of the stream from now on follows the moment."""
        queue = self._queues[stream]
        join(queue.clock, moment.clock)
        queue.after.update(moment.last)

    def everything(self) -> tuple[int, ...]:
        """The last operation of every stream."""
        return tuple(sorted(queue.last for queue in self._queues.values() if queue.last is not None))

    def host_waits(self, moment: Moment | None = None) -> None:
        """The host has waited for a moment; None: for everything."""
        for clock in [moment.clock] if moment is not None else [queue.clock for queue in self._queues.values()]:
            join(self._host, clock)

    def host_knows(self, stamp: Stamp) -> bool:
        """Whether the host has waited for an operation, directly or not."""
        return self._host.get(stamp.stream, 0) >= stamp.place
