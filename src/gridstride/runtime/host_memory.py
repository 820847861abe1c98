"""Memory of the host that the device knows: pinned (and mapped, so that kernels reach it too), and managed, which moves to where it is used."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.runtime.array import Array, Storage, host_array


class HostArray:
    """Pinned host memory as a NumPy-like array; made by `device.pinned`.

    Copies between it and the device run beside other work. Kernels may be given it as it is (zero-copy: every access crosses the bus), or
    `mapped`, a device array over the same memory. Reading and writing through indexing, `numpy()` and NumPy's functions are accesses of
    the host, which `gs.checking()` compares with what is under way in streams.
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
        """The memory itself as a NumPy array, no copy. What is done with it later is not seen as an access."""
        self._touched(reads=True, writes=True)
        return self._host

    def in_stream(self) -> npt.NDArray[Any]:
        """The memory for a copy in a stream, which is no access of the host."""
        self.mapped.address  # noqa: B018 - raises where it was freed
        return self._host

    def view_of(self, key: Any) -> HostArray:
        """A part of it by slicing, which shares the memory: `pinned.view_of(slice(0, 100))` for a copy of 100 elements."""
        return HostArray(self.mapped[key], self._host[(*key, Ellipsis) if isinstance(key, tuple) else (key, Ellipsis)])

    def __getitem__(self, key: Any) -> Any:
        """Elements, as a copy of their own."""
        self._touched(reads=True)
        picked = self._host[key]
        return picked.copy() if isinstance(picked, np.ndarray) else picked

    def __setitem__(self, key: Any, value: Any) -> None:
        self._touched(writes=True)
        self._host[key] = host_array(value)

    def __len__(self) -> int:
        return len(self._host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("use .numpy() for the memory itself")
        self._touched(reads=True)
        return self._host.astype(self.dtype if dtype is None else dtype, copy=True)

    def free(self) -> None:
        """Free the memory. NumPy arrays that `numpy()` gave must not be used any more."""
        self.mapped.free()

    def _touched(self, *, reads: bool = False, writes: bool = False) -> None:
        self.mapped.address  # noqa: B018 - raises where it was freed
        self.mapped.device.host_touches(self.mapped, reads=reads, writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.mapped.storage.live:
            self.free()

    def __repr__(self) -> str:
        return f"<gridstride.HostArray: {self.dtype}{list(self.shape)} pinned for {self.device}>"


class ManagedArray(Array):
    """Managed memory: one address for the host and the device, its pages moved to where they are used; made by `device.managed`.

    Everything that an array can do, and `host`, the memory as the host sees it.
    """

    def __init__(self, storage: Storage, shape: tuple[int, ...], dtype: np.dtype[Any], host: npt.NDArray[Any]) -> None:
        super().__init__(storage, storage.address, shape, dtype)
        self._host_view = host

    @property
    def host(self) -> npt.NDArray[Any]:
        """The memory as a NumPy array, no copy; the device's work on it must have ended. Its pages move to the host."""
        if not self.storage.live:
            raise UsageError(f"{self.storage.label} was freed and cannot be used any more")
        self.device.host_touches(self, reads=True, writes=True)
        return self._host_view


class _Keeper:
    """Keeps memory alive as long as a NumPy array looks at it."""

    def __init__(self, storage: Storage, memory: npt.NDArray[Any]) -> None:
        self.storage = storage
        self.__array_interface__ = memory.__array_interface__


def kept_by_view(storage: Storage, memory: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The host's bytes of an allocation as an array of elements, which keeps the allocation."""
    return np.asarray(_Keeper(storage, memory)).view(dtype).reshape(shape)
