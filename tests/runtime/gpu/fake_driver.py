"""A stand-in for `cuda.bindings.driver`: memory is the process's own, streams do everything at once, and every call is noted.

Structures and enumerations are the real bindings', and every call is made of the real function as well, which without a driver converts its
arguments and only then finds no library: so signatures are checked without a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

real = pytest.importorskip("cuda.bindings.driver", reason="the package cuda-bindings is not here")
Status = real.CUresult
_ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132, "MEMORY_CLOCK_RATE": 3_201_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144, "CLOCK_RATE": 1_980_000, "L2_CACHE_SIZE": 62_914_560, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233_472,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "MAX_BLOCKS_PER_MULTIPROCESSOR": 32, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024, "MAX_REGISTERS_PER_MULTIPROCESSOR": 65_536, "MAX_REGISTERS_PER_BLOCK": 65_536,
}  # fmt: skip
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _no_library() -> bool:
    try:
        real.cuInit(0)
    except RuntimeError:
        return True
    return False


class FakeDriver:
    """Set `broken` to a status and every call that is one of the context answers it, as after a fault. `refuse` is for single calls."""

    def __init__(self, name: str = "NVIDIA H200", memory: int = 150_754_820_096, **attributes: int) -> None:
        self.name = name
        self.memory = memory
        self.attributes = {**_ATTRIBUTES, **attributes}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.refuse: dict[str, str] = {}
        self.broken: str | None = None
        self.not_ready = False
        self.functions: dict[str, Callable[[list[int]], object]] = {}
        """What kernels do, by entry: called with the addresses of their parameters."""
        self.live: dict[int, Any] = {}
        self.graphs: dict[int, list[tuple[Callable[[], object], tuple[int, ...]]]] = {}
        self.parameters: dict[tuple[int, int], Any] = {}
        self._numbers = itertools.count(0x1000)
        self._events: dict[int, float] = {}
        self._checks = _no_library()

    def named(self, prefix: str) -> list[tuple[Any, ...]]:
        """The arguments of all calls of a function."""
        return [arguments for name, arguments in self.calls if name == prefix]

    def __getattr__(self, name: str) -> Any:
        found = getattr(real, name)
        if not name.startswith("cu"):
            return found
        does = getattr(type(self), f"_{name}", None)
        assert does is not None, f"the stand-in has no {name}"

        def call(*arguments: Any) -> tuple[Any, ...]:
            if self._checks:
                with pytest.raises(RuntimeError, match="driver"):
                    found(*arguments)
            self.calls.append((name, arguments))
            if name in self.refuse:
                return (getattr(Status, f"CUDA_ERROR_{self.refuse[name]}"), None)
            if self.broken is not None and name not in ("cuGetErrorString", "cuCtxSetCurrent"):
                return (getattr(Status, f"CUDA_ERROR_{self.broken}"), None)
            given = does(self, *arguments)
            return given if isinstance(given, tuple) and given and isinstance(given[0], Status) else (Status.CUDA_SUCCESS, *_several(given))

        return call

    def _number(self) -> int:
        return next(self._numbers)

    # ---- the GPU -----------------------------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None: ...

    def _cuDeviceGetCount(self) -> int:
        return 1

    def _cuDeviceGet(self, index: int) -> Any:
        return real.CUdevice(index)

    def _cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return self.name.encode().ljust(length, b"\0")

    def _cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        return self.attributes[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDeviceTotalMem(self, device: Any) -> int:
        return self.memory

    def _cuDriverGetVersion(self) -> int:
        return 13000

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return real.CUcontext(0x77)

    def _cuDevicePrimaryCtxRelease(self, device: Any) -> None: ...

    def _cuCtxSetCurrent(self, context: Any) -> None: ...

    def _cuCtxGetStreamPriorityRange(self) -> tuple[int, int]:
        return 0, -5

    def _cuCtxSynchronize(self) -> None: ...

    def _cuGetErrorString(self, status: Any) -> bytes:
        return b"what CUDA says"

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return 1000, self.memory

    # ---- code --------------------------------------------------------------------------------------------------------

    def _cuModuleLoadData(self, image: bytes) -> Any:
        return real.CUmodule(self._number())

    def _cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> Any:
        return real.CUmodule(self._number())

    def _cuModuleUnload(self, module: Any) -> None: ...

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        number = self._number()
        self.live[number] = name.decode()
        return real.CUfunction(number)

    def _cuModuleGetGlobal(self, module: Any, name: bytes) -> tuple[Any, int]:
        return self._cuMemAlloc(16), 16

    def _cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        return {"NUM_REGS": 32, "SHARED_SIZE_BYTES": 0}[attribute.name.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def _cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> None: ...

    def _run(self, function: Any, parameters: int) -> None:
        body = self.functions.get(self.live[int(function)])
        if body is not None:
            pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
            body([int(pointers[k] or 0) for k in range(8)])

    def _cuLaunchKernel(self, function: Any, *more: Any) -> None:
        self._run(function, more[8])

    def _cuLaunchKernelEx(self, config: Any, function: Any, parameters: int, extra: int) -> None:
        self._run(function, parameters)

    def _cuLaunchHostFunc(self, stream: Any, function: Any, data: int) -> None:
        HostFunction(int(function))(data)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _cuMemAlloc(self, size: int) -> Any:
        memory = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(memory) // 256) * 256
        self.live[address] = memory
        return real.CUdeviceptr(address)

    def _cuMemAllocAsync(self, size: int, stream: Any) -> Any:
        return self._cuMemAlloc(size)

    def _cuMemAllocManaged(self, size: int, flags: int) -> Any:
        return self._cuMemAlloc(size)

    def _cuMemHostAlloc(self, size: int, flags: int) -> int:
        return int(self._cuMemAlloc(size))

    def _cuMemHostGetDevicePointer(self, address: int, flags: int) -> Any:
        return real.CUdeviceptr(address)

    def _cuMemFree(self, address: Any) -> None:
        del self.live[int(address)]

    def _cuMemFreeHost(self, address: int) -> None:
        del self.live[int(address)]

    def _cuMemFreeAsync(self, address: Any, stream: Any) -> None:
        del self.live[int(address)]

    def _cuPointerGetAttribute(self, attribute: Any, address: Any) -> tuple[Any, ...]:
        known = any(start <= int(address) < start + len(memory) for start, memory in self.live.items() if isinstance(memory, ctypes.Array))
        return (Status.CUDA_SUCCESS, 1) if known else (Status.CUDA_ERROR_INVALID_VALUE, None)

    def _copy(self, to: Any, source: Any, size: int, stream: Any) -> None:
        ctypes.memmove(int(to), int(source), size)

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyAsync = _copy

    def _cuMemcpy2DAsync(self, described: Any, stream: Any) -> None:
        ends = []
        for side in ("src", "dst"):
            on_host = getattr(described, f"{side}MemoryType") == real.CUmemorytype.CU_MEMORYTYPE_HOST
            ends.append(int(getattr(described, f"{side}Host" if on_host else f"{side}Device")))
        for row in range(described.Height):
            ctypes.memmove(ends[1] + row * described.dstPitch, ends[0] + row * described.srcPitch, described.WidthInBytes)

    def _set(self, address: int, pitch: int, value: int, width: int, count: int, size: int) -> None:
        for row in range(count):
            data = value.to_bytes(size, "little") * width
            ctypes.memmove(int(address) + row * pitch, data, len(data))

    def _cuMemsetD8Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, 0, value, count, 1, 1)

    def _cuMemsetD16Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, 0, value, count, 1, 2)

    def _cuMemsetD32Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, 0, value, count, 1, 4)

    def _cuMemsetD2D8Async(self, address: Any, pitch: int, value: int, width: int, height: int, stream: Any) -> None:
        self._set(address, pitch, value, width, height, 1)

    def _cuMemsetD2D16Async(self, address: Any, pitch: int, value: int, width: int, height: int, stream: Any) -> None:
        self._set(address, pitch, value, width, height, 2)

    def _cuMemsetD2D32Async(self, address: Any, pitch: int, value: int, width: int, height: int, stream: Any) -> None:
        self._set(address, pitch, value, width, height, 4)

    def _cuMemPrefetchAsync(self, address: Any, size: int, where: Any, flags: int, stream: Any) -> None: ...

    # ---- streams and events ------------------------------------------------------------------------------------------

    def _cuStreamCreateWithPriority(self, flags: int, priority: int) -> Any:
        return real.CUstream(self._number())

    def _cuStreamDestroy(self, stream: Any) -> None: ...

    def _cuStreamSynchronize(self, stream: Any) -> None: ...

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None: ...

    def _cuStreamQuery(self, stream: Any) -> tuple[Any, ...]:
        return (Status.CUDA_ERROR_NOT_READY,) if self.not_ready else (Status.CUDA_SUCCESS,)

    def _cuEventQuery(self, event: Any) -> tuple[Any, ...]:
        return (Status.CUDA_ERROR_NOT_READY,) if self.not_ready else (Status.CUDA_SUCCESS,)

    def _cuEventCreate(self, flags: int) -> Any:
        return real.CUevent(self._number())

    def _cuEventDestroy(self, event: Any) -> None: ...

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        self._events[int(event)] = time.perf_counter()

    def _cuEventSynchronize(self, event: Any) -> None: ...

    def _cuEventElapsedTime(self, start: Any, end: Any) -> float:
        return 1e3 * (self._events[int(end)] - self._events[int(start)])

    # ---- graphs ------------------------------------------------------------------------------------------------------

    def _cuGraphCreate(self, flags: int) -> Any:
        number = self._number()
        self.graphs[number] = []
        return real.CUgraph(number)

    def _node(self, graph: Any, after: list[Any], count: int, does: Callable[[], object]) -> Any:
        assert count == len(after)
        nodes = self.graphs[int(graph)]
        assert all(int(node) <= len(nodes) for node in after)
        nodes.append((does, tuple(int(node) for node in after)))
        return real.CUgraphNode(len(nodes))

    def _cuGraphAddKernelNode(self, graph: Any, after: list[Any], count: int, described: Any) -> Any:
        node = self._node(graph, after, count, lambda: self._run(*self.parameters[int(graph), int(node)]))
        self.parameters[int(graph), int(node)] = int(described.func), self._kept(described.kernelParams)
        return node

    def _kept(self, parameters: int) -> int:
        """A copy of a kernel's parameters, as the driver makes one: 8 bytes of each of the first two."""
        if not parameters:
            return 0
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.create_string_buffer(ctypes.string_at(pointers[k], 8), 8) for k in range(2)]
        copied = (ctypes.c_void_p * 8)(*(ctypes.addressof(value) for value in values))
        address = ctypes.addressof(copied)
        self.live[-address] = values, copied
        return address

    def _cuGraphExecKernelNodeSetParams(self, executable: Any, node: Any, described: Any) -> None:
        self.parameters[int(executable), int(node)] = int(described.func), self._kept(described.kernelParams)

    def _cuGraphKernelNodeSetAttribute(self, node: Any, name: Any, value: Any) -> None: ...

    def _cuGraphAddMemcpyNode(self, graph: Any, after: list[Any], count: int, described: Any, context: Any) -> Any:
        assert described.Depth == 1
        return self._node(graph, after, count, lambda: self._cuMemcpy2DAsync(described, 0))

    def _cuGraphAddMemsetNode(self, graph: Any, after: list[Any], count: int, d: Any, context: Any) -> Any:
        return self._node(graph, after, count, lambda: self._set(int(d.dst), d.pitch, d.value, d.width, d.height, d.elementSize))

    def _cuGraphAddHostNode(self, graph: Any, after: list[Any], count: int, described: Any) -> Any:
        return self._node(graph, after, count, lambda: HostFunction(int(described.fn))(described.userData))

    def _cuGraphAddEmptyNode(self, graph: Any, after: list[Any], count: int) -> Any:
        return self._node(graph, after, count, lambda: None)

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        return real.CUgraphExec(int(graph))

    def _cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        for does, _ in self.graphs[int(executable)]:
            does()

    def _cuGraphExecDestroy(self, executable: Any) -> None: ...

    def _cuGraphDestroy(self, graph: Any) -> None: ...


def _several(given: Any) -> tuple[Any, ...]:
    return () if given is None else given if isinstance(given, tuple) else (given,)
