"""CUDA's driver as numba calls it, on a simulated device.

Numba asks its driver object for `cuMemAlloc` and the like, and gets what the function gives besides CUDA's result, or CudaAPIError. The methods here are
those that numba's host code calls, under their names in the CUDA Driver API, whose manual says what each does.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from cuda.bindings import driver as binding

from gridstride.machine.devices import DeviceSpec
from gridstride.numba_host.attributes import device_attribute
from gridstride.numba_host.callers import look_up
from gridstride.numba_host.errors import RESULT, CudaAPIError, Unsupported, as_numba_raises
from gridstride.numba_host.simulation import Simulation, host_elements
from gridstride.runtime.array import Array
from gridstride.runtime.checking import is_checking
from gridstride.runtime.commands import copy_command
from gridstride.runtime.recording import is_recording

if TYPE_CHECKING:
    from gridstride.runtime.streams import Stream

DRIVER_VERSION = 13000
CONTEXT = 0x6753
"""The handle of the one context; it only has to be none of CUDA's, which are addresses."""
_T = TypeVar("_T")


def _call(method: Callable[..., _T]) -> Callable[..., _T]:
    @functools.wraps(method)
    def called(self: Calls, *arguments: Any) -> _T:
        with as_numba_raises(method.__name__):
            return method(self, *arguments)

    return called


