"""Arguments of kernels written in Python: their Numba types, and the host's arrays and records copied to the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gridstride.errors import UsageError
from gridstride.frontends.numba_cuda import address_type, array_type, tuple_type, type_of
from gridstride.runtime.array import Array
from gridstride.runtime.device import Device
from gridstride.runtime.host_memory import HostArray
from gridstride.runtime.pointer import Pointer


def argument_type(value: Any) -> Any:
    """Numba's type of an argument. Raises UsageError where it has none."""
    if isinstance(value, HostArray):
        value = value.mapped
    if isinstance(value, Array):
        layout = "C" if value.contiguous else "F" if _column_major(value) else "A"
        return array_type(value.dtype, value.ndim, layout)
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        raise UsageError(f"an array of {value.dtype} cannot be an argument of a kernel: it holds Python objects")
    if isinstance(value, Pointer):
        return address_type()
    if isinstance(value, tuple):
        return tuple_type([argument_type(member) for member in value], type(value))
    return type_of(value)


def holds_host_array(value: Any) -> bool:
    """Whether a launch has to copy some of it to the device and back."""
    return isinstance(value, np.ndarray) or (isinstance(value, tuple) and any(map(holds_host_array, value)))


class Placing:
    """What a launch is given, in device memory. copies: the host's arrays with their copies, to be copied back."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.copies: list[tuple[Any, Array]] = []

    def place(self, value: Any, name: str) -> Any:
        """An argument as the kernel takes it; tuples are gone through."""
        if isinstance(value, HostArray):
            return value.mapped
        if isinstance(value, np.ndarray):
            return self._copied(value, value, name)
        if isinstance(value, np.void):
            return self._copied(value, np.asarray(value), name)
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", None)
            members = [self.place(m, f"{name}.{fields[k]}" if fields else f"{name}[{k}]") for k, m in enumerate(value)]
            make: Callable[..., Any] = type(value)._make if fields else tuple  # type: ignore[attr-defined]
            return make(members)
        return value

    def _copied(self, owner: Any, values: np.ndarray[Any, Any], name: str) -> Array:
        if values.dtype.kind in "Mm":  # dates are numbers of 64 bits to a kernel
            owner = values = values.view(np.int64)
        if values.flags.f_contiguous and not values.flags.c_contiguous:
            turned = self._device.array(values.T, name=name)
            array = Array(turned.storage, turned.address, values.shape, turned.dtype, turned.strides[::-1])
        else:
            array = self._device.array(values, name=name)
        self.copies.append((owner, array))
        return array

    def copy_back(self) -> None:
        """The host's arrays as the device left them."""
        for owner, array in self.copies:
            if isinstance(owner, np.void):
                content = array.numpy()
                for field in owner.dtype.names or ():
                    owner[field] = content[field]
            elif owner.flags.writeable:
                owner[...] = array.numpy()


def _column_major(array: Array) -> bool:
    want = array.dtype.itemsize
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent != 1 and stride != want:
            return False
        want *= extent
    return True
