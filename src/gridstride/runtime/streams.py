"""`Stream` and `Event`: queues of work on a device, and marks in them to wait for and to take the time between.

    copies, work = device.stream(), device.stream()
    x.copy_from(staged, stream=copies)
    work.wait(copies.record())
    scale[blocks, 256](n, x, stream=work)
    work.synchronize()

The same on the simulator and on a GPU; what they do differently is behind `Device`'s methods for streams.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gridstride.errors import UsageError
from gridstride.events.operations import LEGACY
from gridstride.runtime.array import Array
from gridstride.runtime.checking import api_call
from gridstride.runtime.commands import Command, Free, HostCall, Prefetch, copy_command, fill_command
from gridstride.runtime.host_memory import HostArray, ManagedArray
from gridstride.runtime.names import look_up

if TYPE_CHECKING:
    from gridstride.runtime.device import Device
    from gridstride.runtime.graph import Graph, Node


class Event:
    """A mark in a stream: `stream.record(event)` sets it, `wait` and `synchronize` wait for it, `start.elapsed_ms(stop)` is the time between."""

    def __init__(self, device: Device, *, timing: bool = True) -> None:
        self.device = device
        self.timing = timing
        self.native: Any = device.new_event(self)
        self.captured: tuple[Node, ...] | None = None
        """The nodes of a graph that a waiting stream would follow; None where it was not recorded in a stream that is being captured."""
        self.graph: Graph | None = None

    @property
    def recorded(self) -> bool:
        return self.captured is not None or self.device.event_recorded(self)

    @property
    def done(self) -> bool:
        """Whether everything before the mark has ended; also true of an event that was never recorded, as in CUDA."""
        self._require_outside_capture("asked whether it is done")
        return self.device.event_done(self)

    def synchronize(self) -> None:
        """Wait until everything before the mark has ended. Raises the fault of a kernel that was stopped."""
        self._require_outside_capture("waited for by the host")
        self.device.synchronize_event(self)

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to `end`, both recorded and done. On the simulator they are the modelled device's."""
        for event in (self, end):
            event._require_outside_capture("timed")
            if not event.timing:
                raise UsageError("the event was made with timing=False, so no time was taken")
            if not event.recorded:
                raise UsageError("the event was never recorded: stream.record(event) comes first")
            if event.device is not self.device:
                raise UsageError("the events belong to different devices")
        if not (self.done and end.done):
            raise UsageError("an event between which time is asked for has not been reached; synchronize first")
        return self.device.elapsed_ms(self, end)

    def __sub__(self, start: Event) -> float:
        """`end - start` in milliseconds."""
        if not isinstance(start, Event):
            return NotImplemented
        return start.elapsed_ms(self)

    def __repr__(self) -> str:
        return f"<gridstride.Event of {self.device}, {'recorded' if self.recorded else 'never recorded'}>"

    def _require_outside_capture(self, what: str) -> None:
        if self.captured is not None:
            raise UsageError(f"the event was recorded while a graph was captured and cannot be {what}")


