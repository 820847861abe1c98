"""Arguments into parameter bytes; the expected bytes are `struct`'s, the limits C's."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.errors import LaunchError
from gridstride.isa.types import TYPES
from gridstride.runtime.marshal import pack_arguments
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.pointer import pointer
from runtime.fakes import BASE, FakeMemory, array_on

DEVICE = "test"


def parameter(
    ptx: str | None, c_type: str | None = None, *, size: int | None = None, name: str = "v", position: int = 0, offset: int = 0
) -> KernelParameter:
    kind = TYPES[ptx] if ptx else None
    size = size if size is not None else TYPES[ptx or "u8"].bytes
    return KernelParameter(position, name, f"k_param_{position}", kind, size, size, offset, c_type)


def packed(one: KernelParameter, value: Any) -> bytes:
    return pack_arguments("k", [one], one.offset + one.size, [value], DEVICE)


def wrong(message: str) -> Any:
    return pytest.raises(LaunchError, match=f"^{re.escape(message)}$")


@given(st.integers(-(2**31), 2**31 - 1))
def test_int(value: int) -> None:
    assert packed(parameter("u32", "int"), value) == struct.pack("<i", value)
    assert packed(parameter("u32", "const int"), np.int32(value)) == struct.pack("<i", value)
    assert packed(parameter("u32"), value) == struct.pack("<i", value)


@given(st.integers(0, 2**32 - 1))
def test_unsigned(value: int) -> None:
    assert packed(parameter("u32", "unsigned int"), value) == struct.pack("<I", value)
    assert packed(parameter("u32"), np.uint32(value)) == struct.pack("<I", value)
    assert packed(parameter("u64", "size_t"), value << 32) == struct.pack("<Q", value << 32)


@given(st.floats(width=32, allow_nan=False))
def test_float_is_exact_for_what_float32_holds(value: float) -> None:
    assert packed(parameter("f32"), value) == struct.pack("<f", value)
    assert packed(parameter("f64"), np.float32(value)) == struct.pack("<d", value)


@given(st.integers(0, 2**32 - 1))
def test_float32_bits_survive(bits: int) -> None:
    value = np.array(bits, np.uint32).view(np.float32)[()]
    assert packed(parameter("f32"), value) == struct.pack("<I", bits)


def test_floats_are_rounded_to_nearest() -> None:
    assert packed(parameter("f32"), 0.1) == struct.pack("<f", 0.1)
    assert packed(parameter("b16", "__half"), 0.1) == struct.pack("<e", 0.1)
    assert packed(parameter("f32"), 3) == struct.pack("<f", 3.0)
    assert packed(parameter("f32"), float("inf")) == struct.pack("<f", float("inf"))


def test_bits_take_any_numpy_scalar_of_their_size() -> None:
    assert packed(parameter("b32"), np.float32(1.5)) == struct.pack("<f", 1.5)
    assert packed(parameter("b64"), np.float64(1.5)) == struct.pack("<d", 1.5)
    assert packed(parameter("b16"), np.float16(1.5)) == struct.pack("<e", 1.5)


def test_bool_and_small_integers() -> None:
    assert packed(parameter("u8", "bool"), True) == b"\x01"
    assert packed(parameter("u8", "bool"), np.bool_(False)) == b"\x00"
    assert packed(parameter("u8", "signed char"), -128) == b"\x80"
    assert packed(parameter("u16", "unsigned short"), 65_535) == b"\xff\xff"


def test_arrays_and_pointers() -> None:
    array = array_on(FakeMemory(), np.zeros(8, np.float32), offset=512)
    assert packed(parameter("u64"), array) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "float*"), array[2:]) == struct.pack("<Q", BASE + 520)
    assert packed(parameter("u64", "const float4* __restrict__"), array) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "void*"), array) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "const Particle*"), array) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "float*"), array.view(np.uint8)) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "int*"), array.view(np.uint32)) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "float2*"), array.view(np.complex64)) == struct.pack("<Q", BASE + 512)
    assert packed(parameter("u64", "float*"), pointer(2**64 - 1)) == b"\xff" * 8
    assert packed(parameter("u64"), pointer(0)) == bytes(8)


def test_wide_numbers_need_a_type_only_where_ptx_stands_alone() -> None:
    assert packed(parameter("u64", "unsigned long long"), 2**64 - 1) == b"\xff" * 8
    assert packed(parameter("u64"), np.uint64(7)) == struct.pack("<Q", 7)
    assert packed(parameter("u64"), np.int64(-7)) == struct.pack("<q", -7)


def test_structures() -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    record = np.array((3, 4.5), dtype=[("a", np.int32), ("b", np.float32)])
    expected = struct.pack("<if", 3, 4.5)
    for value in (Pair(3, 4.5), record, record[()], expected, bytearray(expected), memoryview(expected)):
        assert packed(parameter(None, "Pair", size=8), value) == expected
    assert packed(parameter(None, "float3", size=12), np.array([1, 2, 3], np.float32)) == struct.pack("<fff", 1, 2, 3)


def test_offsets_and_padding_are_the_kernels() -> None:
    parameters = [parameter("u32", "int", name="n"), parameter("f64", "double", name="a", position=1, offset=8)]
    assert pack_arguments("k", parameters, 16, [-1, 2.0], DEVICE) == struct.pack("<i4xd", -1, 2.0)


def test_count_wrong() -> None:
    parameters = [parameter("u32", "int", name="n"), parameter("u64", "float *", name="x", position=1, offset=8)]
    with wrong("k takes 2 arguments (n: `int`, x: `float *`), but 1 was given"):
        pack_arguments("k", parameters, 16, [1], DEVICE)
    with wrong("k takes 1 argument (n: `int`), but 2 were given"):
        pack_arguments("k", parameters[:1], 4, [1, 2], DEVICE)
    with wrong("k takes 0 arguments, but 1 was given"):
        pack_arguments("k", [], 0, [1], DEVICE)


@pytest.mark.parametrize(
    ("ptx", "c_type", "value", "message"),
    [
        ("u32", "int", 2**31, "`int`): 2147483648 does not fit (-2147483648 to 2147483647)"),
        ("u32", "unsigned", -1, "`unsigned`): -1 does not fit (0 to 4294967295)"),
        ("u32", None, 2**32, ".u32): 4294967296 does not fit (-2147483648 to 4294967295)"),
        ("u8", "bool", 2, "`bool`): 2 does not fit (0 to 1)"),
        ("u32", "int", 2.0, "`int`): 2.0 is no whole number"),
        ("u32", "int", np.float32(2), "`int`): np.float32(2.0) is no whole number"),
        ("u32", "int", "5", "`int`): '5' is no whole number"),
        ("u32", "int", None, "`int`): None is no value"),
        ("f32", "float", 1e39, "`float`): 1e+39 does not fit float32 (at most 3.40282e+38)"),
        ("f32", "float", "x", "`float`): 'x' is no number"),
        ("f32", "float", 1j, "`float`): 1j is no number"),
        ("u64", None, 5, ".u64): PTX does not say whether this is a number or an address; pass numpy.uint64(5) for the number, a device array or gridstride.pointer(5) for an address"),
        ("u64", "float *", 5, "`float *`): the number 5 is no address; pass a device array, or gridstride.pointer(5) if it really is one"),
        ("u64", "float *", np.uint64(5), "`float *`): the number 5 is no address; pass a device array, or gridstride.pointer(5) if it really is one"),
        ("u64", "float *", 1.5, "`float *`): a float is no address; pass a device array"),
        ("u64", "float *", None, "`float *`): None is no value; a null pointer is gridstride.pointer(0)"),
        ("u64", "float *", np.zeros(3), "`float *`): a numpy array lies in the host's memory; copy it with device.array(…) and pass that"),
        ("u32", "int", np.zeros(3), "`int`): an array of shape (3,) is no number"),
        ("u64", "size_t", pointer(5), "`size_t`): an address was given, but this parameter takes a number"),
        ("u32", "int", pointer(5), "`int`): an address was given, but this parameter takes a number"),
    ],
)  # fmt: skip
def test_value_wrong(ptx: str, c_type: str | None, value: Any, message: str) -> None:
    with wrong(f"k, argument 1 (v: {message}"):
        packed(parameter(ptx, c_type), value)


def test_structure_wrong() -> None:
    one = parameter(None, "Pair", size=8)
    with wrong("k, argument 1 (v: `Pair`): 4 bytes were given, not 8; mind the padding of the C++ structure"):
        packed(one, bytes(4))
    with wrong("k, argument 1 (v: `Pair`): 5 is no structure; pass a NumPy record, a ctypes structure or bytes of 8 bytes"):
        packed(one, 5)
    with wrong("k, argument 1 (v: `Pair`): an array was given, but this parameter takes a structure"):
        packed(one, array_on(FakeMemory(), np.zeros(4)))


def test_array_wrong() -> None:
    array = array_on(FakeMemory(), np.zeros(4))
    with wrong("k, argument 1 (v: `float *`): the array holds float64; make it float32, or say that it is meant with .view(numpy.float32)"):
        packed(parameter("u64", "float *"), array)
    with wrong("k, argument 1 (v: `int`): an array was given, but this parameter takes a number"):
        packed(parameter("u32", "int"), array)
    other = array_on(FakeMemory(), np.zeros(4), device="sim:a100")
    with wrong(
        "k, argument 1 (v: .u64): the array lies in the memory of another device object (sim:a100); make it with the device that compiled the kernel"
    ):
        packed(parameter("u64"), other)
