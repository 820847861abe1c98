"""`Device`: where arrays lie and kernels run. One contract; the simulator (runtime/simulator.py) and GPUs fulfil it."""

from __future__ import annotations

import itertools
import math
import operator
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError, UsageError
from gridstride.events.operations import LEGACY
from gridstride.findings import Dim3
from gridstride.machine.devices import DeviceSpec
from gridstride.runtime.array import Array, host_array
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.frontends.source import LoadedSource
    from gridstride.runtime.commands import Command, Launch
    from gridstride.runtime.graph import Graph, Replay
    from gridstride.runtime.host_memory import HostArray, ManagedArray
    from gridstride.runtime.module import Kernel, Module
    from gridstride.runtime.python_kernel import PythonKernel
    from gridstride.runtime.streams import Event, Stream

Shape = int | tuple[int, ...]
PITCH = 512
"""Bytes to which rows of pitched arrays are aligned (what `cudaMallocPitch` gave on an H200)."""


@dataclass(frozen=True)
class LaunchShape:
    """A launch's dimensions. shared: dynamic shared memory in bytes; cluster: blocks a cluster, None for no clusters."""

    grid: Dim3
    block: Dim3
    shared: int = 0
    cooperative: bool = False
    cluster: Dim3 | None = None

    @property
    def threads_per_block(self) -> int:
        return math.prod(self.block)

    @property
    def threads(self) -> int:
        """Threads of the whole launch."""
        return math.prod(self.grid) * self.threads_per_block


@dataclass(frozen=True)
class LaunchOutcome:
    """What one launch was. seconds: how long the kernel ran on this device (on the simulator: this machine's time)."""

    seconds: float
    threads: int
    kernel_us: float | None = None
    """Microseconds that the kernel itself is estimated to take on the device, where it was counted."""


