"""What a stream or a graph can be asked to do, as data: the same for the simulator and for a GPU, which each carry it out in their way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.events.hazards import first_common, ranges
from gridstride.runtime.array import Array
from gridstride.runtime.contracts.coverage import Output, outputs_of
from gridstride.runtime.names import extent_of

if TYPE_CHECKING:
    from gridstride.runtime.device import LaunchShape
    from gridstride.runtime.module import Kernel


@dataclass(frozen=True)
class Launch:
    """A kernel with everything it is launched with. `arguments` keeps the arrays alive until it has run."""

    kernel: Kernel
    shape: LaunchShape
    parameters: bytes
    names: Mapping[int, str]
    arguments: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def what(self) -> str:
        return f"kernel `{self.kernel.name}`"

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Those of which the kernel's contract gives each element to one thread."""
        return outputs_of(self.kernel.bound, self.kernel.flat(self.arguments)) if self.kernel.bound is not None else ()


@dataclass(frozen=True)
class Rows:
    """Bytes in rows: `count` rows of `width` bytes, `pitch` bytes from one to the next."""

    address: int
    count: int
    width: int
    pitch: int

    @property
    def nbytes(self) -> int:
        return self.count * self.width


@dataclass(frozen=True)
class Copy:
    """Elements from one array to another of the same shape and type; at least one of them is a device array."""

    destination: Array | npt.NDArray[Any] = field(repr=False)
    source: Array | npt.NDArray[Any] = field(repr=False)

    @property
    def what(self) -> str:
        if isinstance(self.destination, Array) and isinstance(self.source, Array):
            return f"the copy of {label(self.source)} to {label(self.destination)}"
        if isinstance(self.destination, Array):
            return f"the copy to {label(self.destination)}"
        return f"the copy of {label(self.source)} to the host"

    @property
    def nbytes(self) -> int:
        return int(self.source.nbytes)

    @property
    def to_device(self) -> bool:
        return not isinstance(self.source, Array)

    @property
    def to_host(self) -> bool:
        return not isinstance(self.destination, Array)


@dataclass(frozen=True)
class Fill:
    """Every element of a device array set to one value, whose bytes are `pattern`."""

    array: Array
    pattern: bytes

    @property
    def what(self) -> str:
        return f"the fill of {label(self.array)}"


@dataclass(frozen=True)
class HostCall:
    """A function of the host, called in the stream's order. It must not ask the device for anything."""

    function: Callable[..., object]
    arguments: tuple[Any, ...] = ()

    @property
    def what(self) -> str:
        return f"the host function {getattr(self.function, '__name__', 'object')}"


@dataclass(frozen=True)
class Prefetch:
    """Managed memory moved to where it will be used."""

    array: Array
    to_host: bool

    @property
    def what(self) -> str:
        return f"the prefetch of {label(self.array)} to the {'host' if self.to_host else 'device'}"


@dataclass(frozen=True)
class Allocate:
    """An array of the stream's pool, there for what is asked of the stream from now on."""

    array: Array = field(repr=False)

    @property
    def what(self) -> str:
        return f"the allocation of {label(self.array)}"


@dataclass(frozen=True)
class Free:
    """An array of the stream's pool given back, once what was asked of the stream before has ended."""

    array: Array = field(repr=False)

    @property
    def what(self) -> str:
        return f"the freeing of {label(self.array)}"


Command = Launch | Copy | Fill | HostCall | Prefetch | Allocate | Free


def label(array: Array | npt.NDArray[Any]) -> str:
    """What a message calls an array: its name, or the variable of the caller that held it when it was last used."""
    if not isinstance(array, Array):
        return "a host array"
    name = array.name or array.storage.known_as
    return f"`{name}`" if name else "an array"


def rows_of(array: Array | npt.NDArray[Any]) -> Rows:
    """An array's elements as rows of bytes. Raises UsageError for one whose elements are not in rows, which no copy engine can move."""
    if isinstance(array, Array):
        address, strides = array.address, array.strides
    else:
        address, strides = int(array.ctypes.data), tuple(array.strides)
    width, rest = array.dtype.itemsize, len(array.shape)
    while rest and (strides[rest - 1] == width or array.shape[rest - 1] == 1):
        rest -= 1
        width *= array.shape[rest]
    shape, steps = array.shape[:rest], strides[:rest]
    while len(shape) > 1 and (steps[-2] == steps[-1] * shape[-1] or shape[-2] == 1):
        shape = (*shape[:-2], shape[-2] * shape[-1])
        steps = (*steps[:-2], steps[-1])
    if len(shape) > 1 or (steps and steps[0] < width):
        raise UsageError(f"an array of shape {array.shape} with strides {strides} does not lie in rows, so it cannot be copied in a stream")
    return Rows(address, shape[0] if shape else 1, width, steps[0] if steps else width)


def copy_command(destination: Array | npt.NDArray[Any], source: Array | npt.NDArray[Any]) -> Copy:
    """A copy for a stream. Raises UsageError where shape or type differ: converting takes the host's time, so it is the caller's to do."""
    if not isinstance(destination, Array) and not isinstance(source, Array):
        raise UsageError("a copy in a stream has a device array on one side at least; between host arrays NumPy copies")
    if destination.shape != source.shape:
        raise UsageError(f"cannot copy an array of shape {source.shape} into one of shape {destination.shape}")
    if destination.dtype != source.dtype:
        raise UsageError(f"a copy in a stream converts nothing: the source holds {source.dtype}, the destination {destination.dtype}; convert it first")
    if isinstance(destination, Array) and isinstance(source, Array) and _overlap(destination, source):
        raise UsageError("the two parts of one array that are copied have bytes in common: what a copy makes of them is undefined")
    if not isinstance(destination, Array) and not destination.flags.writeable:
        raise UsageError("the host array to copy to is read-only")
    for array in (destination, source):
        if array.size:
            rows_of(array)
    return Copy(destination, source)


def _overlap(first: Array, second: Array) -> bool:
    """Whether two arrays have bytes in common."""
    if first.storage is not second.storage or first.size == 0:
        return False
    return first_common(*(ranges(extent_of(array)) for array in (first, second))) is not None


def fill_command(array: Array, value: Any) -> Fill:
    """A fill for a stream. Raises UsageError where the value does not fit the array's type."""
    element = array.one_element(value)
    return Fill(array, element.tobytes())
