"""When each operation runs on the modelled device: its engines, its multiprocessors, and a host that asks for one thing after the other.

A copy engine for each direction and the multiprocessors work side by side. An operation is ready when the host has asked for it and all
that it follows has ended. An engine takes the one that was ready first; kernels share the multiprocessors as long as their blocks fit, a
higher priority (a smaller number) before a lower. A copy of pageable memory keeps the host until it has ended (into the device: until
the last piece is staged, which is taken to be the same), and so does everything that CUDA calls synchronous.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gridstride.events.operations import HostWait, Kind, Operation, Step
from gridstride.events.transfers import Link

_FULL = 1.0 + 1e-9
_NO_TIME = frozenset({Kind.EVENT, Kind.WAIT, Kind.ALLOCATE, Kind.FREE})

_BY_KERNELS = frozenset({Kind.KERNEL, Kind.FILL, Kind.ON_DEVICE, Kind.GRAPH})


@dataclass(frozen=True)
class Placed:
    """An operation in time, microseconds from the first call. asked: when the host asked; ready: when nothing but its engine was missing."""

    operation: Operation
    asked: float
    ready: float
    start: float
    end: float


@dataclass(frozen=True)
class Waited:
    """The host stood still from `start` to `end`, in a call that is named `what`."""

    what: str
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    operations: tuple[Placed, ...]
    waits: tuple[Waited, ...]
    host_end: float

    @property
    def end(self) -> float:
        """When the last operation ends or the host stops waiting."""
        return max((placed.end for placed in self.operations), default=self.host_end)


def schedule(steps: Sequence[Step], link: Link) -> Schedule:
    """Place all operations in time."""
    model = Model(link)
    for step in steps:
        model.take(step)
    model.drain()
    placed = (model.placed[number] for number in sorted(model.placed))
    return Schedule(tuple(placed), tuple(model.waits), model.host)


class Model:
    """The device and the host in modelled time, one step after the other."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.host = 0.0
        self.placed: dict[int, Placed] = {}
        self.waits: list[Waited] = []
        self._pending: dict[int, tuple[Operation, float]] = {}  # asked for, not placed
        self._engine_free: dict[str, float] = {}
        self._kernels: list[tuple[float, float]] = []  # end and share of those that were placed

    def take(self, step: Step) -> None:
        """What the host does next."""
        if isinstance(step, HostWait):
            self.wait(step.until, step.what)
        else:
            self.ask(step)

    def end(self, number: int) -> float:
        """When an operation ends, in microseconds."""
        while number in self._pending:
            self._place_next(math.inf)
        return self.placed[number].end

    def forget(self) -> None:
        """Everything has ended and the host knows: only the times of events are kept."""
        self.drain()
        self.placed = {number: p for number, p in self.placed.items() if p.operation.kind is Kind.EVENT}
        self.waits.clear()

    def ask(self, operation: Operation) -> None:
        self.host += self._call(operation)
        self._pending[operation.number] = operation, self.host
        self._settle(self.host)
        if operation.host_waits or operation.pageable:
            self.wait((operation.number,), operation.name)

    def _call(self, operation: Operation) -> float:
        if operation.in_graph or operation.kind in _NO_TIME:
            return 0.0
        return self.link.pageable_call if operation.pageable else self.link.host_call

    def wait(self, until: tuple[int, ...], what: str) -> None:
        """The host goes on when all of them have ended."""
        while any(number in self._pending for number in until):
            self._place_next(math.inf)
        end = max((self.placed[number].end for number in until if number in self.placed), default=self.host)
        if end > self.host:
            self.waits.append(Waited(what, self.host, end))
            self.host = end

    def drain(self) -> None:
        while self._pending:
            self._place_next(math.inf)

    def _settle(self, until: float) -> None:
        """Place whatever starts before `until`; nothing that the host asks for later can come before it."""
        while self._place_next(until):
            pass

    def _place_next(self, until: float) -> bool:
        """Place the operation that starts next, if that is before `until`."""
        best: tuple[float, int, float, int] | None = None
        for number, (operation, asked) in self._pending.items():
            if any(before in self._pending for before in operation.after):
                continue
            ready = self._ready(operation, asked)
            start = self._start(operation, ready)
            candidate = (start, operation.priority, ready, number)
            if best is None or candidate < best:
                best = candidate
        if best is None or best[0] >= until:
            return False
        start, _, ready, number = best
        operation, asked = self._pending.pop(number)
        end = start + operation.microseconds
        self.placed[number] = Placed(operation, asked, ready, start, end)
        if operation.kind.engine is not None:
            self._engine_free[operation.kind.engine] = end
        elif operation.kind is Kind.KERNEL:
            self._kernels = [(e, s) for e, s in self._kernels if e > start] + [(end, min(1.0, operation.share))]
        return True

    def _ready(self, operation: Operation, asked: float) -> float:
        """When the host has asked and all before it has ended, with what the device takes to notice."""
        ends = [self.placed[before].end for before in operation.after if before in self.placed]
        before = max(ends, default=0.0)
        if operation.kind in _NO_TIME:
            return max(asked, before)
        start = self.link.start_kernel if operation.kind in _BY_KERNELS else self.link.start_copy
        noticed = self.link.graph_node if operation.in_graph else self.link.follow if ends else 0.0
        return max(asked + start, before + noticed)

    def _start(self, operation: Operation, ready: float) -> float:
        if operation.kind.engine is not None:
            return max(ready, self._engine_free.get(operation.kind.engine, 0.0))
        if operation.kind is not Kind.KERNEL:
            return ready
        share = min(1.0, operation.share)
        running = sorted((end, of) for end, of in self._kernels if end > ready)
        used = sum(of for _, of in running)
        start = ready
        for end, of in running:
            if used + share <= _FULL:
                break
            used -= of
            start = end
        return start


def busy(schedule: Schedule, kinds: frozenset[Kind]) -> list[tuple[float, float]]:
    """The times in which an operation of these kinds runs, in order and without overlap."""
    spans = sorted((p.start, p.end) for p in schedule.operations if p.operation.kind in kinds and p.end > p.start)
    merged: list[tuple[float, float]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def common(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> float:
    """Microseconds in which both are busy."""
    total, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        total += max(0.0, high - low)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total
