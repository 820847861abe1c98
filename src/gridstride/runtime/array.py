"""`Array`: typed device memory with a shape. Views by slicing share memory; memory is freed with its last user, or by `free` or a `with` block."""

from __future__ import annotations

import math
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.runtime.checking import api_call
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.runtime.streams import Stream


class Array:
    """Device memory seen as `shape` elements of `dtype`; made by `Device.array`, `empty`, `zeros`, and by slicing.

    strides: bytes from one element to the next along each axis. address: the device address of the first element.
    Using an array after `free` raises UsageError.
    """

    def __init__(
        self, storage: Storage, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
    ) -> None:
        self._storage = storage
        self._address = address
        self.shape = shape
        self.dtype = dtype
        self.strides = row_major(shape, dtype.itemsize) if strides is None else strides

    @property
    def address(self) -> int:
        self._require_live()
        return self._address

    @property
    def name(self) -> str | None:
        """What messages call the memory; if None, they use the caller's variable or the kernel's parameter."""
        return self._storage.name

    @property
    def device(self) -> Any:
        return self._storage.device

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, gaps of a strided view not counted."""
        return self.size * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Elements lie without gaps in row-major order."""
        return self.size == 0 or all(
            stride == want
            for extent, stride, want in zip(self.shape, self.strides, row_major(self.shape, self.dtype.itemsize), strict=True)
            if extent != 1
        )

    @property
    def is_view(self) -> bool:
        """Shows less than the whole allocation."""
        return self._address != self._storage.address or self.nbytes != self._storage.size

    def numpy(self) -> npt.NDArray[Any]:
        """The content as a NumPy array of its own, once everything that was asked of the default stream before has ended."""
        self._require_live()
        self._storage.watcher.host_reads(self)
        return self._mapped().copy()

    def copy_from(self, source: Any, stream: Stream | None = None) -> Self:
        """Overwrite all elements with a host array's or another array's of the same shape. Returns self.

        stream: only ask for it there, which needs an array of the same element type; without one the host's data is there on return.
        Raises UsageError where the shape differs, or where the element type would lose more than a float's precision.
        """
        if stream is not None:
            known = isinstance(source, Array) or hasattr(source, "in_stream")
            stream.copy_for(sys._getframe(1), self, source if known else host_array(source))
            return self
        if hasattr(source, "in_stream") and (source.shape, source.dtype, source.device) == (self.shape, self.dtype, self.device):
            pinned_stream = self.device.default_stream
            pinned_stream.copy_for(sys._getframe(1), self, source)
            pinned_stream.synchronize()
            return self
        if isinstance(source, Array) and (source.device, source.shape, source.dtype) == (self.device, self.shape, self.dtype):
            self._require_live()
            source._require_live()
            if self._storage.sharing.copies(self, source):
                return self
        self._storage.watcher.begins()
        with api_call():
            values = source._mapped() if isinstance(source, Array) else host_array(source)
            if values.shape != self.shape:
                raise UsageError(f"cannot copy an array of shape {values.shape} into one of shape {self.shape}")
        self._assign(values)
        if isinstance(source, Array) and source.device is self.device:
            self._storage.watcher.copied(self, source)
        else:
            self._storage.watcher.host_wrote(self)
        return self

    def copy_to(self, destination: Any, stream: Stream | None = None) -> None:
        """Copy all elements into a NumPy or pinned array, or another device array, of the same shape and element type.

        stream: only ask for it there; the destination must not be used before the stream was waited for.
        """
        if stream is not None:
            stream.copy_for(sys._getframe(1), destination, self)
        elif isinstance(destination, Array):
            destination.copy_from(self)
        elif hasattr(destination, "in_stream") and destination.device is self.device:
            pinned_stream = self.device.default_stream
            pinned_stream.copy_for(sys._getframe(1), destination, self)
            pinned_stream.synchronize()
        else:
            target = destination.in_stream if hasattr(destination, "in_stream") else destination
            if not isinstance(target, np.ndarray) or target.shape != self.shape or target.dtype != self.dtype:
                raise UsageError(f"copy_to needs a NumPy or pinned array of {self.dtype} with shape {self.shape}")
            if not target.flags.writeable:
                raise UsageError("the host array to copy to is read-only")
            target[...] = self.numpy()

    def fill(self, value: Any, stream: Stream | None = None) -> Self:
        """Set every element to `value`, which must fit the element type. Returns self. stream: only ask for it there."""
        if stream is not None:
            stream.fill(self, value)
            return self
        self._require_live()
        element = self.one_element(value)
        self._storage.watcher.begins()
        if self._storage.sharing.fills(self, element.tobytes()):
            return self
        self._assign(np.broadcast_to(element, self.shape))
        self._storage.watcher.filled(self)
        return self

    def one_element(self, value: Any) -> npt.NDArray[Any]:
        """A value as an element of this array, an array without dimensions. Raises UsageError where it does not fit."""
        element = host_array(value)
        if element.ndim:
            raise UsageError(f"fill takes one value, not an array of shape {element.shape}; use copy_from")
        return self._converted(element)

    # ---- what implementations of devices do to it ----------------------------------------------------------------------

    def take(self, source: Array | npt.NDArray[Any]) -> None:
        """Get the elements of an array of the same shape and type, at once."""
        self._assign(source._mapped() if isinstance(source, Array) else source)

    def give(self, destination: npt.NDArray[Any]) -> None:
        """Put the elements into a host array of the same shape and type, at once."""
        destination[...] = self._mapped()

    def set_bytes(self, pattern: bytes) -> None:
        """Set every element to one value, at once."""
        self._assign(np.broadcast_to(np.frombuffer(pattern, self.dtype)[0], self.shape))

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape, without a copy; -1 stands for what is left."""
        if not self.contiguous:
            raise UsageError("only an array without gaps can be reshaped without a copy")
        try:
            new = np.broadcast_to(np.empty((), np.uint8), (self.size,)).reshape(*shape).shape
        except ValueError:
            raise UsageError(f"cannot reshape {self.shape} into {shape[0] if len(shape) == 1 else shape}") from None
        return Array(self._storage, self.address, new, self.dtype)

    def view(self, dtype: npt.DTypeLike) -> Array:
        """The same bytes as elements of another type; the last axis changes with the element size."""
        new = np.dtype(dtype)
        if not self.contiguous or not self.shape:
            raise UsageError("only an array without gaps and with an axis can be seen as another type")
        row = self.shape[-1] * self.dtype.itemsize
        if new.hasobject or new.itemsize == 0 or row % new.itemsize:
            raise UsageError(f"rows of {row} bytes cannot be seen as {new}")
        return Array(self._storage, self.address, (*self.shape[:-1], row // new.itemsize), new)

    def item(self) -> Any:
        """The one element of an array of size 1, as a Python number."""
        if self.size != 1:
            raise UsageError(f"an array of shape {self.shape} is not one element")
        self._require_live()
        self._storage.watcher.host_reads(self)
        return self._mapped().item()

    def free(self) -> None:
        """Free the memory for this array and all its views. Raises UsageError where it was freed before."""
        self._storage.free()

    def __getitem__(self, key: Any) -> Array:
        layout = self._layout()
        if isinstance(key, str):
            if self.dtype.names is None or key not in self.dtype.names:
                raise UsageError(f"an array of {self.dtype} has no field {key!r}")
            picked = layout[key]
        else:
            parts = key if isinstance(key, tuple) else (key,)
            for part in parts:
                if not (part is None or part is Ellipsis or isinstance(part, int | np.integer | slice)) or isinstance(part, bool):
                    raise UsageError(
                        f"device arrays are sliced by numbers and ranges, not by {type(part).__name__}; copy with .numpy() first"
                    )
            # With an ellipsis NumPy makes a view even of a single element and never reads the memory, which is not there.
            picked = layout[parts if Ellipsis in parts else (*parts, Ellipsis)]
        offset = picked.__array_interface__["data"][0] - layout.__array_interface__["data"][0]
        return Array(self._storage, self.address + offset, picked.shape, picked.dtype, picked.strides)

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        if isinstance(value, Array):
            value = value.numpy()
        if np.ndim(value) == 0:
            target.fill(value)
        else:
            target.copy_from(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a device array can only be copied to the host; use .numpy()")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Export to other libraries without a copy. The importer keeps the memory alive; `free` ends it for all."""
        return self._storage.sharing.dlpack(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._storage.sharing.dlpack_device()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For libraries that work on a GPU's memory. Arrays of the simulator do not have it."""
        return self._storage.sharing.cuda_interface(self)

    def __enter__(self) -> Self:
        self._require_live()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._storage.live:
            self._storage.free()

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        name = f" {self.name}" if self.name else ""
        state = f"at {self._address:#x}" if self._storage.live else "freed"
        return f"<gridstride.Array{name}: {self.dtype}[{shape}] {state} on {self.device}>"

    def _require_live(self) -> None:
        if not self._storage.live:
            raise UsageError(f"{self._storage.label} was freed and cannot be used any more")

    def _layout(self) -> npt.NDArray[Any]:
        """An array of this shape and these strides over no memory worth reading: NumPy's slicing rules, without the data."""
        return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)

    def _span(self) -> tuple[int, int]:
        """Bytes before the first element and the number of bytes from the lowest to past the highest."""
        reaches = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        before = -sum(reach for reach in reaches if reach < 0)
        return before, before + sum(reach for reach in reaches if reach > 0) + self.dtype.itemsize

    def _mapped(self) -> npt.NDArray[Any]:
        """The elements over the device's bytes as they are now."""
        self._require_live()
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        before, length = self._span()
        data = self._storage.memory.read(self._address - before, length)
        return np.ndarray(self.shape, self.dtype, buffer=data.data, offset=before, strides=self.strides)

    def over(self, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """What `data`, one byte for each byte of the whole allocation, has for the elements: shape and, last, the bytes of an element.

        Bytes between the fields of a structure are left out.
        """
        before, length = self._span()
        start = self._address - before - self._storage.address
        raw = np.ndarray((*self.shape, self.dtype.itemsize), np.uint8, data[start : start + length].copy(), before, (*self.strides, 1))
        return raw[..., _field_bytes(self.dtype)]

    def _assign(self, values: npt.NDArray[Any]) -> Self:
        self._require_live()
        values = self._converted(values)
        if self.size == 0:
            return self
        before, length = self._span()
        if self.contiguous:
            data = np.ascontiguousarray(values)
        else:
            data = self._storage.memory.read(self._address - before, length).copy()
            np.ndarray(self.shape, self.dtype, buffer=data.data, offset=before, strides=self.strides)[...] = values
        self._storage.memory.write(self._address - before, data.reshape(-1).view(np.uint8))
        return self

    def _converted(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype == self.dtype:
            return values
        if values.dtype.kind in "iu" and self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            wrong = values[(values < limits.min) | (values > limits.max)]
            if wrong.size:
                raise UsageError(f"{wrong.flat[0]} does not fit an array of {self.dtype} ({limits.min} to {limits.max})")
        elif not np.can_cast(values.dtype, self.dtype, "same_kind"):
            raise UsageError(
                f"cannot copy {values.dtype} into an array of {self.dtype}: convert it first, as in .astype(np.{self.dtype.name})"
            )
        return values.astype(self.dtype)


def _field_bytes(dtype: np.dtype[Any]) -> list[int]:
    """The bytes of an element that belong to a field."""
    if dtype.fields is None:
        return list(range(dtype.itemsize))
    return sorted({offset + k for kind, offset, *_ in dtype.fields.values() for k in _field_bytes(kind.base)})


def host_array(data: Any) -> npt.NDArray[Any]:
    """Any host data as a NumPy array: arrays, nested lists, numbers, and objects that speak the array interface or DLPack on the CPU.

    Raises UsageError for what is no array of numbers or lies in a GPU's memory.
    """
    if isinstance(data, Array):
        return data.numpy()
    if not isinstance(data, np.ndarray) and hasattr(data, "__cuda_array_interface__"):
        raise UsageError(f"the {type(data).__name__} lies in a GPU's memory; copy it to the host first (CuPy: .get(), PyTorch: .cpu())")
    try:
        if not hasattr(data, "__array__") and hasattr(data, "__dlpack__"):
            return np.from_dlpack(data)
        values = np.asarray(data)
    except (ValueError, TypeError, BufferError, RuntimeError) as error:
        raise UsageError(f"cannot make an array of a {type(data).__name__}: {error}") from None
    if values.dtype.hasobject or values.dtype.kind in "USMm":
        raise UsageError(f"an array of {values.dtype} cannot lie in device memory; convert it to numbers first")
    return values


def row_major(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps whose last axis is the fastest."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)
