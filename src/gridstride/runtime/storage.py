"""`Storage`: one device allocation, and what an array asks of the memory that it lies in."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.observers.checks import double_free
from gridstride.runtime.checking import record as record_findings

if TYPE_CHECKING:
    from gridstride.runtime.array import Array


class DeviceMemory(Protocol):
    """What an array needs of the memory of its device. Addresses are the device's own; sizes are in bytes."""

    def read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The bytes there now; perhaps a view that follows later changes."""
        ...

    def write(self, address: int, data: npt.NDArray[np.uint8]) -> None: ...


class Watcher:
    """Is told what the host does with arrays outside of streams; this one does not mind."""

    def begins(self) -> None:
        """The host is about to copy or fill. Raises the fault of an earlier kernel, and UsageError where it must not now."""

    def host_reads(self, array: Array) -> None:
        """The host is about to get an array's content."""

    def host_wrote(self, array: Array) -> None:
        """The host has overwritten an array."""

    def copied(self, destination: Array, source: Array) -> None:
        """An array was copied into another."""

    def filled(self, array: Array) -> None:
        """An array was set to one value."""


class Sharing:
    """How arrays in one kind of memory get to other libraries and to each other; this one is for memory that is the host's."""

    def dlpack(self, array: Array, **options: Any) -> Any:
        """A capsule over an array's memory."""
        return np.asarray(Exposed(array)).__dlpack__(**options)

    def dlpack_device(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def cuda_interface(self, array: Array) -> dict[str, Any]:
        """What `__cuda_array_interface__` says. Raises AttributeError where the memory is none of CUDA's."""
        raise AttributeError("an array of the simulator lies in the host's memory, not in CUDA's: __cuda_array_interface__ is for a GPU's")

    def copies(self, destination: Array, source: Array) -> bool:
        """Copy between arrays of one device, shape and type where they are, if that is possible."""
        return False

    def fills(self, array: Array, pattern: bytes) -> bool:
        """Set every element to one value where the array is, if that is possible."""
        return False


class Storage:
    """One device allocation, shared by an array and all its views."""

    def __init__(
        self,
        device: object,
        memory: DeviceMemory,
        address: int,
        size: int,
        name: str | None = None,
        release: Callable[[], object] | None = None,
        released: Callable[[], object] = lambda: None,
    ) -> None:
        """`release` is called once, when nobody uses the memory any more or it is freed (then `released` follows); None: it is never freed.

        It may be called by the garbage collector, at any moment and on any thread, and must not refer to this object.
        """
        self.device = device
        self.memory = memory
        self.address = address
        self.size = size
        self.name = name
        self.watcher = Watcher()
        self.known_as: str | None = None  # the caller's variable, for memory without a name
        self.sharing = Sharing()
        self._released = released
        # Without atexit: at interpreter exit the memory may be gone before its users are.
        self._finalizer = weakref.finalize(self, release) if release else None
        if self._finalizer:
            self._finalizer.atexit = False

    @property
    def live(self) -> bool:
        return self._finalizer is None or self._finalizer.alive

    def free(self) -> None:
        """Free the memory now. Raises UsageError for memory that is the program's own (module variables) or already freed."""
        if self._finalizer is None:
            raise UsageError(f"{self.label} belongs to its module and is freed with it")
        if not self._finalizer.alive:
            record_findings([double_free.freed_again(self.label)])
            raise UsageError(f"{self.label} was already freed")
        self._finalizer()
        self._released()

    @property
    def label(self) -> str:
        return f"the array {self.name!r}" if self.name else f"the array at {self.address:#x}"


class Exposed:
    """Lets NumPy hold the array alive for as long as it looks at its memory."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__array_interface__ = array._mapped().__array_interface__
