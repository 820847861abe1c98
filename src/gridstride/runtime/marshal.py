"""From Python values to the bytes of a kernel's parameter buffer, checked one by one before anything runs.

What goes where:

- an `Array` or `Pointer` into a 64-bit integer parameter that is, or may be, a pointer;
- numbers into numeric parameters, if the value survives: integers that fit, floats into floats (rounded);
- bytes, NumPy records, small NumPy arrays and ctypes structures of the right size into structure parameters.

A plain integer goes into a 64-bit parameter only where the source says that it is a number. PTX alone cannot tell, so there the
caller says it: `numpy.uint64(n)` is a number, `gridstride.pointer(n)` an address.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gridstride.errors import LaunchError
from gridstride.isa.types import ScalarType
from gridstride.runtime.array import Array
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.pointer import Pointer


def pack_arguments(kernel: str, parameters: Sequence[KernelParameter], size: int, arguments: Sequence[Any], device: object) -> bytes:
    """The parameter buffer of `size` bytes for a launch on `device`.

    Raises LaunchError naming the kernel, the argument and what would fit; UsageError for an array that was freed.
    """
    if len(arguments) != len(parameters):
        wanted = ", ".join(f"{parameter.name}: {parameter.describe()}" for parameter in parameters)
        plural = "" if len(parameters) == 1 else "s"
        given = f"{len(arguments)} {'was' if len(arguments) == 1 else 'were'} given"
        raise LaunchError(f"{kernel} takes {len(parameters)} argument{plural}{f' ({wanted})' if wanted else ''}, but {given}")
    buffer = bytearray(size)
    for parameter, argument in zip(parameters, arguments, strict=True):
        try:
            data = pack(parameter, argument, device)
        except _Refused as refused:
            raise LaunchError(
                f"{kernel}, argument {parameter.number} ({parameter.name}: {parameter.describe()}): {refused}"
            ) from None
        buffer[parameter.offset : parameter.offset + parameter.size] = data
    return bytes(buffer)


class _Refused(Exception):
    """Why a value does not fit its parameter."""


def pack(parameter: KernelParameter, value: Any, device: object) -> bytes:
    """One argument's bytes."""
    if isinstance(value, Array):
        return _address(parameter, _array_address(parameter, value, device), "an array")
    if isinstance(value, Pointer):
        return _address(parameter, value.address, "an address")
    if parameter.type is None:
        return _structure(parameter, value)
    if isinstance(value, np.ndarray) and value.ndim or _is_foreign_array(value):
        raise _Refused(
            f"a {type(value).__module__.partition('.')[0]} array lies in the host's memory; copy it with device.array(…) and pass that"
            if parameter.wide_integer
            else f"an array of shape {getattr(value, 'shape', '?')} is no number"
        )
    if isinstance(value, np.ndarray):
        value = value[()]
    if value is None:
        raise _Refused("None is no value" + ("; a null pointer is gridstride.pointer(0)" if parameter.is_pointer is not False else ""))
    if parameter.wide_integer:
        _require_number(parameter, value)
    return _scalar(parameter, parameter.type, value)


def _is_foreign_array(value: Any) -> bool:
    return not isinstance(value, np.generic | np.ndarray) and any(
        hasattr(value, name) for name in ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
    )


def _array_address(parameter: KernelParameter, array: Array, device: object) -> int:
    address = array.address
    if array.device is not device:
        raise _Refused(
            f"the array lies in the memory of another device object ({array.device}); make it with the device that compiled the kernel"
        )
    want, size = parameter.element_dtype, parameter.element_size
    if want is None or size is None or array.dtype.itemsize == 1 or array.dtype.kind in "VbO":
        return address
    same = array.dtype == want or (array.dtype.kind in "iu" and want.kind in "iu" and array.dtype.itemsize == want.itemsize)
    if not same and not (array.dtype.kind == "c" and array.dtype.itemsize == size):
        raise _Refused(f"the array holds {array.dtype}; make it {want}, or say that it is meant with .view(numpy.{want.name})")
    return address