class Stream:
    """A queue of work: what is asked of it runs in that order, beside the work of other streams.

    priority: smaller is served first. non_blocking: does not take part in the legacy default stream's rule. name: what messages call it.
    """

    def __init__(self, device: Device, number: int, *, priority: int = 0, non_blocking: bool = False, name: str | None = None) -> None:
        self.device = device
        self.number = number
        self.priority = priority
        self.non_blocking = non_blocking
        self.name = f"stream `{name}`" if name else "the default stream" if number == LEGACY else f"stream {number}"
        self.native: Any = device.new_stream(self)
        self.graph: Graph | None = None  # that is being captured
        self.tail: tuple[Node, ...] = ()  # what the next captured operation follows
        self._closed = False

    def submit(self, command: Command) -> None:
        """Ask for one operation; or note it in the graph that is being captured."""
        self._require_open()
        if self.graph is not None:
            self.tail = (self.graph.add(command, after=self.tail),)
            return
        if self.number == LEGACY:
            self.device.require_no_capture("the default stream")
        self.device.submit(self, command)

    def copy(self, destination: Any, source: Any) -> None:
        """Copy between arrays of the same shape and type, device arrays and the host's, without waiting (see `Array.copy_from`)."""
        self.copy_for(sys._getframe(1), destination, source)

    def copy_for(self, caller: FrameType, destination: Any, source: Any) -> None:
        """`copy` for a caller whose variables name the arrays."""
        with api_call():
            ends = end_of_copy(destination), end_of_copy(source)
            look_up(ends, caller)
            command = copy_command(*ends)
        self.submit(command)

    def fill(self, array: Array, value: Any) -> None:
        """Set every element of a device array."""
        with api_call():
            command = fill_command(array, value)
        self.submit(command)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function of the host when everything before has ended; what comes after waits for it. It must not use the device."""
        if not callable(function):
            raise UsageError(f"a host function is something to call, not {type(function).__name__} {function!r:.40}")
        self.submit(HostCall(function, arguments))

    def prefetch(self, array: Array, *, to_host: bool = False) -> None:
        """Move managed memory to the device, or to the host, before it is used there."""
        if not isinstance(array, ManagedArray):
            raise UsageError("only managed memory (device.managed(…)) is prefetched")
        self.submit(Prefetch(array, to_host))

    def free(self, array: Array) -> None:
        """Give an array of the stream's pool (`stream.empty`) back once everything asked before has ended."""
        self.submit(Free(array))

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32, *, name: str | None = None) -> Array:
        """An array from the device's stream-ordered pool, there for what is asked of this stream from now on; `free` gives it back."""
        self._require_open()
        if self.graph is not None:
            raise UsageError("memory of a pool cannot be allocated while a graph is captured; allocate it before")
        return self.device.pool_array(self, shape, dtype, name)

    def record(self, event: Event | None = None) -> Event:
        """Set a mark here; a new event unless one is given. Gives the event."""
        self._require_open()
        event = Event(self.device) if event is None else event
        self._require_mine(event)
        if self.graph is not None:
            event.captured, event.graph = self.tail, self.graph
        else:
            event.captured = event.graph = None
            self.device.record_event(self, event)
        return event

    def wait(self, event: Event) -> None:
        """What is asked of this stream from now on runs only after what `event` marks. An event never recorded is no wait, as in CUDA."""
        self._require_open()
        self._require_mine(event)
        if event.captured is not None:
            assert event.graph is not None
            if not event.graph.capturing:
                raise UsageError("the event belongs to a capture that has ended")
            self._join(event.graph, event.captured)
        elif self.graph is not None:
            raise UsageError("a stream that is being captured can wait only for events recorded in the same capture")
        else:
            self.device.wait_event(self, event)

    def _join(self, graph: Graph, nodes: tuple[Node, ...]) -> None:
        if self.graph is None:
            self.graph, self.tail = graph, ()
            graph.streams.append(self)
        elif self.graph is not graph:
            raise UsageError(f"{self.name} is being captured into another graph")
        self.tail = tuple(dict.fromkeys((*self.tail, *nodes)))

    @property
    def done(self) -> bool:
        """Whether everything asked of the stream has ended (`cudaStreamQuery`)."""
        self._require_outside_capture("asked whether it is done")
        return self.device.stream_done(self)

    def synchronize(self) -> None:
        """Wait until everything asked of the stream has ended. Raises the fault of a kernel that was stopped."""
        self._require_outside_capture("waited for")
        self.device.synchronize_stream(self)

    @contextmanager
    def capture(self) -> Iterator[Graph]:
        """Note what is asked of this stream, and of streams that wait for events recorded in it, in a graph instead of doing it.

            with stream.capture() as graph:
                …
            replay = graph.instantiate()
            replay.launch(stream)
        """
        from gridstride.runtime.graph import Graph  # here: a graph holds streams

        self._require_open()
        if self.number == LEGACY:
            raise UsageError("the legacy default stream cannot be captured; make one with device.stream()")
        if self.graph is not None:
            raise UsageError(f"{self.name} is being captured already")
        graph = Graph(self.device)
        graph.begin_capture(self)
        try:
            yield graph
        except BaseException:
            graph.end_capture(self, whole=False)
            raise
        graph.end_capture(self)

    def close(self) -> None:
        """Wait for the stream and give it up; it can be asked for nothing more."""
        if self._closed or self.number == LEGACY:
            return
        self.synchronize()
        self._closed = True
        self.device.close_stream(self)

    def require_usable(self, device: Device, what: str) -> None:
        """Raise UsageError for a closed stream, or one that is not of the device that `what` belongs to."""
        self._require_open()
        if self.device is not device:
            raise UsageError(f"{what} belongs to another device object than {self.name}")

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.name} was closed")

    def _require_mine(self, event: Event) -> None:
        if not isinstance(event, Event):
            raise UsageError(f"an event is made by stream.record() or device.event(), not {type(event).__name__} {event!r:.40}")
        if event.device is not self.device:
            raise UsageError(f"the event belongs to another device object ({event.device})")

    def _require_outside_capture(self, what: str) -> None:
        self._require_open()
        if self.graph is not None:
            raise UsageError(f"{self.name} is being captured into a graph and cannot be {what}")

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()

    def __repr__(self) -> str:
        return f"<gridstride.Stream {self.name} of {self.device}>"


def end_of_copy(array: Any) -> Any:
    """An array as one end of a copy in a stream. Raises UsageError for what is none."""
    if isinstance(array, HostArray):
        return array.in_stream
    if isinstance(array, Array | np.ndarray):
        return array
    raise UsageError(f"a copy in a stream is between device arrays, pinned arrays and NumPy arrays, not {type(array).__name__}")
