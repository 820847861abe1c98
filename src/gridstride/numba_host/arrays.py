"""Arrays of the host as a kernel's arguments: numba copies them to the device before the launch and back after it."""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np
from cuda.core.utils import StridedMemoryView
from numba.cuda.core import config, errors
from numba.cuda.cudadrv import devicearray
from numba.cuda.cudadrv.driver import host_pointer, is_device_memory

from gridstride.numba_host.errors import Unsupported


class Argument:
    """A device array as numba's marshalling reads it, kept alive by whoever holds this. `ptr` is its address, strides are in bytes."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.ptr = array.device_ctypes_pointer.value or 0
        self.shape = array.shape
        self.dtype = array.dtype
        self.size = array.size
        self._layout = self
        self.strides_in_bytes = array.strides
        self.is_contiguous_c = array.flags["C_CONTIGUOUS"]
        self.is_contiguous_f = array.flags["F_CONTIGUOUS"]
        self.is_contiguous_any = self.is_contiguous_c or self.is_contiguous_f


def to_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
    """What stands for an argument on the device, and whether it was made for the call and so must be copied back.

    Raises ValueError for a host array with gaps, as numba does: copying it as one piece would move what is not its own.
    """
    if isinstance(obj, StridedMemoryView):
        return obj, False
    if is_device_memory(obj):
        return Argument(obj), False
    if getattr(obj, "__cuda_array_interface__", None) is not None:
        return Argument(devicearray.auto_device(obj, stream=stream)[0]), False
    if not isinstance(obj, np.ndarray | np.void) and hasattr(obj, "__dlpack_device__") and int(obj.__dlpack_device__()[0]) != 1:
        raise Unsupported(f"a {type(obj).__name__} on another device than the CPU cannot be an argument on the simulator")
    array = obj if isinstance(obj, np.ndarray | np.void) else np.asanyarray(obj)
    if not isinstance(array, np.void):
        devicearray.sentry_contiguous(array)
    made = devicearray.from_record_like(array, stream=stream) if isinstance(array, np.void) else devicearray.from_array_like(array, stream=stream)
    if copy:
        if config.CUDA_WARN_ON_IMPLICIT_COPY and not config.DISABLE_PERFORMANCE_WARNINGS and not user_explicit and isinstance(obj, np.ndarray):
            warn(errors.NumbaPerformanceWarning("Host array used in CUDA kernel will incur copy overhead to/from device."), stacklevel=2)
        made.copy_to_device(array, stream=stream)
    return Argument(made), True


class OnTheHost:
    """Where an array or record of the host lies, to be copied back to."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def on_the_host(obj: Any, *, stream_ptr: Any = 0) -> OnTheHost:
    """The memory of an array or record of the host."""
    return OnTheHost(host_pointer(obj))
