"""`Device`: where arrays lie and kernels run. One contract; the simulator (runtime/simulator.py) and GPUs fulfil it."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError, UsageError
from gridstride.findings import Dim3
from gridstride.machine.devices import DeviceSpec
from gridstride.runtime.array import Array, Storage, host_array

if TYPE_CHECKING:
    from gridstride.runtime.module import Kernel, Module

Shape = int | tuple[int, ...]


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


class Device(ABC):
    """A device with memory of its own. Arrays and modules belong to the device object that made them."""

    def __init__(self, name: str, spec: DeviceSpec) -> None:
        self.name = name
        self.spec = spec

    @abstractmethod
    def compile(self, source: str | PathLike[str], **options: Any) -> Module:
        """A module of kernels from a path (`.cu`, `.ptx`), CUDA C++ text, or PTX text (which begins with `.version`).

        Options are those of the front end (`gridstride.frontends.source.load_source`): include folders, defines, and so on.
        Raises CompileError, ParseError, UnsupportedError or UsageError.
        """

    @abstractmethod
    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        """`nbytes` bytes of device memory, never written, freed with the last reference to the result."""

    @abstractmethod
    def launch(self, kernel: Kernel, shape: LaunchShape, parameters: bytes, names: Mapping[int, str]) -> LaunchOutcome:
        """Run a kernel to its end. `names`: allocation address → what messages call it. Raises KernelFault, LaunchError, UnsupportedError."""

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
        return Array(storage, storage.address, extents, element)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        """An array of zeros."""
        array = self.empty(shape, dtype, name=name)
        return array.copy_from(np.zeros(array.shape, array.dtype))

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything launched has ended."""

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
