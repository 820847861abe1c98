"""Plain meanings of the PTX f32 and f64 instructions: one lane, raw bits in and out, exact rational arithmetic.

What PTX leaves open (NaN payloads, which of several NaN stays) is as an H200 does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from gridstride.isa.registry import Form

CANONICAL_NAN = 0x7FFFFFFF
_INVALID_F64 = 0xFFF8 << 48  # what an f64 operation without NaN operands gives where it has no result


@dataclass(frozen=True)
class Format:
    """An IEEE binary format. All methods take and give raw bits."""

    bits: int
    fraction_bits: int

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - 1 - self.fraction_bits)) - 1) << self.fraction_bits

    @property
    def least_exponent(self) -> int:
        """Of the smallest normal number."""
        return 2 - (1 << (self.bits - 2 - self.fraction_bits))

    def magnitude(self, a: int) -> int:
        return a & (self.sign - 1)

    def negative(self, a: int) -> bool:
        return bool(a & self.sign)

    def is_nan(self, a: int) -> bool:
        return self.magnitude(a) > self.infinity

    def is_infinite(self, a: int) -> bool:
        return self.magnitude(a) == self.infinity

    def is_subnormal(self, a: int) -> bool:
        return 0 < self.magnitude(a) < 1 << self.fraction_bits

    def value(self, a: int) -> Fraction:
        """The number that finite bits stand for."""
        field = self.magnitude(a) >> self.fraction_bits
        fraction = a & ((1 << self.fraction_bits) - 1)
        if field:
            fraction |= 1 << self.fraction_bits
        number = fraction * Fraction(2) ** (max(field, 1) - 1 + self.least_exponent - self.fraction_bits)
        return -number if self.negative(a) else number

    def round(self, number: Fraction, mode: str) -> int:
        """Bits of a number rounded in `mode` (rn, rz, rm, rp). Zero gives +0."""
        if not number:
            return 0
        sign, size = (self.sign, -number) if number < 0 else (0, number)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if size < Fraction(2) ** exponent:
            exponent -= 1
        exponent = max(exponent, self.least_exponent)
        scaled = size / Fraction(2) ** (exponent - self.fraction_bits)
        whole = math.floor(scaled)
        rest = scaled - whole
        outward = mode == ("rm" if sign else "rp")
        if (rest and outward) or (mode == "rn" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1))):
            whole += 1
        # The leading one of a normal `whole` adds itself to the exponent field.
        magnitude = ((exponent - self.least_exponent) << self.fraction_bits) + whole
        if magnitude >= self.infinity:
            magnitude = self.infinity if outward or mode == "rn" else self.infinity - 1
        return sign | magnitude


F32 = Format(32, 23)
F64 = Format(64, 52)


def format_of(form: Form) -> Format:
    return F64 if form.type.name == "f64" else F32


def _quiet_nan(fmt: Format, payload: int) -> int:
    return CANONICAL_NAN if fmt is F32 else payload | 1 << 51


def _invalid(fmt: Format) -> int:
    return CANONICAL_NAN if fmt is F32 else _INVALID_F64


def flushed(form: Form, *values: int) -> list[int]:
    """f32 `.ftz`: subnormal numbers become zero of the same sign."""
    if "ftz" not in form:
        return list(values)
    return [a & F32.sign if F32.is_subnormal(a) else a for a in values]


def add(fmt: Format, mode: str, a: int, b: int) -> int:
    for operand in (b, a):
        if fmt.is_nan(operand):
            return _quiet_nan(fmt, operand)
    if fmt.is_infinite(a):
        return _invalid(fmt) if fmt.is_infinite(b) and a != b else a
    if fmt.is_infinite(b):
        return b
    return _round_sum(fmt, mode, fmt.value(a) + fmt.value(b), fmt.negative(a), fmt.negative(b))


def _round_sum(fmt: Format, mode: str, total: Fraction, negative_a: bool, negative_b: bool) -> int:
    """A sum that is zero is -0 where both terms are negative, or where either is and rounding is downward."""
    if total:
        return fmt.round(total, mode)
    negative = negative_a or negative_b if mode == "rm" else negative_a and negative_b
    if negative_a == negative_b:
        negative = negative_a
    return fmt.sign if negative else 0


def subtract(fmt: Format, mode: str, a: int, b: int) -> int:
    return add(fmt, mode, a, b if fmt.is_nan(b) else b ^ fmt.sign)


def multiply(fmt: Format, mode: str, a: int, b: int) -> int:
    for operand in (b, a):
        if fmt.is_nan(operand):
            return _quiet_nan(fmt, operand)
    sign = (a ^ b) & fmt.sign
    if fmt.is_infinite(a) or fmt.is_infinite(b):
        return _invalid(fmt) if not fmt.magnitude(a) or not fmt.magnitude(b) else fmt.infinity | sign
    return fmt.round(fmt.value(a) * fmt.value(b), mode) | sign


def fused(fmt: Format, mode: str, a: int, b: int, c: int) -> int:
    for operand in (b, c, a):
        if fmt.is_nan(operand):
            return _quiet_nan(fmt, operand)
    negative = fmt.negative(a) != fmt.negative(b)
    if fmt.is_infinite(a) or fmt.is_infinite(b):
        if not fmt.magnitude(a) or not fmt.magnitude(b) or (fmt.is_infinite(c) and fmt.negative(c) != negative):
            return _invalid(fmt)
        return fmt.infinity | (fmt.sign if negative else 0)
    if fmt.is_infinite(c):
        return c
    return _round_sum(fmt, mode, fmt.value(a) * fmt.value(b) + fmt.value(c), negative, fmt.negative(c))


def divide(fmt: Format, mode: str, a: int, b: int) -> int:
    for operand in (a, b):
        if fmt.is_nan(operand):
            return _quiet_nan(fmt, operand)
    sign = (a ^ b) & fmt.sign
    if fmt.is_infinite(a) or not fmt.magnitude(b):
        nonsense = fmt.is_infinite(b) if fmt.is_infinite(a) else not fmt.magnitude(a)
        return _invalid(fmt) if nonsense else fmt.infinity | sign
    if fmt.is_infinite(b):
        return sign
    return fmt.round(fmt.value(a) / fmt.value(b), mode) | sign


def square_root(fmt: Format, mode: str, a: int) -> int:
    if fmt.is_nan(a):
        return _quiet_nan(fmt, a)
    if not fmt.magnitude(a) or a == fmt.infinity:
        return a
    if fmt.negative(a):
        return _invalid(fmt)
    return fmt.round(_root(fmt.value(a)), mode)


def _root(number: Fraction) -> Fraction:
    """The square root to 100 bits more than any format has; an inexact one lies strictly between its neighbours of
    that precision, so it rounds like the true one."""
    scale = 1300  # bits: twice as many as the smallest f64's exponent needs
    radicand = number * 4**scale
    root = math.isqrt(math.floor(radicand))
    return Fraction(2 * root + (root * root != radicand), 2 << scale)


def arithmetic(form: Form, *operands: int) -> int:
    """add, sub, mul, fma, mad, div, rcp and sqrt with a rounding mode, `.ftz` and `.sat`."""
    fmt, mode = format_of(form), form.one_of("rn", "rz", "rm", "rp", default="rn")
    name = form.operation.opcode
    result = flushed_result(name, mode, *flushed(form, *operands)) if "ftz" in form else _OPERATIONS[name](fmt, mode, *operands)
    return saturated(result) if "sat" in form else result


def flushed_result(name: str, mode: str, *operands: int) -> int:
    """An f32 operation with `.ftz` on operands that are not subnormal: zero where the result, rounded as if exponents
    had no limit, is subnormal. One that rounds to the least normal number is decided by making it 2**24 times as
    large."""
    result = _OPERATIONS[name](F32, mode, *operands)
    least = 1 << F32.fraction_bits
    if F32.magnitude(result) == least and name != "sqrt":

        def scaled(operand: int, exponent: int) -> int:
            return F32.round(F32.value(operand) * Fraction(2) ** exponent, "rn")

        exponents = {"rcp": (-24,), "mul": (24, 0), "div": (24, 0), "add": (24, 24), "sub": (24, 24)}.get(name, (24, 0, 24))
        larger = _OPERATIONS[name](F32, mode, *map(scaled, operands, exponents))
        return result if F32.magnitude(larger) >= least + (24 << F32.fraction_bits) else result & F32.sign
    return result & F32.sign if F32.is_subnormal(result) else result


_OPERATIONS: dict[str, Callable[..., int]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "fma": fused,
    "mad": fused,
    "div": divide,
    "rcp": lambda fmt, mode, a: divide(fmt, mode, fmt.round(Fraction(1), "rn"), a),
    "sqrt": square_root,
}


def saturated(a: int) -> int:
    """f32 `.sat`: to [+0, 1]; NaN becomes +0."""
    if F32.is_nan(a) or F32.negative(a):
        return 0
    return min(a, 0x3F800000)


def packed_arithmetic(form: Form, *operands: int) -> int:
    """Both halves of f32x2 registers."""
    low = arithmetic(form, *(a & 0xFFFFFFFF for a in operands))
    return arithmetic(form, *(a >> 32 for a in operands)) << 32 | low


def absolute(form: Form, a: int) -> int:
    fmt = format_of(form)
    if fmt.is_nan(a):
        return _quiet_nan(fmt, a)
    return fmt.magnitude(flushed(form, a)[0])


def negative(form: Form, a: int) -> int:
    fmt = format_of(form)
    if fmt.is_nan(a):
        return _quiet_nan(fmt, a)
    return flushed(form, a)[0] ^ fmt.sign


def copysign(form: Form, a: int, b: int) -> int:
    fmt = format_of(form)
    return (a & fmt.sign) | fmt.magnitude(b)


def extremum(form: Form, *given: int | None) -> int:
    """min and max of two or (f32) three operands."""
    fmt = format_of(form)
    operands = flushed(form, *(a for a in given if a is not None))
    signs = operands[0] ^ operands[1]
    if "abs" in form:
        operands = [fmt.magnitude(a) for a in operands]
    numbers = [a for a in operands if not fmt.is_nan(a)]
    if not numbers or ("NaN" in form and len(numbers) < len(operands)):
        return _quiet_nan(fmt, next(a for a in reversed(operands) if fmt.is_nan(a)))
    choose = min if form.operation.opcode == "min" else max
    # Sign and magnitude as one signed number; -0 comes just before +0.
    result = choose(numbers, key=lambda a: -fmt.magnitude(a) - 1 if fmt.negative(a) else fmt.magnitude(a))
    return fmt.magnitude(result) | (signs & fmt.sign) if "xorsign" in form else result


def _compare(fmt: Format, name: str, a: int, b: int) -> bool:
    if fmt.is_nan(a) or fmt.is_nan(b):
        return name == "nan" or (len(name) == 3 and name[-1] == "u")
    if name in ("num", "nan"):
        return name == "num"

    def key(c: int) -> int:
        return -fmt.magnitude(c) if fmt.negative(c) else fmt.magnitude(c)

    x, y = key(a), key(b)
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name[:2]]


COMPARISONS = (*(f"{name}{u}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for u in ("", "u")), "num", "nan")


def _combine(form: Form, outcome: bool, c: int | None) -> int:
    if c is None:
        return int(outcome)
    return {"and": outcome & c, "or": outcome | c, "xor": outcome ^ c}[form.one_of("and", "or", "xor")]


def setp(form: Form, a: int, b: int, c: int | None) -> tuple[int, int]:
    outcome = _compare(format_of(form), form.one_of(*COMPARISONS), *flushed(form, a, b))
    return _combine(form, outcome, c), _combine(form, not outcome, c)


def set_(form: Form, a: int, b: int, c: int | None) -> int:
    fmt = F64 if form.types[1].name == "f64" else F32
    if not _combine(form, _compare(fmt, form.one_of(*COMPARISONS), *flushed(form, a, b)), c):
        return 0
    return 0x3F800000 if form.type.name == "f32" else 0xFFFFFFFF


def testp(form: Form, a: int) -> int:
    fmt = format_of(form)
    answers = {
        "finite": not fmt.is_nan(a) and not fmt.is_infinite(a),
        "infinite": fmt.is_infinite(a),
        "number": not fmt.is_nan(a),
        "notanumber": fmt.is_nan(a),
        "normal": fmt.magnitude(a) < fmt.infinity and not fmt.is_subnormal(a),  # zero included
        "subnormal": fmt.is_subnormal(a),
    }
    return int(answers[form.one_of(*answers)])
