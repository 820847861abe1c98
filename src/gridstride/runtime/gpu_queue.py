"""A GPU's streams and events: every operation becomes calls of the driver, and what it needs is kept until the stream has passed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

from gridstride.events.operations import LEGACY, Kind
from gridstride.runtime import gpu_graph
from gridstride.runtime.array import Array
from gridstride.runtime.commands import Allocate, Command, Copy, Fill, Free, HostCall, Launch, Prefetch, rows_of
from gridstride.runtime.gpu_context import GpuContext, GpuStream
from gridstride.runtime.gpu_host_calls import CALLBACK, register
from gridstride.runtime.gpu_memory import GpuMemory
from gridstride.runtime.gpu_module import start_kernel
from gridstride.runtime.gpu_timing import Tape
from gridstride.runtime.gpu_transfers import copy_transfers, fill_transfers

if TYPE_CHECKING:
    from gridstride.runtime.graph import Replay
    from gridstride.runtime.streams import Event, Stream


@dataclass(eq=False)
class GpuEvent:
    """What is kept of an event."""

    handle: Any
    recorded: bool = False


class GpuQueue:
    """All streams of one device object."""

    def __init__(self, context: GpuContext) -> None:
        self._context = context
        self._legacy = GpuStream(0, LEGACY, "the default stream")
        context.streams.add(self._legacy)

    # ---- operations --------------------------------------------------------------------------------------------------

    def submit(self, stream: Stream, command: Command, tapes: Sequence[Tape], memory: GpuMemory) -> None:
        context, native = self._context, stream.native
        context.begin()
        if context.health.failure is not None:
            return  # as on the simulator: the device does nothing any more, and the host does not know yet
        with context.asking():
            with self._taped(tapes, native, stream.priority, command):
                self._carry_out(native, command, memory)
            context.keep(native, command)

    def _carry_out(self, stream: GpuStream, command: Command, memory: GpuMemory) -> None:
        context, driver = self._context, self._context.driver
        match command:
            case Launch():
                start_kernel(context, stream.handle, command)
            case Copy():
                for move in copy_transfers(command):
                    move.enqueue(context, stream.handle)
            case Fill():
                for transfer in fill_transfers(command.array, command.pattern):
                    transfer.enqueue(context, stream.handle)
            case HostCall():
                number = register(context, command, once=True)
                context.check(driver.cuLaunchHostFunc(stream.handle, driver.CUhostFn(CALLBACK), number), "call a function of the host")
            case Prefetch():
                self._prefetch(stream, command)
            case Allocate():
                pass  # the memory is there with the array
            case Free():
                memory.free_in(stream, command.array.storage)

    def _prefetch(self, stream: GpuStream, command: Prefetch) -> None:
        driver, rows = self._context.driver, rows_of(command.array)
        where, kinds = driver.CUmemLocation(), driver.CUmemLocationType
        where.type = kinds.CU_MEM_LOCATION_TYPE_HOST if command.to_host else kinds.CU_MEM_LOCATION_TYPE_DEVICE
        where.id = 0 if command.to_host else self._context.gpu.index
        if rows.nbytes:
            size = (rows.count - 1) * rows.pitch + rows.width
            answer = driver.cuMemPrefetchAsync(driver.CUdeviceptr(rows.address), size, where, 0, stream.handle)
            self._context.check(answer, "move managed memory")

    @contextmanager
    def _taped(self, tapes: Sequence[Tape], stream: GpuStream, priority: int, command: Command) -> Iterator[None]:
        """Around the calls of an operation, so that open recordings measure it."""
        if not tapes:
            yield
            return
        with ExitStack() as stack:
            for tape in tapes:
                stack.enter_context(tape.operation(stream, priority=priority, **self._told(command)))
            yield

    def _told(self, command: Command) -> dict[str, Any]:
        """An operation as a timeline has it."""
        told: dict[str, Any] = {"name": command.what.replace("`", "")}
        match command:
            case Launch():
                return {**told, "kind": Kind.KERNEL, "buffers": tuple(dict.fromkeys(command.names.values()))}
            case Copy():
                kind = Kind.TO_DEVICE if command.to_device else Kind.TO_HOST if command.to_host else Kind.ON_DEVICE
                ends = (command.destination, command.source)
                pageable = any(not isinstance(end, Array) and self._is_pageable(int(end.ctypes.data)) for end in ends)
                buffers = _names([end for end in ends if isinstance(end, Array)])
                return {**told, "kind": kind, "nbytes": command.nbytes, "pageable": pageable, "buffers": buffers}
            case Fill():
                return {**told, "kind": Kind.FILL, "nbytes": command.array.nbytes, "buffers": _names([command.array])}
            case HostCall():
                return {**told, "kind": Kind.HOST}
            case Prefetch():
                kind = Kind.PREFETCH_TO_HOST if command.to_host else Kind.PREFETCH_TO_DEVICE
                return {**told, "kind": kind, "nbytes": command.array.nbytes, "buffers": _names([command.array])}
            case Allocate() | Free():
                return {**told, "kind": Kind.FREE if isinstance(command, Free) else Kind.ALLOCATE, "buffers": _names([command.array])}

    def _is_pageable(self, address: int) -> bool:
        """Whether the driver does not know a host address: pinned and managed memory it does."""
        attribute = self._context.driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        return int(self._context.driver.cuPointerGetAttribute(attribute, address)[0]) != 0

    # ---- graphs ------------------------------------------------------------------------------------------------------

    def new_replay(self, replay: Replay) -> gpu_graph.GpuReplay:
        self._context.begin()
        return gpu_graph.instantiate(self._context, replay)

    def update_replay(self, replay: Replay, number: int) -> None:
        self._context.begin()
        with self._context.asking():
            gpu_graph.update(self._context, replay.native, number, replay.commands[number])

    def launch_replay(self, stream: Stream, replay: Replay, tapes: Sequence[Tape]) -> None:
        context, native = self._context, stream.native
        context.begin()
        if context.health.failure is not None:
            return
        kernels = [command for command in replay.commands if isinstance(command, Launch)]
        # a timeline leaves out a graph's marks, and this one stands for the kernels in it
        kind, name = Kind.KERNEL if kernels else Kind.GRAPH, f"graph of {len(replay.nodes)} operations"
        with context.asking():
            with ExitStack() as stack:
                for tape in tapes:
                    stack.enter_context(tape.operation(native, kind, name, priority=stream.priority))
                context.check(context.driver.cuGraphLaunch(replay.native.executable, native.handle), "launch a graph")
            context.kernels.update(dict.fromkeys(command.kernel.name for command in kernels))
            context.keep(native, (replay, tuple(replay.commands)))

    # ---- streams and events ------------------------------------------------------------------------------------------

    def new_stream(self, stream: Stream) -> GpuStream:
        if stream.number == LEGACY:
            return self._legacy
        context, flags = self._context, self._context.driver.CUstream_flags
        context.begin()
        flag = flags.CU_STREAM_NON_BLOCKING if stream.non_blocking else flags.CU_STREAM_DEFAULT
        handle = context.result(context.driver.cuStreamCreateWithPriority(int(flag), stream.priority), "make a stream")
        made = GpuStream(handle, stream.number, stream.name)
        context.streams.add(made)
        finalize(stream, context.discard, partial(context.destroy_stream, made)).atexit = False
        return made

    def new_event(self, event: Event) -> GpuEvent:
        context, flags = self._context, self._context.driver.CUevent_flags
        context.begin()
        flag = flags.CU_EVENT_DEFAULT if event.timing else flags.CU_EVENT_DISABLE_TIMING
        made = GpuEvent(context.result(context.driver.cuEventCreate(int(flag)), "make an event"))
        finalize(event, context.discard, partial(context.driver.cuEventDestroy, made.handle)).atexit = False
        return made

    def record(self, stream: GpuStream, event: GpuEvent, tapes: Sequence[Tape]) -> None:
        self._context.begin()
        event.recorded = True
        if self._context.health.failure is not None:
            return
        with self._context.asking():
            self._context.check(self._context.driver.cuEventRecord(event.handle, stream.handle), "record an event")
        for tape in tapes:
            tape.marked(stream.number, event)

    def wait(self, stream: GpuStream, event: GpuEvent, tapes: Sequence[Tape]) -> None:
        self._context.begin()
        if not event.recorded or self._context.health.failure is not None:
            return
        with self._context.asking():
            self._context.check(self._context.driver.cuStreamWaitEvent(stream.handle, event.handle, 0), "let a stream wait")
        for tape in tapes:
            tape.follows(stream.number, event)

    def synchronize_event(self, event: GpuEvent) -> None:
        self._context.begin()
        if event.recorded:
            with self._context.waiting():
                self._context.check(self._context.driver.cuEventSynchronize(event.handle), "wait for an event")
                self._context.let_go()

    def done(self, query: Callable[[Any], tuple[Any, ...]], handle: Any) -> bool:
        """The answer of a query. Raises what went wrong before."""
        context = self._context
        context.begin()
        ended = True
        with context.waiting():
            answer = query(handle)
            if answer[0] == context.driver.CUresult.CUDA_ERROR_NOT_READY:
                ended = False
            else:
                context.check(answer, "ask whether work has ended")
        return ended


def _names(arrays: Sequence[Array]) -> tuple[str, ...]:
    return tuple(array.name or array.storage.known_as or f"{array.storage.address:#x}" for array in arrays)
