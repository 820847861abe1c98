"""The simulator's streams: every operation is carried out when it is asked for, which is one order that its streams and events allow;
when it would have run on the device is the model's business, and whether another order would have given something else that of the check
of stream hazards.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from gridstride.errors import GridstrideError, KernelFault, UsageError
from gridstride.events.hazards import NOTHING, Access, Hazard, Hazards, Ranges, ranges
from gridstride.events.operations import HOST, HostWait, Kind, Operation, Step
from gridstride.events.order import Moment, Order, Stamp
from gridstride.events.schedule import Model
from gridstride.events.transfers import copy_microseconds, link_of, on_device_microseconds
from gridstride.observers.checks import stream_hazard
from gridstride.runtime import recording
from gridstride.runtime.array import Array
from gridstride.runtime.checking import is_checking, operated
from gridstride.runtime.checking import record as record_findings
from gridstride.runtime.commands import Allocate, Command, Copy, Fill, Free, HostCall, Launch, Prefetch, label
from gridstride.runtime.health import Health
from gridstride.runtime.managed_pages import ManagedPages
from gridstride.runtime.names import extent_of

if TYPE_CHECKING:
    from gridstride.runtime.device import LaunchOutcome
    from gridstride.runtime.graph import Replay
    from gridstride.runtime.simulator import Simulator
    from gridstride.runtime.streams import Event, Stream

_T = TypeVar("_T")


@dataclass
class _Done:
    """What one operation was: for the model of time, and for the check of hazards."""

    kind: Kind
    microseconds: float = 0.0
    share: float = 1.0
    nbytes: int = 0
    pageable: bool = False
    buffers: tuple[str, ...] = ()
    reads: Ranges = field(default_factory=lambda: NOTHING)
    writes: Ranges = field(default_factory=lambda: NOTHING)
    updates: Ranges = field(default_factory=lambda: NOTHING)
    outcome: LaunchOutcome | None = None


@dataclass
class EventMark:
    """What the simulator keeps of an event: where it was recorded last, and the number of that operation."""

    moment: Moment | None = None
    number: int = -1


def _alone(method: Callable[..., _T]) -> Callable[..., _T]:
    """A method that one thread of the host at a time is in."""

    @functools.wraps(method)
    def locked(self: SimulatedQueue, *arguments: Any, **options: Any) -> _T:
        with self.lock:
            return method(self, *arguments, **options)

    return locked


class SimulatedQueue:
    """All streams of one simulator."""

    def __init__(self, device: Simulator) -> None:
        self._weak_device = weakref.ref(device)  # so that a device ends with its last user
        self.lock = threading.RLock()
        """Held by whatever asks the device for something: threads of the host take turns."""
        self._link = link_of(device.spec)
        self._order = Order()
        self._hazards = Hazards(self._order)
        self._numbers = count()
        self._model: Model | None = None  # from the first event on that takes time
        self.health = Health()
        self._in_host_function = False
        self.pages = ManagedPages()
        self.concurrent = False
        """There are several streams, or memory that the host reaches while kernels run."""

    # ---- errors ------------------------------------------------------------------------------------------------------

    def require_healthy(self) -> None:
        """Raise the fault of an earlier kernel, once a call that waits has told of it: after that every call does, as CUDA's do."""
        if self._in_host_function:
            raise UsageError("a function that a stream calls must not use the device (CUDA forbids it: cudaErrorNotPermitted)")
        if self.health.surfaced:
            self.health.surface()

    def surface(self) -> None:
        """A call that waits: raise the fault of an earlier kernel."""
        self.health.surface()

    @property
    def _device(self) -> Simulator:
        device = self._weak_device()
        assert device is not None
        return device

    # ---- operations --------------------------------------------------------------------------------------------------

    @property
    def keeps_time(self) -> bool:
        """Whether durations are wanted, so that kernels have to be counted."""
        return self._model is not None or recording.is_recording()

    @property
    def traces(self) -> bool:
        """Whether what kernels read and wrote is wanted: something could be under way beside them."""
        return self.concurrent and is_checking(stream_hazard.CHECK.kind)

    @_alone
    def submit(self, stream: Stream, command: Command) -> None:
        """Ask for an operation in a stream. A kernel that is stopped stops the device, and the next call that waits tells of it."""
        self.require_healthy()
        if self.health.failure is None:  # else the device does nothing any more, and the host does not know yet
            try:
                self._carry_out(stream, command)
            except KernelFault as fault:
                self._stopped(fault)

    def _stopped(self, fault: KernelFault) -> None:
        """A kernel was stopped: raise it now, or keep it for the next call that waits."""
        if self._device.blocking or fault.code == "interrupted" or fault.raised is not None:
            raise fault
        self.health.failure = fault

    @_alone
    def run(self, stream: Stream, command: Launch) -> LaunchOutcome:
        """Run a kernel to its end in a stream and wait for it. Raises KernelFault where it is stopped, which does not stop the device."""
        self.require_healthy()
        self.surface()
        outcome = self._carry_out(stream, command)
        self.synchronize(self.moment(stream), _plain(command.what))
        assert outcome is not None
        return outcome

    @_alone
    def launch_replay(self, stream: Stream, replay: Replay) -> None:
        """Run a graph: its operations follow each other as its edges say, all of them what the stream had, and the stream all of them."""
        self.require_healthy()
        if self.health.failure is not None:
            return
        mark: EventMark = replay.native
        if mark.moment is not None:  # launches of one instantiated graph follow each other, in whatever streams
            self._order.wait(stream.number, mark.moment)
        self._mark(stream)
        before = self._order.moment(stream.number)
        lanes = [self._order.fork(before) for _ in replay.nodes]
        moments: list[Moment] = []
        for node, command in zip(replay.nodes, replay.commands, strict=True):
            lane = lanes[node.number]
            for earlier in node.after:
                self._order.wait(lane, moments[earlier.number])
            try:
                self._carry_out(stream, command, in_graph=True, lane=lane)
            except KernelFault as fault:
                self._stopped(fault)
                break
            moments.append(self._order.moment(lane))
        for lane, moment in zip(lanes, moments, strict=False):
            self._order.wait(stream.number, moment)
            self._order.close(lane)
        for lane in lanes[len(moments) :]:
            self._order.close(lane)
        self._mark(stream, in_graph=True)
        mark.moment = self._order.moment(stream.number)

    def _mark(self, stream: Stream, *, in_graph: bool = False) -> None:
        """The start or the end of a graph, as an operation of its stream."""
        number = next(self._numbers)
        stamp = self._order.add(stream.number, number)
        self._step(Operation(number, Kind.GRAPH, "graph", stream.number, stamp.after, in_graph=in_graph))

    def _carry_out(self, stream: Stream, command: Command, *, in_graph: bool = False, lane: int | None = None) -> LaunchOutcome | None:
        number = next(self._numbers)
        stamp = self._order.add(stream.number if lane is None else lane, number)
        done = self._do(command)
        if self.keeps_time:
            operation = Operation(
                number,
                done.kind,
                _plain(command.what),
                stream.number,
                stamp.after,
                done.microseconds,
                done.share,
                done.nbytes,
                done.pageable,
                done.pageable,
                done.buffers,
                stream.priority,
                in_graph,
                stream.name,
            )
            self._step(operation)
        if is_checking(stream_hazard.CHECK.kind):
            self._check(command, f"a graph in {stream.name}" if in_graph else stream.name, stamp, done)
        if done.pageable:
            self._order.host_waits(self._order.moment(stream.number))
        if isinstance(command, HostCall):  # it may have told the host that all before it is done
            self._order.host_waits(self._order.moment(stream.number if lane is None else lane))
        if isinstance(command, Free):
            command.array.free()  # now that findings can no longer ask what lies there
        return done.outcome

    def _step(self, step: Step) -> None:
        if self._model is not None:
            self._model.take(step)
        recording.record(self._device, step)

    def _do(self, command: Command) -> _Done:
        match command:
            case Launch():
                return self._launch(command)
            case Copy():
                return self._copy(command)
            case Fill():
                command.array.set_bytes(command.pattern)
                return _Done(
                    Kind.FILL,
                    on_device_microseconds(self._device.spec, command.array.nbytes, reads=False),
                    nbytes=command.array.nbytes,
                    buffers=_names([command.array]),
                    writes=_extents([command.array]),
                )
            case HostCall():
                self._call(command)
                return _Done(Kind.HOST)
            case Prefetch():
                moved = self.pages.move(command.array, to_host=command.to_host)
                microseconds = copy_microseconds(self._link, moved, to_device=not command.to_host, pageable=False)
                kind = Kind.PREFETCH_TO_HOST if command.to_host else Kind.PREFETCH_TO_DEVICE
                return _Done(kind, microseconds, nbytes=moved, buffers=_names([command.array]), reads=_extents([command.array]))
            case Free():
                return _Done(Kind.FREE, buffers=_names([command.array]), writes=_extents([command.array]))
            case Allocate():
                return _Done(Kind.ALLOCATE, buffers=_names([command.array]), writes=_extents([command.array]))

    def _launch(self, command: Launch) -> _Done:
        arrays = [a for a in command.arguments if isinstance(a, Array)]
        outcome = self._device.execute(command)
        microseconds, share = 0.0, 1.0
        moved = sum(self.pages.move(a, to_host=False) for a in arrays)
        if self.keeps_time:
            known = recording.known_duration(command.kernel.name)
            microseconds = known if known is not None else outcome.kernel_us or 0.0
            share = self._device.share_of(command)
            crossed = sum(a.nbytes for a in arrays if self._device.is_pinned(a.address))
            microseconds += moved / (self._link.fault_to_device * 1e3) + crossed / (self._link.mapped * 1e3)
        reads, writes, updates = self._device.touched(command) if self.traces else (NOTHING, NOTHING, NOTHING)
        names = tuple(dict.fromkeys(command.names.values()))
        return _Done(Kind.KERNEL, microseconds, share, buffers=names, reads=reads, writes=writes, updates=updates, outcome=outcome)

    def _copy(self, command: Copy) -> _Done:
        destination, source = command.destination, command.source
        if isinstance(destination, Array):
            destination.take(source)
        else:
            assert isinstance(source, Array)
            source.give(destination)
        host = [end for end in (destination, source) if not isinstance(end, Array)]
        pageable = any(not self._device.is_pinned(int(end.ctypes.data)) for end in host)
        if not host:
            kind, microseconds = Kind.ON_DEVICE, on_device_microseconds(self._device.spec, command.nbytes, reads=True)
        else:
            kind = Kind.TO_DEVICE if command.to_device else Kind.TO_HOST
            microseconds = copy_microseconds(self._link, command.nbytes, to_device=command.to_device, pageable=pageable)
        buffers = _names([end for end in (destination, source) if isinstance(end, Array)])
        return _Done(
            kind, microseconds, nbytes=command.nbytes, pageable=pageable, buffers=buffers, reads=_extents([source]), writes=_extents([destination])
        )

    def _call(self, command: HostCall) -> None:
        self._in_host_function = True
        try:
            command.function(*command.arguments)
        except GridstrideError as error:
            self.health.raised(error)
        except Exception as error:  # noqa: BLE001 - whatever the caller's function raises is told at the next wait
            failure = UsageError(f"{command.what} raised {type(error).__name__}: {error}")
            failure.__cause__ = error
            self.health.raised(failure)
        finally:
            self._in_host_function = False
        if self._device.blocking:
            self.health.surface()

    # ---- hazards -----------------------------------------------------------------------------------------------------

    def _check(self, command: Command, stream: str, stamp: Stamp, done: _Done) -> None:
        operated()
        kernel = command.kernel.name if isinstance(command, Launch) else ""
        access = Access(stamp, command.what, kernel, stream, done.reads, done.writes, done.updates)
        found = [self._tell(h) for h in self._hazards.add(access)]
        if done.pageable:
            found.append(stream_hazard.pageable(command.what, stream, done.buffers[0] if done.buffers else None))
        if found:
            record_findings(found)

    @_alone
    def host_touches(self, array: Array, *, reads: bool, writes: bool) -> None:
        """The host uses memory that the device reaches too. A function that a stream calls stands in the stream's order, which is not looked at."""
        if self._in_host_function or self.health.failure is not None:
            return  # memory of the host can be read whatever has become of the device
        if is_checking(stream_hazard.CHECK.kind):
            extents = _extents([array])
            found = self._hazards.host(extents if reads else NOTHING, extents if writes else NOTHING)
            if found:
                record_findings([self._tell(h) for h in found])
        moved = self.pages.move(array, to_host=True)
        if moved and self.keeps_time:
            number = next(self._numbers)
            self._step(
                Operation(number, Kind.PREFETCH_TO_HOST, "pages back to the host", HOST, (), moved / (self._link.fault_to_host * 1e3), nbytes=moved, host_waits=True)
            )

    def _tell(self, hazard: Hazard) -> Any:
        return stream_hazard.tell(hazard, *self._device.place_of(hazard.address))

    # ---- events ------------------------------------------------------------------------------------------------------

    @_alone
    def open(self, stream: Stream) -> None:
        self.concurrent = True
        self._order.open(stream.number, blocking=not stream.non_blocking)

    @_alone
    def close(self, stream: int) -> None:
        self._order.close(stream)

    @_alone
    def record(self, stream: Stream, event: Event) -> None:
        self.require_healthy()
        number = next(self._numbers)
        mark: EventMark = event.native
        if event.timing and self._model is None:
            self._model = Model(self._link)
        stamp = self._order.add(stream.number, number)
        mark.moment, mark.number = self._order.moment(stream.number), number
        self._step(Operation(number, Kind.EVENT, "event", stream.number, stamp.after))

    @_alone
    def wait(self, stream: Stream, event: Event) -> None:
        self.require_healthy()
        mark: EventMark = event.native
        if mark.moment is not None:
            self._order.wait(stream.number, mark.moment)

    @_alone
    def elapsed_ms(self, start: Event, end: Event) -> float:
        self.surface()
        if self._model is None:
            return 0.0
        return (self._model.end(end.native.number) - self._model.end(start.native.number)) / 1e3

    # ---- waiting -----------------------------------------------------------------------------------------------------

    @_alone
    def synchronize(self, moment: Moment | None, what: str) -> None:
        """The host waits for a place in a stream; None: for everything."""
        self.require_healthy()
        until = self._order.everything() if moment is None else moment.last
        self._step(HostWait(until, what))
        self._order.host_waits(moment)
        if moment is None and self._model is not None:
            self._model.forget()
        self.surface()

    @_alone
    def seen_done(self, moment: Moment | None) -> None:
        """The host has asked whether a place in a stream was reached, and heard that it was: from then on it knows."""
        self.surface()
        if moment is not None:
            self._order.host_waits(moment)

    @_alone
    def moment(self, stream: Stream) -> Moment:
        return self._order.moment(stream.number)

    def require_outside_streams(self) -> None:
        """Raise what stands against a copy or fill outside of streams: an earlier kernel's fault, a capture."""
        self.require_healthy()
        self.surface()
        self._device.require_no_capture("a copy outside of streams")

    @_alone
    def outside_streams(self, what: str, array: Array, *, kind: Kind, source: Array | None = None) -> None:
        """A copy or fill that was asked of no stream: it stands in the default stream, and the host waits for copies from or to it."""
        self.require_outside_streams()
        stream = self._device.default_stream
        number = next(self._numbers)
        stamp = self._order.add(stream.number, number)
        host = kind in (Kind.TO_DEVICE, Kind.TO_HOST)
        if self.keeps_time:
            if host:
                microseconds = copy_microseconds(self._link, array.nbytes, to_device=kind is Kind.TO_DEVICE, pageable=True)
            else:
                microseconds = on_device_microseconds(self._device.spec, array.nbytes, reads=kind is Kind.ON_DEVICE)
            nbytes, buffers = array.nbytes, _names([array])
            self._step(
                Operation(number, kind, _plain(what), stream.number, stamp.after, microseconds, nbytes=nbytes, pageable=host, host_waits=host, buffers=buffers, stream_name=stream.name)
            )
        if is_checking(stream_hazard.CHECK.kind):
            operated()
            extents = _extents([array])
            reads = extents if kind is Kind.TO_HOST else NOTHING if source is None else _extents([source])
            writes = NOTHING if kind is Kind.TO_HOST else extents
            found = [self._tell(h) for h in self._hazards.add(Access(stamp, what, "", stream.name, reads, writes))]
            if found:
                record_findings(found)
        if host:
            self._order.host_waits(self._order.moment(stream.number))


def _extents(arrays: Sequence[Any]) -> Ranges:
    """The addresses that arrays take up, row by row where they have gaps."""
    spans: list[tuple[int, int]] = []
    for array in arrays:
        if array.size:
            spans += extent_of(array)
    return ranges(spans)


def _names(arrays: Sequence[Array]) -> tuple[str, ...]:
    return tuple(label(array).replace("`", "") if array.name or array.storage.known_as else f"{array.storage.address:#x}" for array in arrays)


def _plain(what: str) -> str:
    """A name for a chart, without the marks of code."""
    return what.replace("`", "")