class Device(ABC):
    """A device with memory of its own. Arrays, modules, streams and events belong to the device object that made them.

    blocking: every launch is waited for and raises its own fault; otherwise a fault comes with the next call that waits, as CUDA has it, and
    from then on with every call. per_thread_default: what is asked of no stream goes to a default stream of the calling thread, which the
    legacy default stream's rule leaves as any other stream, instead of to the legacy default stream.
    """

    def __init__(self, name: str, spec: DeviceSpec, *, blocking: bool = False, per_thread_default: bool = False) -> None:
        self.name = name
        self.spec = spec
        self.blocking = blocking
        self.per_thread_default = per_thread_default
        self.captures = 0
        """Graphs that are being captured from streams of this device."""
        self._streams = itertools.count(LEGACY + 1)
        self._legacy: weakref.ref[Stream] | None = None
        self._own = threading.local()

    # ---- code ------------------------------------------------------------------------------------------------------

    @overload
    def compile(self, source: str | PathLike[str], **options: Any) -> Module: ...

    @overload
    def compile(self, source: Callable[..., Any], **options: Any) -> PythonKernel: ...

    def compile(self, source: Any, **options: Any) -> Module | PythonKernel:
        """A module of kernels from a path (`.cu`, `.ptx`), CUDA C++ text, or PTX text (which begins with `.version`); or one kernel from a
        Python function, plain or decorated with `@cuda.jit`, or named as in `module.py:function`.

        Options are those of the front end (`gridstride.frontends.source.load_source`): include folders, defines, and so on; and `contracts`:
        launch contracts by the names of kernels, in place of those that the source has in comments (or a decorator).
        Raises CompileError, ParseError, UnsupportedError or UsageError.
        """
        from gridstride.frontends.python_module import python_reference
        from gridstride.frontends.source import load_source
        from gridstride.runtime.python_kernel import PythonKernel, is_python_kernel
        from gridstride.runtime.python_module import PythonModule

        contracts = options.pop("contracts", None) or {}
        if is_python_kernel(source):
            return PythonKernel(self, source, contracts)
        if not isinstance(source, str | PathLike):
            raise UsageError(
                f"give a path (.cu or .ptx), CUDA C++ text, PTX text or a Python function to compile, not {type(source).__name__} {source!r:.60}"
            )
        if (reference := python_reference(fspath(source))) is not None:
            if reference[1] is None:
                raise UsageError(f"say which function of {source} is the kernel, as in {source}:saxpy")
            return PythonModule(self, fspath(source))[reference[1]]
        text = source if isinstance(source, str) else Path(fspath(source))
        return self.load(load_source(text, **{"arch": self.spec.target, **options})).declare(contracts)

    @abstractmethod
    def load(self, source: LoadedSource) -> Module:
        """A module of kernels that a front end has compiled."""

    @abstractmethod
    def launch(self, command: Launch) -> LaunchOutcome:
        """Run a kernel to its end, in the default stream. Raises KernelFault, LaunchError, UnsupportedError."""

    @abstractmethod
    def require_launchable(self, kernel: Kernel, shape: LaunchShape) -> None:
        """Raise LaunchError for a launch that the device would refuse."""

    # ---- streams and events: what `Stream`, `Event` and `Replay` hand over --------------------------------------------

    def stream(self, *, priority: int = 0, non_blocking: bool = False, name: str | None = None) -> Stream:
        """A new stream. priority: smaller is served first, in the range of `stream_priorities`, to which it is limited as in CUDA.

        non_blocking: it does not wait for the legacy default stream, nor that for it.
        """
        least, greatest = self.stream_priorities
        if not isinstance(priority, int):
            raise UsageError(f"a priority is a whole number, not {type(priority).__name__} {priority!r:.40}")
        if name is not None and not isinstance(name, str):
            raise UsageError(f"a stream's name is text, not {type(name).__name__} {name!r:.40}")
        return _new_stream(self, next(self._streams), max(greatest, min(least, operator.index(priority))), non_blocking, name)

    @property
    def legacy_stream(self) -> Stream:
        """The legacy default stream: every other blocking stream waits for it, and it for them."""
        stream = self._legacy() if self._legacy is not None else None
        if stream is None:
            stream = _new_stream(self, LEGACY, 0, False, None)
            self._legacy = weakref.ref(stream)  # a stream holds its device, which must end with its last user
        return stream

    @property
    def default_stream(self) -> Stream:
        """Where goes what is asked of no stream: the legacy default stream, or one for each thread of the host (`per_thread_default`)."""
        if not self.per_thread_default:
            return self.legacy_stream
        if not hasattr(self._own, "stream"):
            self._own.stream = self.stream(name=f"default of {threading.current_thread().name}")
        own: Stream = self._own.stream
        return own

    stream_priorities: tuple[int, int] = (0, 0)
    """The least and the greatest priority; greater is the smaller number."""

    def event(self, *, timing: bool = True) -> Event:
        """A new event, for `stream.record(event)`."""
        from gridstride.runtime.streams import Event

        return Event(self, timing=timing)

    def graph(self) -> Graph:
        """A new graph without operations."""
        from gridstride.runtime.graph import Graph

        return Graph(self)

    def require_no_capture(self, what: str) -> None:
        """Raise UsageError while a graph is being captured: `what` would wait for streams that do nothing yet."""
        if self.captures:
            raise UsageError(f"{what} cannot be used while a graph is captured; use the stream that is captured")

    @abstractmethod
    def submit(self, stream: Stream, command: Command) -> None:
        """Ask for one operation in a stream."""

    @abstractmethod
    def new_stream(self, stream: Stream) -> Any:
        """What the implementation keeps of a stream, as its `native`."""

    @abstractmethod
    def close_stream(self, stream: Stream) -> None: ...

    @abstractmethod
    def stream_done(self, stream: Stream) -> bool: ...

    @abstractmethod
    def synchronize_stream(self, stream: Stream) -> None: ...

    @abstractmethod
    def new_event(self, event: Event) -> Any:
        """What the implementation keeps of an event, as its `native`."""

    @abstractmethod
    def record_event(self, stream: Stream, event: Event) -> None: ...

    @abstractmethod
    def wait_event(self, stream: Stream, event: Event) -> None: ...

    @abstractmethod
    def event_recorded(self, event: Event) -> bool: ...

    @abstractmethod
    def event_done(self, event: Event) -> bool: ...

    @abstractmethod
    def synchronize_event(self, event: Event) -> None: ...

    @abstractmethod
    def elapsed_ms(self, start: Event, end: Event) -> float: ...

    @abstractmethod
    def new_replay(self, replay: Replay) -> Any:
        """What the implementation keeps of an instantiated graph, as its `native`."""

    @abstractmethod
    def update_replay(self, replay: Replay, number: int) -> None:
        """The command `number` of a graph has changed."""

    @abstractmethod
    def launch_replay(self, stream: Stream, replay: Replay) -> None: ...

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything asked for has ended. Raises the fault of a kernel that was stopped."""

    # ---- memory ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        """`nbytes` bytes of device memory, never written, freed with the last reference to the result."""

    @abstractmethod
    def pool_array(self, stream: Stream, shape: Shape, dtype: npt.DTypeLike, name: str | None) -> Array:
        """An array of the stream-ordered pool."""

    @abstractmethod
    def allocate_host(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        """Pinned host memory: as the device has it, and as the host has it."""

    @abstractmethod
    def allocate_managed(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        """Managed memory: as the device has it, and as the host has it."""

    def made(self, array: Array) -> None:  # noqa: B027 - most devices need not know
        """An array was made at the start of an allocation."""

    def host_touches(self, array: Array, *, reads: bool, writes: bool) -> None:  # noqa: B027 - most devices need not know
        """The host is about to use memory that the device reaches as well."""

    def pinned(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> HostArray:
        """An array in pinned host memory, all zero: copies between it and the device run beside other work, and kernels may use it as it is."""
        from gridstride.runtime.host_memory import HostArray, kept_by_view

        extents, element = _extents(shape), _checked(dtype)
        storage, memory = self.allocate_host(math.prod(extents) * element.itemsize, name)
        mapped = Array(storage, storage.address, extents, element)
        self.made(mapped)
        return HostArray(mapped, kept_by_view(storage, memory, element, extents))

    def managed(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> ManagedArray:
        """An array in managed memory, which host and device use under one address and which moves to where it is used."""
        from gridstride.runtime.host_memory import ManagedArray, kept_by_view

        extents, element = _extents(shape), _checked(dtype)
        storage, memory = self.allocate_managed(math.prod(extents) * element.itemsize, name)
        array = ManagedArray(Array(storage, storage.address, extents, element), kept_by_view(storage, memory, element, extents))
        self.made(array)
        return array

    def pitched(self, shape: tuple[int, int], dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        """A two-dimensional array whose rows each begin at a multiple of `PITCH` bytes, so that accesses to every row are aligned
        (`cudaMallocPitch`); `strides[0]` is the pitch."""
        extents, element = _extents(shape), _checked(dtype)
        if len(extents) != 2:
            raise UsageError(f"a pitched array has two dimensions, not {len(extents)}")
        pitch = max(1, -(-extents[1] * element.itemsize // PITCH)) * PITCH
        storage = self.allocate(extents[0] * pitch, name)
        array = Array(storage, storage.address, extents, element, (pitch, element.itemsize))
        self.made(array)
        return array

    def array(self, data: Any, dtype: npt.DTypeLike | None = None, *, name: str | None = None) -> Array:
        """A copy of host data in device memory: a NumPy array, nested lists, anything with the array interface or DLPack on the CPU.

        `(shape, dtype)` instead of data gives an array that was never written. `name` is what messages call it.
        """
        if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], np.dtype | type | str):
            return self.empty(data[0], data[1], name=name)
        values = data.numpy() if isinstance(data, Array) else host_array(data)
        if dtype is not None:
            values = values.astype(_checked(dtype))
        return self.empty(values.shape, values.dtype, name=name).copy_from(values)

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        """An array whose elements were never written."""
        extents, element = _extents(shape), _checked(dtype)
        storage = self.allocate(math.prod(extents) * element.itemsize, name)
        array = Array(storage, storage.address, extents, element)
        self.made(array)
        return array

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        """An array of zeros."""
        array = self.empty(shape, dtype, name=name)
        return array.copy_from(np.zeros(array.shape, array.dtype))

    def __repr__(self) -> str:
        return f"<gridstride.Device {self.name}>"

    def __str__(self) -> str:
        return self.name


def _extents(shape: Shape) -> tuple[int, ...]:
    try:
        extents = tuple(operator.index(extent) for extent in shape) if isinstance(shape, tuple | list) else (operator.index(shape),)
    except TypeError:
        raise UsageError(f"a shape is a whole number or a tuple of them, not {shape!r}") from None
    if any(extent < 0 for extent in extents):
        raise UsageError(f"the shape {shape!r} has a negative extent")
    return extents


def _checked(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        checked = np.dtype(dtype)
    except TypeError:
        raise UsageError(f"{dtype!r} is no NumPy type") from None
    if checked.hasobject or checked.itemsize == 0:
        raise UsageError(f"an array of {checked} cannot lie in device memory")
    return checked


def shared_bytes(value: Any) -> int:
    """Dynamic shared memory as given to a launch. Raises LaunchError unless it is a whole number of at least 0."""
    try:
        size = operator.index(value)
    except TypeError:
        raise LaunchError(f"shared memory is a whole number of bytes, not {value!r}") from None
    if size < 0:
        raise LaunchError(f"shared memory cannot be {size} bytes")
    return size


def _new_stream(device: Device, number: int, priority: int, non_blocking: bool, name: str | None) -> Stream:
    from gridstride.runtime.streams import Stream

    return Stream(device, number, priority=priority, non_blocking=non_blocking, name=name)
