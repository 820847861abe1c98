"""The launch of a kernel: numba's list of values as the bytes of the kernel's parameters, and what its arrays are called."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.cuda.np import numpy_support

from gridstride.errors import LaunchError
from gridstride.frontends.python_parameters import Argument, DeviceArray, Members, Record, flat_parameters
from gridstride.numba_host.callers import variables
from gridstride.numba_host.errors import as_numba_raises
from gridstride.numba_host.modules import LoadedKernel
from gridstride.numba_host.simulation import Simulation
from gridstride.runtime.array import Array
from gridstride.runtime.commands import Launch
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.names import Buffers, extent_of
from gridstride.runtime.parameters import KernelParameter

_DATA = 4
"""Which parameter of an array is the address of its elements; its shape and its strides follow."""


@dataclass(frozen=True)
class Config:
    """What a launch is given besides its arguments, under the names that numba uses."""

    grid: Any
    block: Any
    shmem_size: int = 0
    is_cooperative: bool = False


class Launcher:
    """Launches kernels of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._calling = threading.local()

    @contextmanager
    def launching(self, types: Sequence[Any]) -> Iterator[None]:
        """What this thread launches inside has arguments of these types."""
        self._calling.types = types
        try:
            yield
        finally:
            self._calling.types = None

    def launch(self, stream: Any, config: Config, kernel: LoadedKernel, *values: Any) -> None:
        """Ask for a launch in a stream. Raises what numba raises on a GPU."""
        with as_numba_raises("cuLaunchKernelEx"):
            simulation = self._simulation
            found = kernel.on(simulation.device)
            parameters = pack(found.name, found.parameters, found.parameter_bytes, values)
            arrays = dict(self._arrays(kernel, values))
            names = self._names(arrays, {parameter.name: parameter.offset for parameter in found.parameters})
            shape = LaunchShape(config.grid, config.block, int(config.shmem_size), bool(config.is_cooperative))
            simulation.device.require_launchable(found, shape)
            simulation.exchange(to_device=True)
            simulation.launches += 1
            simulation.stream(getattr(stream, "handle", stream)).submit(Launch(found, shape, parameters, names, tuple(arrays.values())))
            simulation.exchange(to_device=False)

    def _arrays(self, kernel: LoadedKernel, values: Sequence[Any]) -> Iterator[tuple[str, Array]]:
        """The arrays and records among the arguments as the device has them, by name. An extension of numba's may pass what is none."""
        types = getattr(self._calling, "types", None)
        arguments = kernel.arguments
        if types is None or arguments is None or len(values) != len(flat_parameters(arguments)):
            return
        first = 0
        for argument, kind in _single(arguments, types):
            count = len(argument.parameters())
            found = self._array(argument, kind, values[first : first + count])
            if found is not None:
                yield argument.name, found
            first += count

    def _array(self, argument: Argument, kind: Any, values: Sequence[Any]) -> Array | None:
        shape: tuple[int, ...] = ()
        strides: tuple[int, ...] = ()
        if isinstance(argument, Record):
            address, dtype = int(values[0]), numpy_support.as_dtype(kind)
        elif isinstance(argument, DeviceArray):
            address, dtype = int(values[_DATA]), numpy_support.as_dtype(kind.dtype)
            rest = [int(value) for value in values[_DATA + 1 :]]
            shape, strides = tuple(rest[: argument.dimensions]), tuple(rest[argument.dimensions :])
        else:
            return None
        if address == 0 or self._simulation.device.memory.find(address) is None:
            return None
        return Array(self._simulation.find(address).storage, address, shape, dtype, strides)

    def _names(self, arrays: dict[str, Array], offsets: dict[str, int]) -> Buffers:
        """Allocation address → what messages call the array: a variable of the caller that holds it, else the kernel's parameter."""
        names = Buffers()
        names.extents = {}
        known = variables({array.storage.address for array in arrays.values()})
        for name, array in arrays.items():
            storage = array.storage
            if array.address == storage.address:
                self._simulation.describe(storage.address, array.shape, array.dtype)
            spans = extent_of(array) if array.size else [(array.address, array.address)]
            names.extents[offsets[name]] = min(low for low, _ in spans), max(high for _, high in spans)
            storage.known_as = names.setdefault(storage.address, known.get(storage.address, name))
        return names


def _single(arguments: Sequence[Argument], types: Sequence[Any]) -> Iterator[tuple[Argument, Any]]:
    """The arguments with their types, those inside tuples one by one."""
    for argument, kind in zip(arguments, types, strict=True):
        if isinstance(argument, Members):
            yield from _single(argument.items, list(kind))
        else:
            yield argument, kind


def pack(kernel: str, parameters: Sequence[KernelParameter], size: int, values: Sequence[Any]) -> bytes:
    """The parameter buffer of `size` bytes. Raises LaunchError where values and parameters do not fit each other."""
    if len(values) != len(parameters):
        raise LaunchError(f"{kernel} takes {len(parameters)} values, but {len(values)} were given")
    buffer = bytearray(size)
    for parameter, value in zip(parameters, values, strict=True):
        data = value_bytes(value, parameter.size)
        if len(data) != parameter.size:
            raise LaunchError(f"{kernel}: {parameter.name} has {parameter.size} bytes, but {len(data)} were given")
        buffer[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(buffer)


def value_bytes(value: Any, size: int) -> bytes:
    """A value of numba's list as bytes: a number of ctypes or NumPy as it is, an integer of whatever size is wanted."""
    if isinstance(value, ctypes._SimpleCData):
        return bytes(value)
    if isinstance(value, np.generic):
        return value.tobytes()
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