class Calls:
    """The driver's functions. Handles are numbers or CUDA's objects over them; sizes are in bytes; streams 0, 1 and 2 are the default ones."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._context = binding.CUcontext(CONTEXT)
        self._none = binding.CUcontext(0)
        self._own = threading.local()

    def functions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        return ((name, getattr(self, name)) for name in dir(self) if name.startswith("cu"))

    def refuse(self, name: str) -> NoReturn:
        """A function of the driver that is not here."""
        raise Unsupported(f"numba.cuda on the simulator has no {name}")

    @property
    def _spec(self) -> DeviceSpec:
        return self._simulation.device.spec

    # ---- the driver, its device, its context ------------------------------------------------------------------------

    def cuInit(self, flags: int) -> None: ...

    def cuDriverGetVersion(self) -> int:
        return DRIVER_VERSION

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGetAttribute(self, attribute: Any, device: int) -> int:
        value = device_attribute(self._spec, attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_"))
        if value is None:
            raise CudaAPIError(RESULT.CUDA_ERROR_NOT_SUPPORTED, "cuDeviceGetAttribute", f"the simulator does not model {attribute.name}")
        return value

    def cuDeviceCanAccessPeer(self, device: Any, peer: Any) -> int:
        return 0

    def cuCtxEnablePeerAccess(self, context: Any, flags: int) -> NoReturn:
        self.refuse("access of one device to another's memory: it has one device")

    @property
    def _stack(self) -> list[Any]:
        """The contexts that the calling thread has pushed."""
        if not hasattr(self._own, "stack"):
            self._own.stack = []
        stack: list[Any] = self._own.stack
        return stack

    def cuCtxGetCurrent(self) -> Any:
        return self._stack[-1] if self._stack else self._none

    def cuCtxGetDevice(self) -> int:
        return 0

    def cuCtxPushCurrent(self, context: Any) -> None:
        self._stack.append(self._context)

    def cuCtxPopCurrent(self) -> Any:
        if not self._stack:
            raise CudaAPIError(RESULT.CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent", "no context is current in this thread")
        return self._stack.pop()

    @_call
    def cuCtxSynchronize(self) -> None:
        self._simulation.device.synchronize()

    def cuDevicePrimaryCtxRelease(self, device: Any) -> None: ...

    @_call
    def cuDevicePrimaryCtxReset(self, device: Any) -> None:
        self._simulation.reset()

    @property
    def context(self) -> Any:
        return self._context

    # ---- memory ------------------------------------------------------------------------------------------------------

    @_call
    def cuMemAlloc(self, nbytes: int) -> Any:
        return binding.CUdeviceptr(self._simulation.hold(self._simulation.device.allocate(int(nbytes))))

    @_call
    def cuMemFree(self, address: Any) -> None:
        self._simulation.release(int(address))

    @_call
    def cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        return self._simulation.hold(self._simulation.device.allocate_host(int(nbytes), None)[0])

    @_call
    def cuMemFreeHost(self, address: Any) -> None:
        self._simulation.release(int(address))

    @_call
    def cuMemAllocManaged(self, nbytes: int, flags: int) -> Any:
        return binding.CUdeviceptr(self._simulation.hold(self._simulation.device.allocate_managed(int(nbytes), None)[0]))

    @_call
    def cuMemHostRegister(self, address: int, nbytes: int, flags: int) -> None:
        self._simulation.register(int(address), int(nbytes), mapped=bool(flags & binding.CU_MEMHOSTREGISTER_DEVICEMAP))

    @_call
    def cuMemHostUnregister(self, address: int) -> None:
        self._simulation.unregister(int(address))

    @_call
    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> Any:
        return binding.CUdeviceptr(self._simulation.mapped_address(int(address)))

    def cuMemGetInfo(self) -> tuple[int, int]:
        memory = self._simulation.device.memory
        return memory.capacity - memory.used, memory.capacity

    @_call
    def cuMemGetAddressRange(self, address: Any) -> tuple[Any, int]:
        storage = self._simulation.find(int(address)).storage
        return binding.CUdeviceptr(storage.address), storage.size

    @_call
    def cuPointerGetAttribute(self, attribute: Any, address: Any) -> Any:
        if attribute != binding.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            self.refuse(f"cuPointerGetAttribute for {attribute.name}")
        self._simulation.find(int(address))
        return address

    # ---- copies and fills --------------------------------------------------------------------------------------------

    def cuMemcpyHtoD(self, destination: Any, source: int, nbytes: int) -> None:
        self._to_device("cuMemcpyHtoD", destination, source, nbytes, None)

    def cuMemcpyHtoDAsync(self, destination: Any, source: int, nbytes: int, stream: Any) -> None:
        self._to_device("cuMemcpyHtoDAsync", destination, source, nbytes, stream)

    def cuMemcpyDtoH(self, destination: int, source: Any, nbytes: int) -> None:
        self._to_host("cuMemcpyDtoH", destination, source, nbytes, None)

    def cuMemcpyDtoHAsync(self, destination: int, source: Any, nbytes: int, stream: Any) -> None:
        self._to_host("cuMemcpyDtoHAsync", destination, source, nbytes, stream)

    def cuMemcpyDtoD(self, destination: Any, source: Any, nbytes: int) -> None:
        self._on_device("cuMemcpyDtoD", destination, source, nbytes, None)

    def cuMemcpyDtoDAsync(self, destination: Any, source: Any, nbytes: int, stream: Any) -> None:
        self._on_device("cuMemcpyDtoDAsync", destination, source, nbytes, stream)

    def cuMemsetD8(self, address: Any, value: int, nbytes: int) -> None:
        self._fill("cuMemsetD8", address, value, nbytes, None)

    def cuMemsetD8Async(self, address: Any, value: int, nbytes: int, stream: Any) -> None:
        self._fill("cuMemsetD8Async", address, value, nbytes, stream)

    def _to_device(self, call: str, destination: Any, source: int, nbytes: int, stream: Any) -> None:
        with as_numba_raises(call):
            if nbytes:
                array = self._simulation.array(int(destination), int(nbytes))
                self._copy(array, host_elements(int(source), array), stream)

    def _to_host(self, call: str, destination: int, source: Any, nbytes: int, stream: Any) -> None:
        with as_numba_raises(call):
            if nbytes:
                array = self._simulation.array(int(source), int(nbytes))
                self._copy(host_elements(int(destination), array), array, stream)

    def _on_device(self, call: str, destination: Any, source: Any, nbytes: int, stream: Any) -> None:
        with as_numba_raises(call):
            if nbytes:
                first, second = self._simulation.array(int(destination), int(nbytes)), self._simulation.array(int(source), int(nbytes))
                if first.dtype != second.dtype:
                    first, second = first.view("u1"), second.view("u1")
                self._copy(first, second, stream)

    def _copy(self, destination: Any, source: Any, stream: Any) -> None:
        """Copy in a stream; without one outside of streams, and wait, as the functions without `Async` do. Numba asks the default stream for
        what it copies of itself, around a launch: from pageable memory that waits too."""
        if is_checking() or is_recording():
            look_up(destination, source)
        pinned = any(isinstance(end, np.ndarray) and self._simulation.device.is_pinned(end.ctypes.data) for end in (destination, source))
        waits = stream is None or int(stream) == 0
        if pinned or not waits:
            queue = self._stream(stream)
            queue.submit(copy_command(destination, source))
            if stream is None:
                queue.synchronize()
        elif isinstance(destination, Array):
            destination.copy_from(source)
        else:
            source.storage.watcher.host_reads(source)
            source.give(destination)

    def _fill(self, call: str, address: Any, value: int, nbytes: int, stream: Any) -> None:
        with as_numba_raises(call):
            if nbytes:
                self._stream(stream).fill(self._simulation.array(int(address), int(nbytes)).view("u1"), value & 0xFF)

    def _stream(self, handle: Any) -> Stream:
        return self._simulation.stream(0 if handle is None else handle)

    # ---- streams and events ------------------------------------------------------------------------------------------

    @_call
    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(self._simulation.new_stream())

    @_call
    def cuStreamDestroy(self, stream: Any) -> None:
        self._simulation.drop_stream(int(stream))

    @_call
    def cuStreamSynchronize(self, stream: Any) -> None:
        self._simulation.stream(stream).synchronize()

    @_call
    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        self._simulation.stream(stream).wait(self._simulation.event(event))

    @_call
    def cuEventCreate(self, flags: int) -> Any:
        timing = not int(flags) & int(binding.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        return binding.CUevent(self._simulation.new_event(timing=timing))

    @_call
    def cuEventDestroy(self, event: Any) -> None:
        self._simulation.drop_event(int(event))

    @_call
    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self._simulation.stream(stream).record(self._simulation.event(event))

    @_call
    def cuEventQuery(self, event: Any) -> None:
        if not self._simulation.event(event).done:
            raise CudaAPIError(RESULT.CUDA_ERROR_NOT_READY, "cuEventQuery", "the event has not been reached")

    @_call
    def cuEventSynchronize(self, event: Any) -> None:
        self._simulation.event(event).synchronize()

    @_call
    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        """Milliseconds by the device's model."""
        self._simulation.timed = True
        return self._simulation.event(start).elapsed_ms(self._simulation.event(end))

    # ---- code --------------------------------------------------------------------------------------------------------

    @_call
    def cuLibraryGetGlobal(self, library: Any, name: bytes) -> tuple[Any, int]:
        storage = self._simulation.modules[int(library)].variable(name.decode())
        return binding.CUdeviceptr(storage.address), storage.size

    def cuLibraryUnload(self, library: Any) -> None:
        self._simulation.modules.pop(int(library), None)

    @_call
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, kernel: Any, threads: int, shared: int) -> int:
        return int(kernel.resident_blocks(int(threads), int(shared)))

    def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(self, kernel: Any, threads: int, shared: int, flags: int) -> int:
        return self.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared)

    def cuKernelSetAttribute(self, attribute: Any, value: int, kernel: Any, device: int) -> None:
        """The split between cache and shared memory is the driver's to choose, and the simulator's model takes what fits."""

    def cuKernelSetCacheConfig(self, kernel: Any, config: Any, device: int) -> None:
        """As `cuKernelSetAttribute`."""

    def cuProfilerStart(self) -> None:
        """Profilers of the GPU look from here on; what Gridstride counts is said by its own options."""

    def cuProfilerStop(self) -> None: ...

    # ---- what needs a second process ---------------------------------------------------------------------------------

    def cuIpcGetMemHandle(self, address: Any) -> NoReturn:
        self.refuse("memory that several processes share")

    def cuIpcOpenMemHandle(self, handle: Any, flags: int) -> NoReturn:
        self.refuse("memory that several processes share")