def _address(parameter: KernelParameter, address: int, what: str) -> bytes:
    if not parameter.wide_integer:
        raise _Refused(f"{what} was given, but this parameter takes {'a structure' if parameter.type is None else 'a number'}")
    if parameter.is_pointer is False:
        raise _Refused(f"{what} was given, but this parameter takes a number")
    return address.to_bytes(8, "little")


def _require_number(parameter: KernelParameter, value: Any) -> None:
    """Refuse an integer where an address is, or may be, wanted."""
    if parameter.is_pointer is True:
        if isinstance(value, int | np.integer):
            raise _Refused(
                f"the number {value} is no address; pass a device array, or gridstride.pointer({int(value)}) if it really is one"
            )
        raise _Refused(f"a {type(value).__name__} is no address; pass a device array")
    if parameter.is_pointer is None and isinstance(value, int | np.integer) and not isinstance(value, np.uint64 | np.int64):
        raise _Refused(
            f"PTX does not say whether this is a number or an address; pass numpy.uint64({int(value)}) for the number, "
            f"a device array or gridstride.pointer({int(value)}) for an address"
        )


def _scalar(parameter: KernelParameter, kind: ScalarType, value: Any) -> bytes:
    if kind.kind == "f":
        return _float(np.dtype(f"float{kind.bits}"), value)
    dtype = parameter.value_dtype
    if kind.kind == "h" and kind.name == "f16" or dtype == np.float16:
        return _float(np.dtype(np.float16), value)
    if isinstance(value, np.floating | np.complexfloating) and kind.kind == "b" and value.dtype.itemsize == parameter.size:
        return value.tobytes()  # .b32 and .b64 are only bits: the NumPy type says what they mean.
    if not isinstance(value, bool | int | np.integer | np.bool_):
        raise _Refused(f"{_shown(value)} is no whole number")
    return _integer(parameter, dtype, int(value))


def _integer(parameter: KernelParameter, dtype: np.dtype[np.generic] | None, value: int) -> bytes:
    bits = 8 * parameter.size
    if dtype is not None and dtype.itemsize == parameter.size and dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
    else:
        # Compilers write .u32 for int and unsigned alike, so without the source either reading is right.
        low, high = -(1 << bits - 1), (1 << bits) - 1
    if not low <= value <= high:
        raise _Refused(f"{value} does not fit ({low} to {high})")
    return (value & (1 << bits) - 1).to_bytes(parameter.size, "little")


def _float(dtype: np.dtype[Any], value: Any) -> bytes:
    if not isinstance(value, bool | int | float | np.integer | np.floating | np.bool_):
        raise _Refused(f"{_shown(value)} is no number")
    if isinstance(value, np.floating) and value.dtype == dtype:
        return value.tobytes()  # Bit for bit, NaN payloads included.
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore"):
        packed = dtype.type(number)
    if np.isinf(packed) and not (isinstance(value, float | np.floating) and math.isinf(value)):
        raise _Refused(f"{_shown(value)} does not fit {dtype} (at most {np.finfo(dtype).max:.6g})")
    return bytes(packed.tobytes())


def _structure(parameter: KernelParameter, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
    elif isinstance(value, np.generic | np.ndarray):
        if value.dtype.hasobject:
            raise _Refused("a NumPy array of Python objects has no bytes to pass")
        data = value.tobytes()
    elif isinstance(value, ctypes.Structure | ctypes.Union | ctypes.Array):
        data = bytes(value)
    else:
        raise _Refused(f"{_shown(value)} is no structure; pass a NumPy record, a ctypes structure or bytes of {parameter.size} bytes")
    if len(data) != parameter.size:
        raise _Refused(f"{len(data)} bytes were given, not {parameter.size}; mind the padding of the C++ structure")
    return data


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
