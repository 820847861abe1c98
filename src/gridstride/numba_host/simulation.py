"""What a CUDA driver keeps for a process, on a simulated device: memory by its address, streams, events and modules by their handles."""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.runtime.array import Array
from gridstride.runtime.simulated_memory import ArenaBytes
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.numba_host.modules import LoadedModule
    from gridstride.runtime.simulator import Simulator
    from gridstride.runtime.streams import Event, Stream

LEGACY, PER_THREAD = 1, 2
"""CU_STREAM_LEGACY and CU_STREAM_PER_THREAD of cuda.h."""
_BYTE = np.dtype(np.uint8)


@dataclass
class Held:
    """An allocation of the program, and the type of the elements that its first array had."""

    storage: Storage
    dtype: np.dtype[Any] = _BYTE


@dataclass(frozen=True)
class Registered:
    """Memory of the host that was page-locked where it is (`cuMemHostRegister`); `twin` is what kernels see of it, where it is mapped."""

    address: int
    nbytes: int
    twin: Storage | None

    def host(self) -> npt.NDArray[np.uint8]:
        return host_bytes(self.address, self.nbytes)


class Simulation:
    """One simulated device as a driver has it. `device` is replaced when the program resets it (`numba.cuda.close`)."""

    def __init__(self, device: Simulator) -> None:
        self.device = device
        self.timed = False
        """The time between events was asked for, which is the model's."""
        self.launches = 0
        self._handles = itertools.count(0x1000, 16)
        self._clear()

    def _clear(self) -> None:
        self._held: dict[int, Held] = {}
        self._registered: dict[int, Registered] = {}
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._own = threading.local()
        self.modules: dict[int, LoadedModule] = {}

    def move_to(self, device: Simulator) -> None:
        """Use another device. Raises UsageError once something was asked of this one."""
        if device is self.device:
            return
        if self._held or self._registered or self._streams or self._events or self.launches:
            raise UsageError(f"numba.cuda has been used on {self.device} already; one process has one device for it")
        self.device = device
        self._clear()

    def reset(self) -> None:
        """End everything that the program has on the device, faults too; what was loaded is loaded again when it is used."""
        self.device = self.device.another()
        modules = self.modules
        self._clear()
        self.modules = modules

    def new_handle(self) -> int:
        return next(self._handles)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def hold(self, storage: Storage) -> int:
        """Keep an allocation until it is released, and give its address."""
        self._held[storage.address] = Held(storage)
        return storage.address

    def release(self, address: int) -> None:
        """Give an allocation back. Numba asks for it from finalizers, which the garbage collector runs at any moment and in any thread: nothing
        here may wait for the device, which frees what nobody holds any more before its next operation."""
        if self._held.pop(address, None) is None:
            raise UsageError(f"nothing was allocated at {address:#x}, or it was freed before")

    def holds(self, address: int) -> bool:
        return address in self._held

    def describe(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """The first array at the start of an allocation: what messages count in."""
        held = self._held.get(address)
        if held is not None and held.dtype is _BYTE and not dtype.hasobject and dtype.itemsize:
            held.dtype = dtype
            self.device.made(Array(held.storage, address, shape, dtype))

    def find(self, address: int) -> Held:
        """The allocation that holds an address: the program's, or a variable of a module. Raises UsageError where there is none."""
        allocation = self.device.memory.find(address)
        if allocation is None:
            raise UsageError(f"no device memory is at {address:#x}")
        held = self._held.get(allocation.address)
        if held is None:
            held = Held(Storage(self.device, ArenaBytes(self.device.memory), allocation.address, allocation.size, allocation.name or None))
        return held

    def array(self, address: int, nbytes: int) -> Array:
        """Device memory as a flat array, of the elements that lie there if `nbytes` are a whole number of them, else of bytes."""
        held = self.find(address)
        start = address - held.storage.address
        if start + nbytes > held.storage.size:
            raise UsageError(f"{nbytes:,} bytes at {address:#x} reach beyond the allocation, which has {held.storage.size:,} bytes from {held.storage.address:#x}")
        size = held.dtype.itemsize
        dtype = held.dtype if start % size == 0 and nbytes % size == 0 else _BYTE
        return Array(held.storage, address, (nbytes // dtype.itemsize,), dtype)

    def register(self, address: int, nbytes: int, *, mapped: bool) -> None:
        if address in self._registered:
            raise UsageError(f"the host's memory at {address:#x} is pinned already")
        twin = self.device.allocate(nbytes) if mapped else None
        self._registered[address] = registered = Registered(address, nbytes, twin)
        self.device.pin(address, nbytes)
        if twin is not None:
            twin.memory.write(twin.address, registered.host())

    def unregister(self, address: int) -> None:
        """As `release`."""
        registered = self._registered.pop(address, None)
        if registered is None:
            raise UsageError(f"the host's memory at {address:#x} is not pinned")
        self.device.unpin(address)

    def mapped_address(self, address: int) -> int:
        """Where kernels find memory of the host that is mapped."""
        registered = self._registered.get(address)
        if registered is not None:
            if registered.twin is None:
                raise UsageError(f"the host's memory at {address:#x} is pinned, but not mapped for the device")
            return registered.twin.address
        return address  # allocated by the driver: host and device have one address for it

    def exchange(self, *, to_device: bool) -> None:
        """Before and after a kernel: memory of the host that is mapped where it lies is one memory for both sides."""
        for registered in list(self._registered.values()):
            twin = registered.twin
            if twin is None:
                continue
            if to_device:
                twin.memory.write(twin.address, registered.host())
            else:
                registered.host()[...] = twin.memory.read(twin.address, registered.nbytes)

    # ---- streams and events ------------------------------------------------------------------------------------------

    def stream(self, handle: Any) -> Stream:
        """The stream of a handle. Raises UsageError for one that the simulator did not give."""
        number = int(handle)
        if number == 0:
            return self.device.default_stream
        if number == LEGACY:
            return self.device.legacy_stream
        if number == PER_THREAD:
            if not hasattr(self._own, "stream"):
                self._own.stream = self.device.stream(name=f"default of {threading.current_thread().name}")
            own: Stream = self._own.stream
            return own
        found = self._streams.get(number)
        if found is None:
            raise UsageError(f"{number:#x} is no stream of the simulator: streams that another library made cannot be used with it")
        return found

    def knows_stream(self, handle: Any) -> bool:
        return int(handle) in (0, LEGACY, PER_THREAD) or int(handle) in self._streams

    def new_stream(self) -> int:
        handle = self.new_handle()
        self._streams[handle] = self.device.stream()
        return handle

    def drop_stream(self, handle: int) -> None:
        if self._streams.pop(handle, None) is None:
            raise UsageError(f"{handle:#x} is no stream, or was destroyed before")

    def new_event(self, *, timing: bool) -> int:
        handle = self.new_handle()
        self._events[handle] = self.device.event(timing=timing)
        return handle

    def event(self, handle: Any) -> Event:
        found = self._events.get(int(handle))
        if found is None:
            raise UsageError(f"{int(handle):#x} is no event, or was destroyed before")
        return found

    def drop_event(self, handle: int) -> None:
        self.event(handle)
        del self._events[handle]


def host_bytes(address: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """Memory of the host as numba names it, by its address."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def host_elements(address: int, like: Array) -> npt.NDArray[Any]:
    """Memory of the host as elements of the same type and number as a device array's."""
    return host_bytes(address, like.nbytes).view(like.dtype)
