"""Plain meanings of the PTX approximate instructions: one lane, raw bits in and out, integers throughout.

`special` is the special-function unit of an H200 (see special_unit.py for its construction), the other functions
what the compiler makes around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from gridstride.isa.reference_float import CANONICAL_NAN, F32, F64, add, flushed, flushed_result, fused, multiply
from gridstride.isa.registry import Form
from gridstride.isa.special_tables import TANH_SEGMENTS_LOG2
from gridstride.isa.special_unit import TABLES, TANH_LEAST, TANH_SLOTS

_INFINITY = 0x7F800000
_ONE = 0x3F800000


def square(x: int) -> int:
    """x*x / 2**19 without the partial products that weigh less than 2**19."""
    ones = [i for i in range(17) if x >> i & 1]
    total = sum(1 << (2 * i) for i in ones if 2 * i >= 19)
    total += sum(1 << (i + j + 1) for i in ones for j in ones if j < i and i + j + 1 >= 19)
    return total >> 19


def interpolate(name: str, segment: int, x: int) -> int:
    constant, linear, quadratic = TABLES[name][segment]
    return constant + linear * x + 4 * quadratic * square(x)


def _float(exponent: int, total: int, shift: int) -> int:
    """Positive f32 of exponent 2**exponent and the significand total >> shift, out of range to zero or infinity."""
    magnitude = ((exponent + 127) << 23) + (total >> shift) - (1 << 23)
    if magnitude < 1 << 23:
        return 0
    return min(magnitude, _INFINITY)


def _cut(total: int, unit: int) -> int:
    """The f32 of total * 2**unit with all but the first 24 bits dropped."""
    if not total:
        return 0
    length = total.bit_length()
    significand = total << 24 >> length
    return ((length - 1 + unit + 127) << 23) + significand - (1 << 23)


def _rcp(a: int) -> int:
    exponent, fraction = F32.magnitude(a) >> 23, a & 0x7FFFFF
    if F32.is_infinite(a):
        return a & F32.sign
    if not exponent:
        return a & F32.sign | _INFINITY
    return a & F32.sign | _float(126 - exponent, interpolate("rcp", fraction >> 16, (fraction & 0xFFFF) << 1), 17)


def _root(name: str, a: int) -> int:
    exponent, fraction = F32.magnitude(a) >> 23, a & 0x7FFFFF
    inverse = name == "rsqrt"
    if not exponent:
        return a & F32.sign | (_INFINITY if inverse else 0)
    if a & F32.sign:
        return CANONICAL_NAN
    if a == _INFINITY:
        return 0 if inverse else a
    half, odd = divmod(exponent - 127, 2)
    if inverse and not odd and not fraction:
        return _float(-half, 1 << 40, 17)
    total = interpolate(name, odd << 6 | fraction >> 17, fraction & 0x1FFFF)
    return _float(-1 - half, total, 17) if inverse else _float(half, total, 18)


def _fixed(a: int, bits: int) -> int:
    """|a| in units of 2**-bits, rounded down; a is finite."""
    if F32.is_subnormal(a):
        return 0
    number = abs(F32.value(a)) * (1 << bits)
    return number.numerator // number.denominator


def _ex2(a: int) -> int:
    if F32.is_infinite(a):
        return 0 if F32.negative(a) else a
    fixed = _fixed(a, 23)
    if F32.negative(a):
        fixed = -fixed if fixed % (1 << 23) == 0 else ~fixed
    whole, fraction = divmod(fixed, 1 << 23)
    if whole > 127:
        return _INFINITY
    return _float(whole, interpolate("ex2", fraction >> 17, fraction & 0x1FFFF), 17)


def _lg2(a: int) -> int:
    exponent, fraction = F32.magnitude(a) >> 23, a & 0x7FFFFF
    if not exponent:
        return F32.sign | _INFINITY
    if a & F32.sign:
        return CANONICAL_NAN
    if a in (_INFINITY, _ONE):
        return a if a == _INFINITY else 0
    total = (exponent - 127 << 36) + (interpolate("lg2", fraction >> 17, fraction & 0x1FFFF) >> 5)
    return F32.sign | _cut(~total, -36) if total < 0 else _cut(total, -36)


def _wave(a: int, quarters: int) -> int:
    if F32.is_infinite(a):
        return CANONICAL_NAN
    quadrant, q = divmod(_fixed(a, 25), 1 << 23)
    quadrant += quarters
    if quadrant & 1:
        q ^= 0x7FFFFF
    sign = F32.sign if quadrant & 2 else 0
    if not quarters:
        sign ^= a & F32.sign
    return sign | _cut(interpolate("sin", q >> 17, q & 0x1FFFF), -41)


def _tanh(a: int) -> int:
    exponent, fraction = (F32.magnitude(a) >> 23) - 127, a & 0x7FFFFF
    binade = exponent - TANH_LEAST
    if binade < 0:
        return a
    if binade >= len(TANH_SEGMENTS_LOG2):
        return a & F32.sign | _ONE
    log2 = TANH_SEGMENTS_LOG2[binade]
    row = binade * TANH_SLOTS + (fraction >> (23 - log2))
    return a & F32.sign | _cut(interpolate("tanh", row, fraction >> (6 - log2) & 0x1FFFF), -41)


_UNIT: dict[str, Callable[[int], int]] = {
    "rcp": _rcp,
    "rsqrt": functools.partial(_root, "rsqrt"),
    "sqrt": functools.partial(_root, "sqrt"),
    "ex2": _ex2,
    "lg2": _lg2,
    "sin": lambda a: _wave(a, 0),
    "cos": lambda a: _wave(a, 1),
    "tanh": _tanh,
}


def special(name: str, a: int) -> int:
    """The special-function unit; the angle of sin and cos is in revolutions."""
    return CANONICAL_NAN if F32.is_nan(a) else _UNIT[name](a)


def _power(exponent: int) -> int:
    return exponent + 127 << 23


def _scale(a: int, exponent: int) -> int:
    return multiply(F32, "rn", a, _power(exponent))


def unary(form: Form, a: int) -> int:
    """rcp, rsqrt, sqrt, ex2, lg2, sin, cos and tanh of f32."""
    name = form.operation.opcode
    (a,) = flushed(form, a)
    if name in ("sin", "cos"):
        return special(name, multiply(F32, "rz", a, 0x3E22F983))  # 1 / (2 pi)
    subnormal = F32.magnitude(a) < 1 << 23
    if "ftz" in form or name == "tanh":
        return special(name, a)
    if name == "ex2":
        if F32.is_nan(a) or not F32.negative(a) or F32.magnitude(a) <= 0x42FC0000:  # not below -126
            return special(name, a)
        half = special(name, _scale(a, -1))
        return multiply(F32, "rn", half, half)
    if name == "rcp":
        exponent = 24 if subnormal else -2 if F32.magnitude(a) > _power(126) else 0
        return _scale(special(name, _scale(a, exponent)), exponent)
    if not subnormal:
        return special(name, a)
    result = special(name, _scale(a, 24))
    if name == "lg2":
        return add(F32, "rn", result, 0xC1C00000)  # - 24
    return _scale(result, 12 if name == "rsqrt" else -12)


def divide(form: Form, a: int, b: int) -> int:
    """div.approx and div.full of f32."""
    a, b = flushed(form, a, b)
    exponent = -2 if "full" in form and _power(126) < F32.magnitude(b) else 0
    if "ftz" not in form and F32.magnitude(b) < 1 << 23:
        exponent = 24
    if exponent:
        a, b = flushed(form, _scale(a, exponent), _scale(b, exponent))
    inverse = special("rcp", b)
    return flushed_result("mul", "rn", a, inverse) if "ftz" in form else multiply(F32, "rn", a, inverse)


def _high(name: str, high: int) -> int:
    """The unit on the upper half of an f64."""
    exponent, fraction, sign = high >> 20 & 0x7FF, high & 0xFFFFF, high & F32.sign
    if high & 0x7FFFFFFF > 0x7FF00000 or (name == "rsqrt" and sign and exponent):
        return CANONICAL_NAN
    if not exponent:
        return sign | 0x7FF00000
    if exponent == 0x7FF:
        return sign
    if name == "rcp":
        total = interpolate("rcp", fraction >> 13, (fraction & 0x1FFF) << 4)
        magnitude = (2045 - exponent << 20) + (total >> 20) - (1 << 20)
        return sign | (magnitude if magnitude >= 1 << 20 else 0)
    half, odd = divmod(exponent - 1023, 2)
    total = interpolate("rsqrt", odd << 6 | fraction >> 14, (fraction & 0x3FFF) << 3) if odd or fraction else 1 << 41
    return (1022 - half << 20) + (total >> 20) - (1 << 20)


def high_half(form: Form, a: int) -> int:
    """rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64."""
    return _high(form.operation.opcode, a >> 32) << 32


def rsqrt_f64(form: Form, a: int) -> int:
    """rsqrt.approx.f64: the unit's value improved once."""
    if F64.is_nan(a):
        return a | 1 << 51
    if not F64.magnitude(a):
        return a | F64.infinity
    if F64.negative(a):
        return 0xFFF8 << 48
    if a == F64.infinity:
        return 0
    one, three_eighths, half = 0x3FF << 52, 0x3FD8 << 48, 0x3FE << 52
    subnormal = F64.is_subnormal(a)
    if subnormal:
        a = multiply(F64, "rn", a, 1023 + 54 << 52)
    guess = _high("rsqrt", a >> 32) << 32
    error = fused(F64, "rn", a, multiply(F64, "rn", guess, guess) ^ F64.sign, one)
    factor = fused(F64, "rn", error, three_eighths, half)
    result = fused(F64, "rn", factor, multiply(F64, "rn", guess, error), guess)
    return multiply(F64, "rn", result, 1023 + 27 << 52) if subnormal else result
