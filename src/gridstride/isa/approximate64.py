"""PTX approximate instructions on f64 (PTX ISA 9.7.3.14, 9.7.3.16, 9.7.3.17).

The special-function unit reads and makes the upper halves only; rsqrt without `.ftz` improves on that.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gridstride.isa import reference_approximate as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import is_nan
from gridstride.isa.special_unit import CANONICAL_NAN, SIGN, interpolate

Value = ir.Value


def special_high(cx: Lanes, function: str, high: Value) -> Value:
    """`function` (rcp, rsqrt) of the f64 numbers whose upper halves are `high` (i32): the result's upper half, 20
    bits of fraction from the same tables. The lower halves are neither read nor made."""

    def body(inner: Lanes, parameters: Sequence[Value]) -> Sequence[Value]:
        return [_special_high(inner, function, parameters[0])]

    return cx.helper(f"gs.special64.{function}", ["i32"], [high], body)[0]


def _special_high(cx: Lanes, function: str, high: Value) -> Value:
    b = cx.b
    infinity, nan = cx.const("i32", 0x7FF00000), cx.const("i32", CANONICAL_NAN)
    sign = b.and_(high, cx.const("i32", SIGN))
    magnitude = b.and_(high, cx.const("i32", SIGN - 1))
    exponent = b.lshr(magnitude, cx.const("i32", 20))
    fraction = b.and_(high, cx.const("i32", 0xFFFFF))
    if function == "rcp":
        low = b.shl(b.and_(fraction, cx.const("i32", 0x1FFF)), cx.const("i32", 4))
        total = interpolate(cx, "rcp", b.lshr(fraction, cx.const("i32", 13)), low)
        biased = b.sub(cx.const("i32", 2045), exponent)
    else:
        unbiased = b.sub(exponent, cx.const("i32", 1023))
        odd = b.shl(b.and_(unbiased, cx.const("i32", 1)), cx.const("i32", 6))
        segment = b.or_(odd, b.lshr(fraction, cx.const("i32", 14)))
        low = b.shl(b.and_(fraction, cx.const("i32", 0x3FFF)), cx.const("i32", 3))
        total = interpolate(cx, "rsqrt", segment, low)
        power_of_four = b.icmp_unsigned("==", b.or_(segment, low), cx.const("i32", 0))
        total = cx.select(power_of_four, cx.const("i64", 1 << 41), total)
        biased = b.sub(cx.const("i32", 1022), b.ashr(unbiased, cx.const("i32", 1)))
    significand = b.trunc(b.lshr(total, cx.const("i64", 20)), cx.type("i32"))
    result = b.add(b.shl(biased, cx.const("i32", 20)), b.sub(significand, cx.const("i32", 1 << 20)))
    zero = b.icmp_signed("<", result, cx.const("i32", 1 << 20))
    zero = b.or_(zero, b.icmp_unsigned(">=", magnitude, infinity))
    result = cx.select(zero, cx.const("i32", 0), result)
    tiny = b.icmp_unsigned("==", exponent, cx.const("i32", 0))
    result = b.or_(sign, cx.select(tiny, infinity, result))
    invalid = b.icmp_unsigned(">", magnitude, infinity)
    if function == "rsqrt":
        invalid = b.or_(invalid, b.and_(b.icmp_signed("<", high, cx.const("i32", 0)), b.not_(tiny)))
    return cx.select(invalid, nan, result)


def _by_high_half(cx: Lanes, function: str, x: Value) -> Value:
    b = cx.b
    high = b.trunc(b.lshr(cx.cast(x, "i64"), cx.const("i64", 32)), cx.type("i32"))
    result = b.zext(special_high(cx, function, high), cx.type("i64"))
    return cx.cast(b.shl(result, cx.const("i64", 32)), "f64")


@operation("rcp", types="f64", modifiers="approx ftz", operands="0 = 0", section="9.7.3.14", meaning=reference.high_half)
@operation("rsqrt", types="f64", modifiers="approx ftz", operands="0 = 0", section="9.7.3.17", meaning=reference.high_half)
def high_half(cx: Lanes, form: Form, x: Value) -> Value:
    """Only the upper half of the operand is read; the lower half of the result is zero."""
    return _by_high_half(cx, form.operation.opcode, x)


@operation("rsqrt", types="f64", modifiers="approx", operands="0 = 0", section="9.7.3.16", meaning=reference.rsqrt_f64)
def rsqrt_f64(cx: Lanes, form: Form, x: Value) -> Value:
    return cx.helper("gs.rsqrt.approx.f64", ["f64"], [x], _build_rsqrt_f64)[0]


def _build_rsqrt_f64(cx: Lanes, parameters: Sequence[Value]) -> Sequence[Value]:
    """One step of Halley's iteration from the unit's 20 bits."""
    b, x = cx.b, parameters[0]
    zero, one = cx.const("f64", 0.0), cx.const("f64", 1.0)
    subnormal = b.fcmp_ordered("<", x, cx.const("f64", 2.0**-1022))
    scaled = b.fmul(x, cx.select(subnormal, cx.const("f64", 2.0**54), one))
    guess = _by_high_half(cx, "rsqrt", scaled)
    error = cx.intrinsic("llvm.fma", "f64", scaled, b.fneg(b.fmul(guess, guess)), one)
    factor = cx.intrinsic("llvm.fma", "f64", error, cx.const("f64", 0.375), cx.const("f64", 0.5))
    result = cx.intrinsic("llvm.fma", "f64", factor, b.fmul(guess, error), guess)
    result = b.fmul(result, cx.select(subnormal, cx.const("f64", 2.0**27), one))
    infinity = cx.const("f64", float("inf"))
    bits = cx.cast(x, "i64")
    result = cx.select(b.fcmp_ordered("==", x, infinity), zero, result)
    signed_infinity = cx.cast(b.or_(bits, cx.const("i64", 0x7FF << 52)), "f64")
    result = cx.select(b.fcmp_ordered("==", x, zero), signed_infinity, result)
    result = cx.select(b.fcmp_ordered("<", x, zero), cx.cast(cx.const("i64", 0xFFF8 << 48), "f64"), result)
    return [cx.select(is_nan(cx, x), b.fadd(x, x), result)]
