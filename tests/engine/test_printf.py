"""printf's formatting against the C library's, on random conversions."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gridstride.machine.printf import format_printf

libc = ctypes.CDLL(None)
FLAGS = st.lists(st.sampled_from("-+ #0"), max_size=3).map("".join)
WIDTH = st.one_of(st.just(""), st.integers(1, 30).map(str))
PRECISION = st.one_of(st.just(""), st.integers(0, 20).map(lambda p: f".{p}"), st.just("."))


def by_c(text: str, argument: Any) -> str:
    buffer = ctypes.create_string_buffer(2048)
    libc.snprintf(buffer, ctypes.c_size_t(2048), text.encode(), argument)
    return buffer.value.decode()


def by_us(text: str, data: bytes) -> str:
    taken = bytearray(data)

    def read(size: int) -> bytes:
        part = bytes(taken[:size])
        del taken[:size]
        return part

    shown, count = format_printf(text, read, lambda address: "a string")
    assert count == 1 and not taken
    return shown


@settings(max_examples=300, deadline=None)
@given(FLAGS, WIDTH, PRECISION, st.sampled_from("dioxXu"), st.sampled_from(("", "h", "hh", "ll")), st.integers(-(2**63), 2**63 - 1))
def test_integers(flags: str, width: str, precision: str, kind: str, length: str, value: int) -> None:
    text = f"[%{flags}{width}{precision}{length}{kind}]"
    wide = length == "ll"
    value = value if wide else (value + 2**31) % 2**32 - 2**31
    argument = (ctypes.c_longlong if wide else ctypes.c_int)(value)
    assert by_us(text, value.to_bytes(8 if wide else 4, "little", signed=True)) == by_c(text, argument)


@settings(max_examples=300, deadline=None)
@given(FLAGS, WIDTH, PRECISION, st.sampled_from("eEfFgGaA"), st.one_of(st.floats(-1e6, 1e6), st.floats(), st.sampled_from((0.0, -0.0, 0.5, 1.5, 2.5, 5e-324, 2.0**-1040))))
def test_floats(flags: str, width: str, precision: str, kind: str, value: float) -> None:
    value = math.nan if math.isnan(value) else value
    text = f"[%{flags}{width}{precision}{kind}]"
    assert by_us(text, struct.pack("<d", value)) == by_c(text, ctypes.c_double(value))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(("", "-")), WIDTH, PRECISION, st.sampled_from("sc"))
def test_texts(flags: str, width: str, precision: str, kind: str) -> None:
    if kind == "c":
        precision = ""
    text = f"[%{flags}{width}{precision}{kind}]"
    argument = ctypes.c_char_p(b"a string") if kind == "s" else ctypes.c_int(ord("q"))
    assert by_us(text, (1).to_bytes(8, "little") if kind == "s" else ord("q").to_bytes(4, "little")) == by_c(text, argument)


def test_what_is_no_conversion_stays() -> None:
    assert format_printf("50%, %y, %%", lambda size: b"", lambda address: "") == ("50%, %y, %", 0)
