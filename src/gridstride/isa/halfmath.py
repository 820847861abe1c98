"""Building blocks for half-precision code: widening to float32, rounding back, and results rounded in any mode
without touching the processor's rounding mode.

A half value is the raw bits in an i16 lane. Where the processor converts f16 itself (F16C, AArch64) LLVM's own
conversions are used; elsewhere LLVM would call a library function for each lane, so integer code does it.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Sequence

from llvmlite import binding, ir

from gridstride.isa.float_formats import BF16, F16, F32, Format
from gridstride.isa.lanes import Lanes

Value = ir.Value


@functools.cache
def converts_half() -> bool:
    """Whether this processor has instructions between f16 and float32."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    return bool(binding.get_host_cpu_features().get("f16c"))


def half_type(cx: Lanes) -> ir.Type:
    return ir.HalfType() if cx.width == 1 else ir.VectorType(ir.HalfType(), cx.width)


def format_of(name: str) -> Format:
    """The element format of f16, f16x2, bf16, bf16x2."""
    return BF16 if name.startswith("bf16") else F16


def halves(cx: Lanes, *values: Value) -> tuple[Lanes, list[Value]]:
    """Packed pairs (i32 lanes) as twice as many i16 lanes, low half first."""
    pairs = Lanes(cx.b, cx.width * 2)
    return pairs, [cx.b.bitcast(value, pairs.type("i16")) for value in values]


def is_nan(cx: Lanes, value: Value) -> Value:
    return cx.b.fcmp_unordered("uno", value, value)


def widen(cx: Lanes, fmt: Format, bits: Value) -> Value:
    """f16 or bf16 to float32, exactly. A NaN keeps sign and payload."""
    b = cx.b
    wide = cx.type("i32")
    if fmt is BF16:
        return cx.cast(b.shl(b.zext(bits, wide), cx.const("i32", 16)), "f32")
    if converts_half():
        return b.fpext(b.bitcast(bits, half_type(cx)), cx.type("f32"))
    magnitude = b.shl(b.zext(b.and_(bits, cx.const("i16", 0x7FFF)), wide), cx.const("i32", 13))
    # Scaling by a power of two moves the exponent and normalises what is subnormal.
    scaled = cx.cast(b.fmul(cx.cast(magnitude, "f32"), cx.const("f32", 2.0**112)), "i32")
    special = b.icmp_unsigned(">=", magnitude, cx.const("i32", F16.infinity << 13))
    scaled = cx.select(special, b.or_(magnitude, cx.const("i32", F32.infinity)), scaled)
    sign = b.shl(b.zext(b.and_(bits, cx.const("i16", 0x8000)), wide), cx.const("i32", 16))
    return cx.cast(b.or_(scaled, sign), "f32")


def narrow(cx: Lanes, fmt: Format, value: Value, mode: str = "rn") -> Value:
    """float32 to f16 or bf16 bits, rounded once; NaN becomes the canonical 0x7fff."""
    b = cx.b
    if fmt is BF16:
        rounded = drop_low_bits(cx, cx.cast(value, "i32"), 16, mode)
        bits: Value = b.trunc(b.lshr(rounded, cx.const("i32", 16)), cx.type("i16"))
    elif converts_half():
        nearest = b.fptrunc(value, half_type(cx))
        bits = b.bitcast(nearest, cx.type("i16"))
        if mode != "rn":
            bits = step(cx, "i16", bits, *error_signs(cx, value, b.fpext(nearest, cx.type("f32"))), mode)
    else:
        return b.trunc(round_into(cx, fmt, cx.cast(value, "i32"), mode), cx.type("i16"))
    return cx.select(is_nan(cx, value), cx.const("i16", fmt.nan), bits)


def drop_low_bits(cx: Lanes, bits: Value, count: int, mode: str) -> Value:
    """A float32 number (no NaN) with `count` bits fewer of mantissa: the low bits are rounded away, and what is
    left in them has no meaning. mode: rn, rna, rz, rm, rp."""
    b = cx.b
    low = (1 << count) - 1
    if mode == "rz":
        return bits
    if mode == "rna":
        return b.add(bits, cx.const("i32", 1 << (count - 1)))
    if mode == "rn":
        odd = b.and_(b.lshr(bits, cx.const("i32", count)), cx.const("i32", 1))
        return b.add(b.add(bits, cx.const("i32", low >> 1)), odd)
    sign = b.ashr(bits, cx.const("i32", 31))
    return b.add(bits, b.and_(sign if mode == "rm" else b.not_(sign), cx.const("i32", low)))


