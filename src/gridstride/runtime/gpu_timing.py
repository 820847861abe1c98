"""A recording on a GPU: an event before and one behind each operation, from which the timeline is read when somebody looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from gridstride.events.operations import Kind, Operation
from gridstride.events.schedule import Placed, Schedule, Waited
from gridstride.events.timeline import Timeline
from gridstride.runtime.gpu_context import GpuContext


@dataclass(frozen=True)
class _Span:
    operation: Operation
    asked: float
    began: Any
    ended: Any


class Tape:
    """What one recording measures of one GPU.

    The events cost a few microseconds each, which a stream of very short operations shows. A graph is one operation: CUDA runs its nodes
    without the host seeing when.
    """

    def __init__(self, context: GpuContext, device: str) -> None:
        self._context = context
        self._device = device
        self._spans: list[_Span] = []
        self._waits: list[Waited] = []
        self._last: dict[int, int] = {}  # stream → its last operation
        self._also: dict[int, tuple[int, ...]] = {}  # stream → the operations that its next one follows as well
        self._marks: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # event → the operation before it
        # A stream of its own, because the first event must not wait for what runs already.
        driver = context.driver
        stream = context.result(driver.cuStreamCreateWithPriority(driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0), "make a stream")
        self._origin = self._event()
        context.result(driver.cuEventRecord(self._origin, stream), "record an event")
        context.result(driver.cuEventSynchronize(self._origin), "wait for an event")
        self._clock = time.perf_counter()
        driver.cuStreamDestroy(stream)

    @contextmanager
    def operation(self, stream: Any, kind: Kind, name: str, **more: Any) -> Iterator[None]:
        """Around the calls that ask for an operation in a stream (a `GpuStream`); `more` are fields of `Operation`."""
        record, asked = self._context.driver.cuEventRecord, self._now()
        began, ended = self._event(), self._event()
        self._context.check(record(began, stream.handle), "record an event")
        yield
        self._context.check(record(ended, stream.handle), "record an event")
        number = len(self._spans)
        before = (self._last[stream.number],) if stream.number in self._last else ()
        after = tuple(dict.fromkeys((*before, *self._also.pop(stream.number, ()))))
        self._last[stream.number] = number
        self._spans.append(_Span(Operation(number, kind, name, stream.number, after, stream_name=stream.name, **more), asked, began, ended))

    @contextmanager
    def wait(self, what: str) -> Iterator[None]:
        """Around a call in which the host waits."""
        start = self._now()
        try:
            yield
        finally:
            self._waits.append(Waited(what, start, self._now()))

    def marked(self, stream: int, event: Any) -> None:
        """An event was recorded in a stream."""
        if stream in self._last:
            self._marks[event] = self._last[stream]

    def follows(self, stream: int, event: Any) -> None:
        """A stream waits for an event."""
        if event in self._marks:
            self._also[stream] = (*self._also.get(stream, ()), self._marks[event])

    def timeline(self) -> Timeline:
        """What was measured so far, once it has ended."""
        self._context.use()
        placed: list[Placed] = []
        ends: dict[int, float] = {}
        for span in self._spans:
            times = self._times(span)
            if times is None:
                break  # a kernel was stopped: what came after it never ran
            start, end = times
            asked = min(span.asked, start)
            ready = min(start, max([asked, *(ends[before] for before in span.operation.after if before in ends)]))
            ends[span.operation.number] = end
            placed.append(Placed(replace(span.operation, microseconds=end - start), asked, ready, start, end))
        host = max([0.0, *(waited.end for waited in self._waits)])
        return Timeline(self._device, Schedule(tuple(placed), tuple(self._waits), host), measured=True)

    def _times(self, span: _Span) -> tuple[float, float] | None:
        driver = self._context.driver
        if self._context.lost or int(driver.cuEventSynchronize(span.ended)[0]):
            return None
        answers = [driver.cuEventElapsedTime(self._origin, event) for event in (span.began, span.ended)]
        if any(int(answer[0]) for answer in answers):
            return None
        start, end = (1000.0 * float(answer[1]) for answer in answers)
        return start, end

    def _event(self) -> Any:
        driver = self._context.driver
        event = self._context.check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT), "make an event")
        return event

    def _now(self) -> float:
        return (time.perf_counter() - self._clock) * 1e6 if hasattr(self, "_clock") else 0.0

    def __del__(self) -> None:
        for span in getattr(self, "_spans", ()):
            for event in (span.began, span.ended):
                self._context.discard(lambda event=event: self._context.driver.cuEventDestroy(event))  # type: ignore[misc]
