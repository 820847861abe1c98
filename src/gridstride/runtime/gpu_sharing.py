"""A GPU's arrays and those of other libraries (CuPy, PyTorch, Numba …), in both directions, without a way through the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gridstride.errors import UsageError
from gridstride.events.operations import LEGACY
from gridstride.runtime.array import Array
from gridstride.runtime.commands import copy_command, fill_command
from gridstride.runtime.gpu_dlpack import CUDA, CUDA_HOST, CUDA_MANAGED, Borrowed, capsule_of, taken
from gridstride.runtime.storage import Sharing

if TYPE_CHECKING:
    from gridstride.runtime.gpu_device import GpuDevice

_LEGACY_HANDLE = 1  # what the interface calls the legacy default stream; 0 it forbids
_NO_WAIT = -1


class GpuSharing(Sharing):
    """For arrays of one GPU."""

    def __init__(self, device: GpuDevice) -> None:
        self._weak = ref(device)

    @property
    def _device(self) -> GpuDevice:
        device = self._weak()
        assert device is not None
        return device

    def dlpack(self, array: Array, **options: Any) -> Any:
        """A capsule over the memory. What was asked of the default stream has ended, unless `stream=-1` says that it need not."""
        asked = options.get("dl_device")
        if options.get("copy") or (asked is not None and tuple(asked) != self.dlpack_device()):
            raise BufferError("a GPU's array is exported where it is; copy it with .numpy() for the host")
        if options.get("stream") != _NO_WAIT:
            self._device.default_stream.synchronize()
        return capsule_of(array, array.address, self.dlpack_device())

    def dlpack_device(self) -> tuple[int, int]:
        return CUDA, self._device.context.gpu.index

    def cuda_interface(self, array: Array) -> dict[str, Any]:
        stream = self._device.default_stream
        return {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "descr": array.dtype.descr,
            "data": (array.address if array.size else 0, False),
            "strides": None if array.contiguous else array.strides,
            "stream": _LEGACY_HANDLE if stream.number == LEGACY else int(stream.native.handle),
            "version": 3,
        }

    def copies(self, destination: Array, source: Array) -> bool:
        self._device.require_outside_streams()
        try:
            command = copy_command(destination, source)
        except UsageError:
            return False  # not in rows, so it goes through the host
        self._device.default_stream.submit(command)
        return True

    def fills(self, array: Array, pattern: bytes) -> bool:
        self._device.require_outside_streams()
        self._device.default_stream.submit(fill_command(array, np.frombuffer(pattern, array.dtype)[0]))
        return True


def is_foreign(data: Any) -> bool:
    """Whether data is another library's array in a GPU's memory."""
    if isinstance(data, Array | np.ndarray | np.generic):
        return False
    return hasattr(data, "__cuda_array_interface__") or _dlpack_kind(data) in (CUDA, CUDA_HOST, CUDA_MANAGED)


def _dlpack_kind(data: Any) -> int | None:
    if not hasattr(data, "__dlpack__") or not hasattr(data, "__dlpack_device__"):
        return None
    return int(data.__dlpack_device__()[0])


def borrow(data: Any) -> tuple[Borrowed, int | None]:
    """Another library's array, and the handle of the stream in which it is being written, if there is one to wait for."""
    if not hasattr(data, "__cuda_array_interface__"):
        return taken(data.__dlpack__(stream=_LEGACY_HANDLE)), _LEGACY_HANDLE
    said = data.__cuda_array_interface__
    if said.get("mask") is not None:
        raise UsageError("an array with a mask cannot be copied: apply the mask first")
    dtype = np.dtype(said["typestr"])
    strides = said.get("strides")
    found = Borrowed(data, int(said["data"][0]), tuple(said["shape"]), dtype, None if strides is None else tuple(strides))
    return found, said.get("stream")
