"""Python meanings of half-precision arithmetic (f16, bf16 and their packed pairs) on raw bits, one lane at a time.

Exact integers throughout; rounding happens once. Source: PTX ISA 9.7.4 (half arithmetic), 9.7.7 (half
comparison), and an H200 where PTX leaves bits open (NaN patterns, signs of flushed zeros).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from gridstride.isa.float_formats import BF16, F16, F32, FORMATS, Format, product, total
from gridstride.isa.reference_approximate import unary
from gridstride.isa.registry import Form, lookup

Lane = Callable[..., int]
ONE: dict[str, int] = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}


def half_format(name: str) -> Format:
    return BF16 if name.startswith("bf16") else F16


def by_halves(form: Form, lane: Lane, *arguments: int) -> int:
    """Evaluate `lane(form, format, *halves)` once, or for each half of a packed type."""
    fmt = half_format(form.types[-1].name)
    if not form.types[-1].name.endswith("x2"):
        return lane(form, fmt, *arguments)
    low = lane(form, fmt, *(a & 0xFFFF for a in arguments))
    return low | lane(form, fmt, *(a >> 16 for a in arguments)) << 16


def finished(form: Form, fmt: Format, bits: int) -> int:
    """The result modifiers sat and relu."""
    if "sat" in form:
        return saturated(fmt, bits)
    if "relu" in form and not fmt.is_nan(bits) and fmt.negative(bits):
        return 0
    return bits


def saturated(fmt: Format, bits: int) -> int:
    """Clamped to [0, 1]; NaN becomes +0."""
    if fmt.is_nan(bits) or fmt.negative(bits):
        return 0
    return min(bits, ONE[fmt.name])


def _multiply_add(form: Form, fmt: Format, a: int, b: int, c: int) -> int:
    """a * b + c rounded once."""
    if "ftz" in form:
        a, b, c = fmt.flushed(a), fmt.flushed(b), fmt.flushed(c)
    if any(map(fmt.is_nan, (a, b, c))):
        return finished(form, fmt, fmt.nan)
    negative = fmt.negative(a) != fmt.negative(b)
    if fmt.is_infinite(a) or fmt.is_infinite(b):
        other = b if fmt.is_infinite(a) else a
        zero = not other & ~fmt.sign
        bits = fmt.nan if zero or (fmt.is_infinite(c) and fmt.negative(c) != negative) else fmt.infinity | fmt.sign * negative
    elif fmt.is_infinite(c):
        bits = c
    else:
        bits = fmt.rounded(total(product(fmt.finite(a), fmt.finite(b)), fmt.finite(c)), "rn", flush="ftz" in form)
    return finished(form, fmt, bits)


def fma(form: Form, a: int, b: int, c: int) -> int:
    return by_halves(form, _multiply_add, a, b, c)


def add(form: Form, a: int, b: int) -> int:
    def lane(form: Form, fmt: Format, a: int, b: int) -> int:
        return _multiply_add(form, fmt, a, ONE[fmt.name], b)

    return by_halves(form, lane, a, b)


def subtract(form: Form, a: int, b: int) -> int:
    def lane(form: Form, fmt: Format, a: int, b: int) -> int:
        return _multiply_add(form, fmt, a, ONE[fmt.name], b ^ fmt.sign)

    return by_halves(form, lane, a, b)


def multiply(form: Form, a: int, b: int) -> int:
    def lane(form: Form, fmt: Format, a: int, b: int) -> int:
        return _multiply_add(form, fmt, a, b, fmt.sign if fmt.negative(a) != fmt.negative(b) else 0)

    return by_halves(form, lane, a, b)


def _sign_operation(form: Form, fmt: Format, a: int, *, change: Callable[[int, int], int]) -> int:
    if fmt.is_nan(a):
        return fmt.nan
    if "ftz" in form:
        a = fmt.flushed(a)
    return change(a, fmt.sign)


def absolute(form: Form, a: int) -> int:
    return by_halves(form, partial(_sign_operation, change=lambda bits, sign: bits & ~sign), a)


def negate(form: Form, a: int) -> int:
    return by_halves(form, partial(_sign_operation, change=operator.xor), a)


def _ordered(fmt: Format, bits: int) -> int:
    """An integer that orders numbers as the format does, with -0 below +0."""
    magnitude = bits & (fmt.sign - 1)
    return -magnitude - 1 if fmt.negative(bits) else magnitude


def _extreme(form: Form, fmt: Format, a: int, b: int, *, choose: Callable[..., int]) -> int:
    if "ftz" in form:
        a, b = fmt.flushed(a), fmt.flushed(b)
    sign = (a ^ b) & fmt.sign if "xorsign" in form else 0
    nans = [fmt.is_nan(x) for x in (a, b)]
    if all(nans) or ("NaN" in form and any(nans)):
        return fmt.nan
    if "abs" in form:
        a, b = a & ~fmt.sign, b & ~fmt.sign
    numbers = [x for x, nan in zip((a, b), nans, strict=True) if not nan]
    return choose(numbers, key=partial(_ordered, fmt)) | sign


def minimum(form: Form, a: int, b: int) -> int:
    return by_halves(form, partial(_extreme, choose=min), a, b)


def maximum(form: Form, a: int, b: int) -> int:
    return by_halves(form, partial(_extreme, choose=max), a, b)


COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
BOOLEANS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu")
COMPARISON_WORDS = (*COMPARISONS, *UNORDERED, "num", "nan")


def compared(form: Form, fmt: Format, a: int, b: int) -> bool:
    """The floating-point comparison that the form names, without its boolean operation."""
    word = form.one_of(*COMPARISON_WORDS)
    if "ftz" in form:
        a, b = fmt.flushed(a), fmt.flushed(b)
    if fmt.is_nan(a) or fmt.is_nan(b):
        return word in UNORDERED or word == "nan"
    if word in ("num", "nan"):
        return word == "num"
    left, right = (0 if not x & ~fmt.sign else _ordered(fmt, x) for x in (a, b))
    return bool(COMPARISONS[word.removesuffix("u")](left, right))


def combined(form: Form, condition: bool, c: int | None) -> bool:
    word = form.one_of(*BOOLEANS)
    return bool(BOOLEANS[word](condition, bool(c))) if word else condition


def set_predicates(form: Form, a: int, b: int, c: int | None = None) -> tuple[int, int]:
    """setp: the condition and its complement; for packed types the conditions of the low and the high half."""
    fmt = half_format(form.type.name)
    if form.type.name.endswith("x2"):
        first = compared(form, fmt, a & 0xFFFF, b & 0xFFFF)
        second = compared(form, fmt, a >> 16, b >> 16)
    else:
        first = compared(form, fmt, a, b)
        second = not first
    return int(combined(form, first, c)), int(combined(form, second, c))


def set_value(form: Form, a: int, b: int, c: int | None = None) -> int:
    """set: 1.0 of a floating type, all ones of an integer type; packed sources fill each half."""
    target, source = form.types
    if target.name in ("f16x2", "bf16x2"):
        true = ONE[target.name.removesuffix("x2")]
    elif target.kind in "hf":
        true = ONE[target.name]
    else:
        true = (1 << target.bits) - 1

    def lane(form: Form, fmt: Format, a: int, b: int) -> int:
        return true & 0xFFFF if combined(form, compared(form, fmt, a, b), c) else 0

    if source.name.endswith("x2"):
        return by_halves(form, lane, a, b)
    return true if combined(form, compared(form, FORMATS[source.name], a, b), c) else 0


def single_form(form: Form) -> str:
    """The f32 instruction whose result an approximate instruction on halves truncates."""
    return f"{form.operation.opcode}.approx{'.ftz' if 'ftz' in form else ''}.f32"


def by_the_unit(form: Form, a: int) -> int:
    """ex2 and tanh: the f32 instruction's result, truncated; beyond the largest number infinity."""

    def lane(form: Form, fmt: Format, a: int) -> int:
        if fmt.is_nan(a):
            return fmt.nan
        single = F32.infinity | (F32.sign if fmt.negative(a) else 0) if fmt.is_infinite(a) else F32.rounded(fmt.finite(a), "rn")
        result = unary(lookup(single_form(form)), single)
        if F32.is_infinite(result):
            return fmt.infinity
        value = F32.finite(result)
        beyond = value[1].bit_length() + value[2] > fmt.bias + 1
        return fmt.infinity if beyond else fmt.rounded(value, "rz")

    return by_halves(form, lane, a)
