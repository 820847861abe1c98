"""DLPack for a GPU's memory: a capsule over an array, and what is in somebody else's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridstride.errors import UsageError

CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NEW, _USED = b"dltensor", b"used_dltensor"  # capsules keep the address of their name


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _python))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_given: dict[int, tuple[Any, ...]] = {}
"""What was given away and not given back: the address of its description → what must stay."""


# When Python ends this module may be gone before a capsule is, hence the defaults of what is called then.


def _give_back(address: int, given: dict[int, tuple[Any, ...]] = _given) -> None:
    given.pop(address, None)


def _capsule_ends(capsule: int, is_valid: Any = _is_valid, pointer: Any = _pointer, name: bytes = _NEW, give_back: Any = _give_back) -> None:
    """Nobody took what is in a capsule."""
    if is_valid(capsule, name):
        give_back(pointer(capsule, name))


_DELETER = _Deleter(_give_back)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_capsule_ends)


def capsule_of(array: Any, address: int, device: tuple[int, int]) -> Any:
    """A capsule over a device array's elements, which keeps the array until the importer has done with it. Raises BufferError."""
    kind = array.dtype
    if kind.kind not in _CODES or any(stride % kind.itemsize for stride in array.strides):
        raise BufferError(f"DLPack has no way to say what an array of {kind} with strides {array.strides} is")
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*(stride // kind.itemsize for stride in array.strides))
    managed = _Managed()
    managed.tensor.data = address
    managed.tensor.device = _Device(*device)
    managed.tensor.ndim = array.ndim
    managed.tensor.dtype = _Type(_CODES[kind.kind], kind.itemsize * 8, 1)
    managed.tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    managed.tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_DELETER, ctypes.c_void_p).value
    where = ctypes.addressof(managed)
    _given[where] = managed, shape, strides, array
    return _new(where, _NEW, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p).value)


@dataclass(frozen=True)
class Borrowed:
    """Another library's array: `owner` keeps it. strides in bytes; None for rows without gaps."""

    owner: object
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None


class _Taken:
    """What came in a capsule, given back when nobody uses it any more."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __del__(self, managed: Any = _Managed, function: Any = _Deleter) -> None:
        deleter = managed.from_address(self._address).deleter
        if deleter:
            function(deleter)(self._address)


def taken(capsule: Any) -> Borrowed:
    """What is in another library's capsule. Raises UsageError where it is no array of numbers."""
    where = _pointer(id(capsule), _NEW)
    tensor = _Managed.from_address(where).tensor
    _rename(capsule, _USED)
    owner = _Taken(where)
    kinds = {code: kind for kind, code in _CODES.items()}
    if tensor.dtype.code not in kinds or tensor.dtype.lanes != 1 or tensor.dtype.bits % 8:
        raise UsageError(f"the array's elements (DLPack type {tensor.dtype.code} of {tensor.dtype.bits} bits) have no NumPy type")
    dtype = np.dtype(f"{kinds[tensor.dtype.code]}{tensor.dtype.bits // 8}")
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] * dtype.itemsize for k in range(tensor.ndim)) if tensor.strides else None
    return Borrowed(owner, (tensor.data or 0) + tensor.byte_offset, shape, dtype, strides)
