"""A GPU of this machine as a device: the same contract as the simulator's, carried out by CUDA's driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError, UnsupportedError
from gridstride.events.operations import Kind
from gridstride.frontends.source import LoadedSource
from gridstride.machine.limits import check_launch
from gridstride.observers.checks import launch_shape
from gridstride.runtime import checking, profiling, python_exceptions, recording
from gridstride.runtime.array import Array
from gridstride.runtime.commands import Command, Fill, Launch
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, Shape, _checked, _extents
from gridstride.runtime.gpu_context import GpuContext, GpuStream, retire
from gridstride.runtime.gpu_driver import DriverError, find_gpu
from gridstride.runtime.gpu_memory import GpuMemory
from gridstride.runtime.gpu_module import GpuKernel, GpuModule
from gridstride.runtime.gpu_queue import GpuEvent, GpuQueue
from gridstride.runtime.gpu_sharing import borrow, is_foreign
from gridstride.runtime.gpu_specs import spec_of
from gridstride.runtime.gpu_timing import Tape
from gridstride.runtime.gpu_transfers import Move
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.runtime.graph import Replay
    from gridstride.runtime.module import Kernel
    from gridstride.runtime.streams import Event, Stream

NOT_CHECKED = "launches on a GPU: only the simulator checks"
NOT_COUNTED = "launches on a GPU are not counted: profile the same program on the simulator"


class GpuDevice(Device):
    """A GPU. Device objects of the same GPU share its context and its legacy default stream, and a fault is the end of all of them."""

    def __init__(self, context: GpuContext, *, blocking: bool = False, per_thread_default: bool = False) -> None:
        context.use()
        super().__init__(f"gpu:{context.gpu.index}", spec_of(context), blocking=blocking, per_thread_default=per_thread_default)
        self.context = context
        least, greatest = context.check(context.driver.cuCtxGetStreamPriorityRange(), "read the priorities of streams")
        self.stream_priorities = int(least), int(greatest)
        self._memory = GpuMemory(self)
        self._queue = GpuQueue(context)
        finalize(self, retire, context).atexit = False

    # ---- code --------------------------------------------------------------------------------------------------------

    def load(self, source: LoadedSource) -> GpuModule:
        return GpuModule(self, source)

    def require_launchable(self, kernel: Kernel, shape: LaunchShape) -> None:
        registers = kernel.own_registers if isinstance(kernel, GpuKernel) else None
        try:
            check_launch(
                self.spec, shape.grid, shape.block, kernel.static_shared + shape.shared, registers=registers, max_threads=kernel.max_threads
            )
        except LaunchError as error:
            checking.record([launch_shape.refused(kernel.name, str(error))])
            raise
        if not isinstance(kernel, GpuKernel):
            raise LaunchError(f"{kernel.name} was compiled for {kernel.module.device}, not for {self}")

    def launch(self, command: Launch) -> LaunchOutcome:
        stream = self.default_stream
        start, end = self.event(), self.event()
        stream.record(start)
        stream.submit(command)
        stream.record(end)
        end.synchronize()
        python_exceptions.require_none(command.kernel)
        return LaunchOutcome(self.elapsed_ms(start, end) / 1e3, command.shape.threads)

    # ---- streams and events ------------------------------------------------------------------------------------------

    def submit(self, stream: Stream, command: Command) -> None:
        if isinstance(command, Launch):
            checking.skip(NOT_CHECKED)
            profiling.skip(NOT_COUNTED)
        self._queue.submit(stream, command, self._tapes(), self._memory)
        if self.blocking and isinstance(command, Launch):
            self.context.synchronize(stream.native, stream.name)

    def new_stream(self, stream: Stream) -> GpuStream:
        return self._queue.new_stream(stream)

    def close_stream(self, stream: Stream) -> None:
        self.context.begin()
        self.context.destroy_stream(stream.native)

    def stream_done(self, stream: Stream) -> bool:
        return self._queue.done(self.context.driver.cuStreamQuery, stream.native.handle)

    def synchronize_stream(self, stream: Stream) -> None:
        with self._host_waits(stream.name):
            self.context.synchronize(stream.native, stream.name)

    def new_event(self, event: Event) -> GpuEvent:
        return self._queue.new_event(event)

    def record_event(self, stream: Stream, event: Event) -> None:
        self._queue.record(stream.native, event.native, self._tapes())

    def wait_event(self, stream: Stream, event: Event) -> None:
        self._queue.wait(stream.native, event.native, self._tapes())

    def event_recorded(self, event: Event) -> bool:
        mark: GpuEvent = event.native
        return mark.recorded

    def event_done(self, event: Event) -> bool:
        return self._queue.done(self.context.driver.cuEventQuery, event.native.handle)

    def synchronize_event(self, event: Event) -> None:
        with self._host_waits("an event"):
            self._queue.synchronize_event(event.native)

    def elapsed_ms(self, start: Event, end: Event) -> float:
        self.context.begin()
        with self.context.waiting():
            answer = self.context.driver.cuEventElapsedTime(start.native.handle, end.native.handle)
            milliseconds = float(self.context.check(answer, "read the time between events"))
        return milliseconds

    def new_replay(self, replay: Replay) -> Any:
        return self._queue.new_replay(replay)

    def update_replay(self, replay: Replay, number: int) -> None:
        self._queue.update_replay(replay, number)

    def launch_replay(self, stream: Stream, replay: Replay) -> None:
        if any(isinstance(command, Launch) for command in replay.commands):
            checking.skip(NOT_CHECKED)
            profiling.skip(NOT_COUNTED)
        self._queue.launch_replay(stream, replay, self._tapes())
        if self.blocking:
            self.context.synchronize(stream.native, stream.name)

    def synchronize(self) -> None:
        self.require_no_capture("waiting for the device")
        with self._host_waits("the device"):
            self.context.synchronize(None, "the device")

    def _tapes(self) -> list[Tape]:
        """What open recordings measure of this device."""
        if not recording.is_recording():
            return []
        self.context.use()
        return recording.measurements(self, partial(Tape, self.context, self.name))

    @contextmanager
    def _host_waits(self, what: str) -> Iterator[None]:
        with ExitStack() as stack:
            for tape in self._tapes():
                stack.enter_context(tape.wait(what))
            yield

    # ---- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        return self._memory.device_memory(nbytes, name)

    def pool_array(self, stream: Stream, shape: Shape, dtype: npt.DTypeLike, name: str | None) -> Array:
        extents, element = _extents(shape), _checked(dtype)
        nbytes = int(np.prod(extents, dtype=object)) * element.itemsize
        storage = self._memory.pool_memory(stream.native, nbytes, name)
        return Array(storage, storage.address, extents, element)

    def allocate_host(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        return self._memory.host_memory(nbytes, name)

    def allocate_managed(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        return self._memory.managed_memory(nbytes, name)

    def storage_of_variable(self, module: GpuModule, address: int, size: int, name: str) -> Storage:
        """A module's variable as memory for arrays."""
        return self._memory.of_module(module, address, size, name)

    def host_touches(self, array: Array, *, reads: bool, writes: bool) -> None:
        """Pages move by themselves. A function that a stream calls may use what the host has of memory, as this asks nothing of the driver."""
        if not self.context.in_host_function:
            self.context.require_healthy()

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        array = self.empty(shape, dtype, name=name)
        self.require_outside_streams()
        self.default_stream.submit(Fill(array, bytes(array.dtype.itemsize)))
        self.default_stream.synchronize()  # so that any stream may use it, as for every other array with a content
        return array

    def array(self, data: Any, dtype: npt.DTypeLike | None = None, *, name: str | None = None) -> Array:
        """As `Device.array`; what already lies in a GPU's memory (CuPy, PyTorch, another array) is copied there, not through the host."""
        if is_foreign(data):
            borrowed, stream = borrow(data)
            nbytes = int(np.prod(borrowed.shape, dtype=object)) * borrowed.dtype.itemsize
            storage = self._memory.borrowed(borrowed.owner, borrowed.address, nbytes)
            source = Array(storage, borrowed.address, borrowed.shape, _checked(borrowed.dtype), borrowed.strides)
            if stream:
                self.context.begin()
                self.context.result(self.context.driver.cuStreamSynchronize(stream), "wait for the other library's stream")
        elif isinstance(data, Array) and data.device is self:
            source = data
        else:
            return super().array(data, dtype, name=name)
        if dtype is not None and _checked(dtype) != source.dtype:
            return super().array(source.numpy(), dtype, name=name)
        made = self.empty(source.shape, source.dtype, name=name).copy_from(source)
        self.default_stream.synchronize()  # the other library may reuse its memory once we return
        return made

    def require_outside_streams(self) -> None:
        """What a copy or fill that is asked of no stream starts with."""
        self.context.begin()
        self.context.health.surface()
        self.require_no_capture("a copy outside of streams")

    def copy_and_wait(self, move: Move, name: str | None) -> None:
        """A copy between an array and the host that is asked of no stream: in the default stream, and the host waits."""
        self.require_outside_streams()
        stream: GpuStream = self.default_stream.native
        kind = Kind.TO_HOST if move.destination.on_host else Kind.TO_DEVICE
        label = f"the copy {'of' if kind is Kind.TO_HOST else 'to'} {name or 'an array'}{' to the host' if kind is Kind.TO_HOST else ''}"
        with self.context.waiting(), ExitStack() as stack:
            for tape in self._tapes():
                buffers = (name,) if name else ()
                more = {"nbytes": move.width, "pageable": True, "host_waits": True, "buffers": buffers}
                stack.enter_context(tape.operation(stream, kind, label, **more))
            move.enqueue(self.context, stream.handle)
        self.context.synchronize(stream, "a copy")


def open_gpu(index: int, *, blocking: bool, per_thread_default: bool) -> GpuDevice:
    """The GPU `index`. Raises UnsupportedError, saying what is missing, where there is none."""
    gpu = find_gpu(index)
    try:
        return GpuDevice(GpuContext(gpu), blocking=blocking, per_thread_default=per_thread_default)
    except (DriverError, RuntimeError) as error:  # the bindings raise RuntimeError for a function that an old driver lacks
        raise UnsupportedError(f"{gpu.name} cannot be used: {error}") from error
