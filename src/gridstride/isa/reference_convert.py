"""Python meanings of cvt and cvt.pack on raw bits, one lane at a time, in exact integers.

Source: PTX ISA 9.7.9.21 (cvt) and 9.7.9.23 (cvt.pack), and an H200 where PTX leaves bits open: which integer
a NaN becomes, and the NaN patterns of floating-point results.
"""

from __future__ import annotations

from gridstride.isa.float_formats import BF16, F16, F32, F64, FORMATS, TF32, Finite, Format, rounded_shift
from gridstride.isa.reference_half import saturated
from gridstride.isa.registry import Form
from gridstride.isa.types import ScalarType

ROUNDINGS = ("rn", "rna", "rz", "rm", "rp")
INTEGER_ROUNDINGS = ("rni", "rzi", "rmi", "rpi")


def signed_value(bits: int, width: int) -> int:
    return bits - ((bits >> (width - 1)) << width)


def integer_value(bits: int, kind: ScalarType) -> int:
    return signed_value(bits, kind.bits) if kind.signed else bits


def integer_range(signed: bool, bits: int) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def clamped(value: int, signed: bool, bits: int) -> int:
    low, high = integer_range(signed, bits)
    return min(max(value, low), high)


def integer_to_integer(form: Form, a: int) -> int:
    target, source = form.types
    value = integer_value(a, source)
    if "sat" in form:
        value = clamped(value, target.signed, target.bits)
    return value & ((1 << target.bits) - 1)


def integer_to_float(form: Form, a: int) -> int:
    target, source = form.types
    value = integer_value(a, source)
    bits = FORMATS[target.name].rounded((value < 0, abs(value), 0), form.one_of(*ROUNDINGS))
    return saturated(FORMATS[target.name], bits) if "sat" in form else bits


def whole(value: Finite, mode: str) -> Finite:
    """The value rounded to an integer; the sign stays, that of a zero too."""
    negative, m, e = value
    if e >= 0:
        return value
    away = mode == ("rmi" if negative else "rpi")
    return negative, rounded_shift(m, -e, away=away, ties="even" if mode == "rni" else ""), 0


def float_to_integer(form: Form, a: int) -> int:
    target, source = form.types
    fmt = FORMATS[source.name]
    low, high = integer_range(target.signed, target.bits)
    if "ftz" in form:
        a = fmt.flushed(a)
    if fmt.is_nan(a):
        # a source or result of 64 bits gives the most significant bit alone, all others zero
        return 1 << (target.bits - 1) if 64 in (source.bits, target.bits) else 0
    if fmt.is_infinite(a):
        value = low if fmt.negative(a) else high
    else:
        negative, m, e = whole(fmt.finite(a), form.one_of(*INTEGER_ROUNDINGS))
        value = (-m if negative else m) << e if e < 1100 else 0
    return min(max(value, low), high) & ((1 << target.bits) - 1)


def moved_nan(target: Format, source: Format, a: int, *, quiet: bool) -> int:
    """A NaN with its sign and the upper bits of its payload, made quiet or not."""
    payload, shift = a & ((1 << source.mantissa) - 1), target.mantissa - source.mantissa
    payload = payload << shift if shift >= 0 else payload >> -shift
    return (target.sign if source.negative(a) else 0) | target.infinity | payload | quiet << (target.mantissa - 1)


def converted_nan(form: Form, target: Format, source: Format, a: int) -> int:
    """Through the double-precision unit a NaN keeps sign and payload; a move of bits keeps it whole; the rest
    make the canonical one."""
    if "ftz" in form and source is F32:
        a = F32.nan
    elif source is target and source.bits >= 32 and not form.one_of(*INTEGER_ROUNDINGS):
        return a
    if F64 in (target, source):
        return moved_nan(target, source, a, quiet=True)
    if "ftz" not in form and ("rna" in form or (target, source) == (F32, BF16)):
        return moved_nan(target, source, a, quiet=False)
    return target.nan


def converted(form: Form, target: Format, source: Format, a: int) -> int:
    """One floating-point number into another format (or rounded to an integer in its own)."""
    if "ftz" in form and source is F32 and target is not F16:  # f16 results come from unflushed inputs on hardware
        a = source.flushed(a)
    sign = target.sign if source.negative(a) else 0
    to_whole = form.one_of(*INTEGER_ROUNDINGS)
    if source.is_nan(a):
        bits = converted_nan(form, target, source, a)
    elif source.is_infinite(a):
        bits = sign | (target.largest if "satfinite" in form else target.infinity)
    else:
        value = source.finite(a)
        flush = "ftz" in form and target is F32
        bits = target.rounded(whole(value, to_whole) if to_whole else value, form.one_of(*ROUNDINGS, default="rn"), flush=flush)
        if "satfinite" in form and target.is_infinite(bits):
            bits = sign | target.largest
    if "sat" in form:
        return saturated(target, bits)
    if "relu" in form and not target.is_nan(bits) and target.negative(bits):
        return 0
    return bits


def float_to_float(form: Form, a: int) -> int:
    target, source = form.types
    return converted(form, FORMATS[target.name], FORMATS[source.name], a)


def float_to_tf32(form: Form, a: int) -> int:
    """tf32 stands in the upper 19 bits of its 32."""
    bits = converted(form, TF32, F32, a)
    if "rna" in form and "satfinite" in form and bits & TF32.infinity == TF32.infinity:
        bits = (a >> 13) - 1  # what the H200 does to NaN too
    return bits << 13


def float_pair_to_packed(form: Form, a: int, b: int) -> int:
    """The first operand goes to the upper half."""
    target = FORMATS[form.type.name.removesuffix("x2")]
    low, high = (converted(form, target, FORMATS["f32"], x) for x in (b, a))
    return low | high << (form.type.bits // 2)


def packed_to_packed(form: Form, a: int) -> int:
    """Between f16x2 and e4m3x2 or e5m2x2."""
    target, source = (t.name.removesuffix("x2") for t in form.types)
    half = form.types[1].bits // 2
    low, high = (converted(form, FORMATS[target], FORMATS[source], x) for x in (a & ((1 << half) - 1), a >> half))
    return low | high << (form.type.bits // 2)


SMALL_INTEGERS = {"s4": (True, 4), "u4": (False, 4), "s2": (True, 2), "u2": (False, 2)}


def packed_kind(form: Form) -> tuple[bool, int]:
    """Signedness and width of the elements that a cvt.pack makes."""
    word = form.one_of(*SMALL_INTEGERS)
    return SMALL_INTEGERS[word] if word else (form.type.signed, form.type.bits)


def pack(form: Form, a: int, b: int, c: int = 0) -> int:
    """b in the lowest place, a in the next, c shifted above them, cut at 32 bits."""
    signed, bits = packed_kind(form)
    mask = (1 << bits) - 1
    low, high = (clamped(signed_value(x, 32), signed, bits) & mask for x in (b, a))
    return (low | high << bits | c << (2 * bits)) & 0xFFFFFFFF
