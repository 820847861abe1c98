"""Approximate functions of halves: ex2 and tanh on f16, bf16 and packed pairs (PTX ISA 9.7.4.9, 9.7.4.10).

Computed in float32 to a few units of its last place and rounded to nearest, which is well within what PTX allows:
ex2 relative 2**-9.9 (f16) and 2**-7 (bf16), tanh absolute 2**-10.987 (f16) and 2**-8 (bf16). An H200 truncates
a coarser result instead, so its last bit often differs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from gridstride.isa import reference_half as reference
from gridstride.isa.float_formats import Format
from gridstride.isa.half import elementwise
from gridstride.isa.halfmath import narrow, widen
from gridstride.isa.registry import Form, operation
from gridstride.lower.lanes import Lanes

Value = ir.Value

# 2**f on [-1/2, 1/2] by Taylor's series, to 2e-8.
_EXPONENTIAL = [math.log(2) ** k / math.factorial(k) for k in range(7)]
# tanh(x) / x in x*x below 1/4, by Taylor's series, to 4e-8.
_TANGENT = [1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925]
_SMALL = 0.25


def _polynomial(cx: Lanes, coefficients: Sequence[float], x: Value) -> Value:
    """By Horner's rule; the coefficients from the constant on."""
    total: Value = cx.const("f32", coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = cx.intrinsic("llvm.fma", "f32", total, x, cx.const("f32", coefficient))
    return total


def _power_of_two(cx: Lanes, exponent: Value) -> Value:
    """2.0**exponent from i32 lanes between -126 and 127."""
    biased = cx.b.add(exponent, cx.const("i32", 127))
    return cx.cast(cx.b.shl(biased, cx.const("i32", 23)), "f32")


def _exponential(cx: Lanes, x: Value) -> Value:
    """2**x for f32; infinities as the limits, NaN as anything."""
    b = cx.b
    # Beyond these bounds every half result is zero or infinity already.
    x = cx.select(b.fcmp_ordered("<", x, cx.const("f32", 200.0)), x, cx.const("f32", 200.0))
    x = cx.select(b.fcmp_ordered(">", x, cx.const("f32", -200.0)), x, cx.const("f32", -200.0))
    whole = cx.intrinsic("llvm.roundeven", "f32", x)
    exponent = b.fptosi(whole, cx.type("i32"))
    first = b.ashr(exponent, cx.const("i32", 1))
    value = _polynomial(cx, _EXPONENTIAL, b.fsub(x, whole))
    # Two steps: one factor cannot hold the exponents of the smallest and largest results.
    return b.fmul(b.fmul(value, _power_of_two(cx, first)), _power_of_two(cx, b.sub(exponent, first)))


def _ex2(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    b = cx.b
    x = widen(cx, fmt, values[0])
    result = _exponential(cx, x)
    if "ftz" in form:  # of inputs it makes no difference: the result is 1
        least = cx.const("f32", math.ldexp(1.0, 1 - fmt.bias))
        result = cx.select(b.fcmp_ordered("<", result, least), cx.const("f32", 0.0), result)
    nan = b.fcmp_unordered("uno", x, x)
    return cx.select(nan, cx.const("i16", fmt.nan), narrow(cx, fmt, result))


def _tanh(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    b = cx.b
    x = widen(cx, fmt, values[0])
    magnitude = cx.intrinsic("llvm.fabs", "f32", x)
    one = cx.const("f32", 1.0)
    decay = _exponential(cx, b.fmul(magnitude, cx.const("f32", -2 / math.log(2))))
    large = b.fdiv(b.fsub(one, decay), b.fadd(one, decay))
    small = b.fmul(magnitude, _polynomial(cx, _TANGENT, b.fmul(magnitude, magnitude)))
    result = cx.select(b.fcmp_ordered("<", magnitude, cx.const("f32", _SMALL)), small, large)
    result = cx.intrinsic("llvm.copysign", "f32", result, x)
    nan = b.fcmp_unordered("uno", x, x)
    return cx.select(nan, cx.const("i16", fmt.nan), narrow(cx, fmt, result))


@operation("ex2", types="f16 f16x2", modifiers="approx", operands="0 = 0", section="9.7.4.10", meaning=reference.exponential)
@operation("ex2", types="bf16 bf16x2", modifiers="approx ftz", operands="0 = 0", section="9.7.4.10", meaning=reference.exponential)
def ex2(cx: Lanes, form: Form, a: Value) -> Value:
    return elementwise(cx, form, _ex2, a, outlined=True)


@operation(
    "tanh", types="f16 f16x2 bf16 bf16x2", modifiers="approx", operands="0 = 0", section="9.7.4.9", meaning=reference.hyperbolic_tangent
)
def tanh(cx: Lanes, form: Form, a: Value) -> Value:
    return elementwise(cx, form, _tanh, a, outlined=True)
