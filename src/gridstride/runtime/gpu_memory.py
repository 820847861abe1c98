"""Memory of a GPU: the kinds of it, how arrays read and write it, and how each kind is given back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError
from gridstride.runtime.gpu_context import GpuContext, GpuStream
from gridstride.runtime.gpu_driver import DriverError
from gridstride.runtime.gpu_sharing import GpuSharing
from gridstride.runtime.gpu_transfers import one_move
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.runtime.gpu_device import GpuDevice


class GpuBytes:
    """One allocation as arrays see it: copies in the default stream for which the host waits. owner: what must live as long as it."""

    def __init__(self, device: GpuDevice, name: str | None, owner: object = None) -> None:
        self._device = ref(device)  # the storage has the device already
        self._name = name
        self._owner = owner

    def read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        data = np.empty(size, np.uint8)
        self._copy(address, data, to_host=True)
        return data

    def write(self, address: int, data: npt.NDArray[np.uint8]) -> None:
        self._copy(address, data, to_host=False)

    def _copy(self, address: int, data: npt.NDArray[np.uint8], *, to_host: bool) -> None:
        device = self._device()
        assert device is not None
        if data.size:
            device.copy_and_wait(one_move(address, data, to_host=to_host), self._name)


@dataclass(eq=False)
class _PoolBlock:
    """An allocation of the stream-ordered pool. stream: where it is to be freed; None: at once, when nothing uses it any more."""

    address: int
    stream: GpuStream | None = None


class _HostView:
    """Memory of the driver for NumPy to look at."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


class GpuMemory:
    """Allocates the memory of one device."""

    def __init__(self, device: GpuDevice) -> None:
        self._device = ref(device)
        self._context = device.context
        self._sharing = GpuSharing(device)
        self._pool: WeakKeyDictionary[Storage, _PoolBlock] = WeakKeyDictionary()

    def device_memory(self, nbytes: int, name: str | None) -> Storage:
        driver = self._context.driver
        address = self._allocated(driver.cuMemAlloc, nbytes)
        return self._storage(address, nbytes, name, partial(driver.cuMemFree, address))

    def pool_memory(self, stream: GpuStream, nbytes: int, name: str | None) -> Storage:
        address = self._allocated(lambda size: self._context.driver.cuMemAllocAsync(size, stream.handle), nbytes)
        block = _PoolBlock(address)
        storage = self._storage(address, nbytes, name, partial(_free_block, self._context, block))
        self._pool[storage] = block
        return storage

    def free_in(self, stream: GpuStream, storage: Storage) -> None:
        """Free an allocation when the stream has come so far; memory that is not of the pool when the stream has been waited for."""
        block = self._pool.get(storage)
        if block is not None:
            block.stream = stream
        elif storage.live:
            self._context.check(self._context.driver.cuStreamSynchronize(stream.handle), f"wait for {stream.name}")
        storage.free()

    def host_memory(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        driver = self._context.driver
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        address = self._allocated(lambda size: driver.cuMemHostAlloc(size, flags), nbytes, "pinned memory")
        mapped = int(self._context.result(driver.cuMemHostGetDevicePointer(address, 0), "map pinned memory"))
        storage = self._storage(mapped, nbytes, name, partial(driver.cuMemFreeHost, address))
        return storage, _host_view(address, nbytes)

    def managed_memory(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        driver = self._context.driver
        flag = int(driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        address = self._allocated(lambda size: driver.cuMemAllocManaged(size, flag), nbytes, "managed memory")
        storage = self._storage(address, nbytes, name, partial(driver.cuMemFree, address))
        return storage, _host_view(address, nbytes)

    def of_module(self, module: object, address: int, size: int, name: str) -> Storage:
        """A module's variable, which keeps the module."""
        return self._storage(address, size, name, None, owner=module)

    def borrowed(self, owner: object, address: int, size: int) -> Storage:
        """Memory that is another library's, for as long as `owner` lives."""
        return self._storage(address, size, None, None, owner=owner)

    def _allocated(self, allocate: Any, nbytes: int, kind: str = "device memory") -> int:
        self._context.begin()
        try:
            return int(self._context.result(allocate(max(nbytes, 1)), f"allocate {nbytes:,} bytes of {kind}"))
        except DriverError as error:
            if error.status != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
            free = self._context.result(self._context.driver.cuMemGetInfo(), "read how much memory is free")[0]
            if kind != "device memory":
                raise LaunchError(f"out of {kind}: {nbytes:,} bytes asked for") from None
            raise LaunchError(f"out of device memory: {nbytes:,} bytes asked for, {int(free):,} free") from None

    def _storage(self, address: int, size: int, name: str | None, free: Any, owner: object = None) -> Storage:
        device = self._device()
        assert device is not None
        context = self._context
        release = None if free is None else partial(context.discard, free)
        storage = Storage(device, GpuBytes(device, name, owner), address, size, name, release, partial(_released, context))
        storage.sharing = self._sharing
        return storage


def _released(context: GpuContext) -> None:
    """Somebody has freed an array by hand, and wants the memory back now."""
    if not context.in_host_function:
        context.use()
        context.free_unused()


def _free_block(context: GpuContext, block: _PoolBlock) -> None:
    if block.stream is None or block.stream.closed:
        context.driver.cuMemFree(block.address)  # waits for whatever may still use it
    else:
        context.driver.cuMemFreeAsync(block.address, block.stream.handle)


def _host_view(address: int, nbytes: int) -> npt.NDArray[np.uint8]:
    if not nbytes:
        return np.empty(0, np.uint8)
    view = np.asarray(_HostView(address, nbytes))
    view[...] = 0
    return view
