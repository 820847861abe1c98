"""Command-line arithmetic against Python's own, and its refusals word for word."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.errors import UsageError
from gridstride.runtime.expressions import evaluate, evaluate_count


def wrong(message: str) -> Any:
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.sampled_from(["+", "-", "*", "//", "%", "/"]))
def test_operators_are_pythons(a: int, b: int, operator: str) -> None:
    expected = {"+": a + b, "-": a - b, "*": a * b, "//": a // b, "%": a % b, "/": a / b}[operator]
    assert evaluate(f"{a} {operator} {b}", {}) == expected
    assert evaluate(f"a {operator} (b)", {"a": a, "b": b}) == expected


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_cdiv_is_the_ceiling(a: int, b: int) -> None:
    assert evaluate(f"cdiv({a}, {b})", {}) == (a + b - 1) // b


def test_functions_and_constants() -> None:
    assert evaluate("min(3, 1, 2) + max(4, 7)", {}) == 8
    assert evaluate("ceil(2.1) * floor(2.9)", {}) == 6
    assert evaluate("sqrt(16)", {}) == 4
    assert evaluate("1 << 20", {}) == 1 << 20 == evaluate("2**20", {})
    assert evaluate("-2**2", {}) == -4
    assert evaluate("0x10", {}) == 16
    assert evaluate("1e-3", {}) == 0.001
    assert math.isnan(evaluate("nan", {}))
    assert evaluate("true", {}) == 1


@pytest.mark.parametrize("text", ["9**9**9**9", "1 << 10**9", "9**999999", "(2**200)*(2**200)"])
def test_huge_numbers_wrong(text: str) -> None:
    started = time.monotonic()
    with wrong(f"{text!r} gets too large"):
        evaluate(text, {})
    assert time.monotonic() - started < 60  # would otherwise take years


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "open('x')",
        "().__class__",
        "[1]",
        "'a'",
        "n.real",
        "lambda: 1",
        "1 if 1 else 2",
        "1; 2",
        "",
        "1 +",
        "a = 1",
        "n[0]",
        "f'{n}'",
        "1 < 2",
    ],
)
def test_other_python_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate(text, {"n": 1})


def test_messages_wrong() -> None:
    with wrong("'m*4' uses 'm', which no earlier scalar argument defines (defined so far: n, k)"):
        evaluate("m*4", {"n": 1, "k": 2})
    with wrong("'n/0' divides by zero"):
        evaluate("n/0", {"n": 1})
    with wrong("'gcd(1, 2)' calls 'gcd'; the functions are min, max, ceil, floor, sqrt, cdiv"):
        evaluate("gcd(1, 2)", {})
    with wrong("'cdiv(1)': cdiv takes 2 arguments, not 1"):
        evaluate("cdiv(1)", {})
    with wrong("'1 +' is not an arithmetic expression"):
        evaluate("1 +", {})
    with wrong("'1.5 << 2' shifts a number that is not whole"):
        evaluate("1.5 << 2", {})
    with wrong("'(-8)**0.5' has no real value"):
        evaluate("(-8)**0.5", {})
    with wrong("a size must be a whole number, but 'n/2' is 1.5"):
        evaluate_count("n/2", {"n": 3}, "a size")
    with wrong("a size must not be negative, but 'n-5' is -2"):
        evaluate_count("n-5", {"n": 3}, "a size")
    with wrong("a size must be a whole number, but 'inf' is inf"):
        evaluate_count("inf", {}, "a size")
