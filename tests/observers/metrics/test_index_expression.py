"""Index expressions: C's arithmetic, against what C compilers do and against NumPy and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.errors import UsageError
from gridstride.observers.metrics.index_expression import parse_index

INTEGERS = st.integers(min_value=-(10**6), max_value=10**6)


def value(text: str, **names: int) -> int:
    return int(parse_index(text).element({name: np.asarray(number, dtype=np.int64) for name, number in names.items()}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("1 << 2 + 1", 8),
        ("7 & 3 == 3", 1),  # == binds tighter than &
        ("6 | 1 ^ 3 & 2", 7),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 / -2", -3),
        ("~5 & 0xF", 10),
        ("!0 + !7", 1),
        ("3 > 2 ? 10 : 20", 10),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("min(3, max(1, 2)) + abs(-4)", 6),
        ("32u * 4UL", 128),
        ("1 || 0 && 0", 1),
        ("017", 15),
    ],
)
def test_c_arithmetic(text: str, expected: int) -> None:
    assert value(text) == expected


@given(INTEGERS, INTEGERS.filter(bool))
def test_division_cuts_off(a: int, b: int) -> None:
    quotient = math.trunc(Fraction(a, b))
    assert value("a / b", a=a, b=b) == quotient
    assert value("a % b", a=a, b=b) == a - quotient * b


@given(INTEGERS, INTEGERS, st.integers(0, 20))
def test_operators_are_pythons_where_both_agree(a: int, b: int, shift: int) -> None:
    text = "(a ^ b) + (a & ~b) - (a >> s) * 3 + (b << s)"
    assert value(text, a=a, b=b, s=shift) == (a ^ b) + (a & ~b) - (a >> shift) * 3 + (b << shift)


def test_indices_of_rows_and_planes() -> None:
    names = {name: np.asarray(number) for name, number in {"z": 2, "y": 3, "x": 4}.items()}
    assert parse_index("s[y][x]").element(names, pitch=33) == 3 * 33 + 4
    assert parse_index("s[z][y][x]").element(names, pitch=10, rows=7) == (2 * 7 + 3) * 10 + 4
    assert parse_index("s[y][x]").array == "s"
    assert parse_index("threadIdx.x + blockIdx.y").names == {"threadIdx.x", "blockIdx.y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x[i", "cannot read `x[i`: it ends too early"),
        ("x[i] + 1", "cannot read `x[i] + 1` from `+ 1` on"),
        ("i $ 2", "cannot read `i $ 2` from `$ 2` on"),
        ("", "cannot read ``: it ends too early"),
        ("1.5", "cannot read `1.5` from `1.5` on"),
        ("x[1][2][3][4]", "`x[1][2][3][4]` has 4 indices: an array has at most 3 dimensions here"),
        ("089", "`089` in `089` is no integer of 64 bits"),
        ("99999999999999999999", "`99999999999999999999` in `99999999999999999999` is no integer of 64 bits"),
        ("min(1)", "`min` in `min(1)` takes 2 arguments, not 1"),
        ("n * 2", "`n * 2` needs a value for n: give it with --set n=…"),
        ("1 / 0", "`1 / 0` divides by zero"),
        ("1 << 64", "`1 << 64` has no value: a shift by less than 0 or more than 63"),
        ("s[1][2]", "`s[1][2]` has 2 indices: give the length of a row with --pitch"),
    ],
)
def test_index_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        value(text)
    assert str(caught.value) == message
