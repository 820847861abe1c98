"""Memory of the host that the device knows: pinned (and mapped, so that kernels reach it too), and managed, which moves to where it is used."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gridstride.runtime.array import Array, host_array
from gridstride.runtime.storage import Storage

_READING = frozenset(("all", "any", "argmax", "argmin", "argsort", "astype", "copy", "dot", "item", "max", "mean", "min", "prod", "std", "sum", "tobytes", "tolist", "var"))


class HostArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Pinned host memory as a NumPy-like array; made by `device.pinned`.

    Copies between it and the device run beside other work. Kernels may be given it as it is (zero-copy: every access crosses the bus), or
    `mapped`, a device array over the same memory. Slices share the memory. Reading and writing single elements, assigning to slices, and
    NumPy's functions and operators are accesses of the host, which `gs.checking()` compares with what is under way in streams; what is
    done with the array that `numpy()` gives is not seen.
    """

    def __init__(self, mapped: Array, host: npt.NDArray[Any]) -> None:
        self.mapped = mapped
        self._host = host

    @property
    def device(self) -> Any:
        return self.mapped.device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mapped.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.mapped.dtype

    @property
    def size(self) -> int:
        return self.mapped.size

    @property
    def nbytes(self) -> int:
        return self.mapped.nbytes

    def numpy(self) -> npt.NDArray[Any]:
        """The memory itself as a NumPy array, no copy. What is done with it is not seen as an access."""
        self._touched()
        return self._host

    @property
    def in_stream(self) -> npt.NDArray[Any]:
        """The memory for a copy in a stream, which is no access of the host."""
        self.mapped.address  # noqa: B018 - raises where it was freed
        return self._host

    def __getitem__(self, key: Any) -> Any:
        """A part by slicing, which shares the memory; or one element, as a copy."""
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) == self._host.ndim and all(isinstance(part, int | np.integer) for part in parts):
            self._touched(self.mapped[key], reads=True)
            return self._host[key]
        return HostArray(self.mapped[key], self._host[parts if Ellipsis in parts else (*parts, Ellipsis)])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, np.ndarray | list):
            self._touched(self.mapped, writes=True)
        else:
            self._touched(self.mapped[key], writes=True)
        self._host[key] = host_array(value)

    def __len__(self) -> int:
        return len(self._host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("use .numpy() for the memory itself")
        self._touched(self.mapped, reads=True)
        return self._host.astype(self.dtype if dtype is None else dtype, copy=True)

    def __getattr__(self, name: str) -> Any:
        """NumPy's methods that only read."""
        if name in _READING:
            return getattr(np.asarray(self), name)
        raise AttributeError(f"a pinned array has no {name!r}; `numpy()` gives the memory as a NumPy array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        """NumPy's operations: its elements are read, or written where it is `out`."""
        given = [np.asarray(value) if isinstance(value, HostArray) else value for value in inputs]
        if out:
            for target in out:
                if isinstance(target, HostArray):
                    target._touched(target.mapped, writes=True)
            options["out"] = tuple(target._host if isinstance(target, HostArray) else target for target in out)
        result = getattr(ufunc, method)(*given, **options)
        return out[0] if len(out) == 1 and isinstance(out[0], HostArray) else result

    def free(self) -> None:
        """Free the memory. NumPy arrays that `numpy()` gave must not be used any more."""
        self.mapped.free()

    def _touched(self, part: Array | None = None, *, reads: bool = False, writes: bool = False) -> None:
        self.mapped.address  # noqa: B018 - raises where it was freed
        self.device.host_touches(self.mapped if part is None else part, reads=reads, writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.mapped.storage.live:
            self.free()

    def __str__(self) -> str:
        """Its elements, as NumPy prints them."""
        return str(np.asarray(self))

    def __repr__(self) -> str:
        return f"<gridstride.HostArray: {self.dtype}{list(self.shape)} pinned for {self.device}>"


class ManagedArray(Array):
    """Managed memory: one address for the host and the device, its pages moved to where they are used; made by `device.managed`.

    Everything that an array can do, and `host`, the memory as the host sees it. Slices are managed too.
    """

    def __init__(self, array: Array, host: npt.NDArray[Any]) -> None:
        super().__init__(array.storage, array.address, array.shape, array.dtype, array.strides)
        self._host_view = host

    @property
    def host(self) -> HostArray:
        """The memory as the host uses it, no copy; pages that it touches move to the host. The device's work on them must have ended."""
        self.address  # noqa: B018 - raises where it was freed
        return HostArray(self, self._host_view)

    def __getitem__(self, key: Any) -> ManagedArray:
        parts = key if isinstance(key, tuple) else (key,)
        whole = isinstance(key, str) or Ellipsis in parts
        return ManagedArray(super().__getitem__(key), self._host_view[key if whole else (*parts, Ellipsis)])


class _Keeper:
    """Keeps memory alive as long as a NumPy array looks at it."""

    def __init__(self, storage: Storage, memory: npt.NDArray[Any]) -> None:
        self.storage = storage
        self.__array_interface__ = memory.__array_interface__


def kept_by_view(storage: Storage, memory: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The host's bytes of an allocation as an array of elements, which keeps the allocation."""
    return np.asarray(_Keeper(storage, memory)).view(dtype).reshape(shape)
