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
    after: set[int] = field(default_factory=set)  # operations that its next one has to wait for, by events
    legacy: int | None = None  # the last operation of the legacy default stream that it has to wait for
    last: int | None = None  # number of its last operation

    @property
    def before(self) -> set[int]:
        """The operations that its next one directly waits for."""
        return self.after | {number for number in (self.legacy, self.last) if number is not None}


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
        self._closed: dict[int, _Queue] = {}

    def open(self, stream: int, *, blocking: bool) -> None:
        """A stream is there. `blocking`: it takes part in the legacy default stream's rule."""
        self._queues[stream] = _Queue(blocking)

    def fork(self, moment: Moment) -> int:
        """A queue of its own for a branch of a graph, which follows the moment. Its number is no stream's."""
        self._forks -= 1
        self._queues[self._forks] = _Queue(False, clock=dict(moment.clock), after=set(moment.last))
        return self._forks

    def close(self, stream: int) -> None:
        """The stream is asked for nothing more. It is forgotten once the host knows of all that it did."""
        queue = self._queues.pop(stream, None)
        if queue is not None:
            self._closed[stream] = queue
            self._forget_closed()

    def _forget_closed(self) -> None:
        for stream, queue in list(self._closed.items()):
            if self._host.get(stream, 0) >= queue.count:
                del self._closed[stream]
                for clock in (self._host, *(other.clock for other in (*self._queues.values(), *self._closed.values()))):
                    clock.pop(stream, None)

    def add(self, stream: int, number: int) -> Stamp:
        """The next operation of a stream, whose number is `number`."""
        queue = self._queues[stream]
        after = queue.before
        join(queue.clock, self._host)
        if stream == LEGACY:
            for other in self._blocking():
                join(queue.clock, other.clock)
                after |= other.before
        queue.count += 1
        stamp = Stamp(stream, queue.count, dict(queue.clock), tuple(sorted(after)))
        queue.clock[stream] = queue.count
        queue.after, queue.legacy, queue.last = set(), None, number
        if stream == LEGACY:
            for other in self._blocking():
                join(other.clock, queue.clock)
                other.after, other.legacy, other.last = set(), number, None  # this one follows all that it had
        return stamp

    def _blocking(self) -> list[_Queue]:
        return [queue for stream, queue in self._queues.items() if stream != LEGACY and queue.blocking]

    def moment(self, stream: int) -> Moment:
        """Now, in a stream."""
        queue = self._queues[stream]
        return Moment(stream, dict(queue.clock), tuple(sorted(queue.before)))

    def wait(self, stream: int, moment: Moment) -> None:
        """What is asked of the stream from now on follows the moment."""
        queue = self._queues[stream]
        join(queue.clock, moment.clock)
        queue.after.update(moment.last)

    def everything(self) -> tuple[int, ...]:
        """The last operation of every stream."""
        queues = (*self._queues.values(), *self._closed.values())
        return tuple(sorted({number for queue in queues for number in queue.before}))

    def host_waits(self, moment: Moment | None = None) -> None:
        """The host has waited for a moment; None: for everything."""
        clocks = [moment.clock] if moment is not None else [queue.clock for queue in (*self._queues.values(), *self._closed.values())]
        for clock in clocks:
            join(self._host, clock)
        if self._closed:
            self._forget_closed()

    def host_knows(self, stamp: Stamp) -> bool:
        """Whether the host has waited for an operation, directly or not."""
        if stamp.stream not in self._queues and stamp.stream not in self._closed:
            return True  # its stream was closed and forgotten
        return self._host.get(stamp.stream, 0) >= stamp.place