def error_signs(cx: Lanes, exact: Value, rounded: Value) -> tuple[Value, Value]:
    """Whether `rounded` is above, and below, `exact`. False for NaN."""
    return cx.b.fcmp_ordered(">", rounded, exact), cx.b.fcmp_ordered("<", rounded, exact)


def step(cx: Lanes, storage: str, bits: Value, above: Value, below: Value, mode: str) -> Value:
    """A result rounded to nearest, stepped to the neighbour that another mode asks for.

    above, below: whether it lies above or below the exact value. Zero has the sign of the exact value. mode: rz,
    rm, rp, or `odd`: towards zero, then the last bit set if anything was lost, which makes a later rounding to
    at least two bits fewer as good as a single one.
    """
    b = cx.b
    sign = b.ashr(bits, cx.const(storage, int(storage[1:]) - 1))
    outwards = b.or_(sign, cx.const(storage, 1))
    if mode == "rm":
        return cx.select(above, b.sub(bits, outwards), bits)
    if mode == "rp":
        return cx.select(below, b.add(bits, outwards), bits)
    negative = b.icmp_signed("<", bits, cx.const(storage, 0))
    inwards = b.sub(bits, b.zext(cx.select(negative, below, above), bits.type))
    if mode == "rz":
        return inwards
    return b.or_(inwards, b.zext(b.or_(above, below), bits.type))


def round_into(cx: Lanes, fmt: Format, bits: Value, mode: str) -> Value:
    """float32 bits to the bits of a format of fewer exponent and mantissa bits, rounded once, in i32 lanes.

    NaN becomes the format's canonical one, which has no sign; what is too large follows the mode, or becomes the
    largest number where the format has no infinity.
    """

    def build(cx: Lanes, parameters: Sequence[Value]) -> list[Value]:
        return [_round_into(cx, fmt, parameters[0], mode)]

    return cx.helper(f"gs.round.{fmt.name}.{mode}", ["i32"], [bits], build)[0]


def _round_into(cx: Lanes, fmt: Format, bits: Value, mode: str) -> Value:
    b = cx.b

    def number(value: int) -> Value:
        return cx.const("i32", value)

    magnitude = b.and_(bits, number(0x7FFFFFFF))
    negative = b.icmp_signed("<", bits, number(0))
    # The exponent in the target's terms; below its least normal one, bits go that no longer fit.
    exponent = b.sub(b.lshr(magnitude, number(23)), number(F32.bias - fmt.bias))
    lost = cx.intrinsic("llvm.smax", "i32", b.sub(number(1), exponent), number(0))
    shift = cx.intrinsic("llvm.smin", "i32", b.add(lost, number(23 - fmt.mantissa)), number(25))
    implicit = cx.select(b.icmp_unsigned("<", magnitude, number(1 << 23)), number(0), number(1 << 23))
    significand = b.or_(b.and_(magnitude, number((1 << 23) - 1)), implicit)
    quotient = b.lshr(significand, shift)
    rest = b.sub(significand, b.shl(quotient, shift))
    if mode == "rn":
        twice_and_odd = b.or_(b.shl(rest, number(1)), b.and_(quotient, number(1)))
        up = b.icmp_unsigned(">", twice_and_odd, b.shl(number(1), shift))
    elif mode == "rz":
        up = cx.const("i1", 0)
    else:
        outwards = negative if mode == "rm" else b.not_(negative)
        up = b.and_(outwards, b.icmp_signed("!=", rest, number(0)))
    above_least = cx.intrinsic("llvm.smax", "i32", b.sub(exponent, number(1)), number(0))
    result = b.add(b.add(quotient, b.zext(up, cx.type("i32"))), b.shl(above_least, number(fmt.mantissa)))
    too_large = b.icmp_unsigned(">", result, number(fmt.largest))
    infinite = b.icmp_unsigned("==", magnitude, number(F32.infinity))
    limit = number(fmt.largest)
    if fmt.ieee:
        to_infinity = {"rn": cx.const("i1", 1), "rz": infinite}.get(mode)
        if to_infinity is None:
            to_infinity = b.or_(infinite, negative if mode == "rm" else b.not_(negative))
        limit = cx.select(to_infinity, number(fmt.infinity), limit)
    result = cx.select(too_large, limit, result)
    result = b.or_(result, cx.select(negative, number(fmt.sign), number(0)))
    return cx.select(b.icmp_unsigned(">", magnitude, number(F32.infinity)), number(fmt.nan), result)
