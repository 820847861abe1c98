"""PTX approximate instructions (PTX ISA 9.7.3): what the compiler makes of each around the special-function unit.

The steps are those of the machine code that ptxas makes for sm_90, so that results have the hardware's bits.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_approximate as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import flush, rounded, rounded_flushed
from gridstride.isa.special_unit import special

Value = ir.Value

LEAST_NORMAL = 2.0**-126
REVOLUTION = float.fromhex("0x1.45f306p-3")  # 1 / (2 pi) in f32


def _magnitude(cx: Lanes, x: Value) -> Value:
    return cx.intrinsic("llvm.fabs", "f32", x)


def _scaled_where(cx: Lanes, condition: Value, factor: float, *values: Value) -> list[Value]:
    scale = cx.select(condition, cx.const("f32", factor), cx.const("f32", 1.0))
    return [cx.b.fmul(value, scale) for value in values]


def _subnormal(cx: Lanes, x: Value) -> Value:
    return cx.b.fcmp_ordered("<", _magnitude(cx, x), cx.const("f32", LEAST_NORMAL))


def _huge(cx: Lanes, x: Value) -> Value:
    return cx.b.fcmp_ordered(">", _magnitude(cx, x), cx.const("f32", 2.0**126))


# What a subnormal operand is multiplied by before the unit sees it, and the result by after.
_RESCALING = {"rsqrt": (2.0**24, 2.0**12), "sqrt": (2.0**24, 2.0**-12)}


@operation("rcp", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.13", dirty_nan=True, meaning=reference.unary)
def rcp(cx: Lanes, form: Form, x: Value) -> Value:
    if "ftz" in form:
        return special(cx, "rcp", x)
    scale = cx.select(_subnormal(cx, x), cx.const("f32", 2.0**24), cx.const("f32", 1.0))
    scale = cx.select(_huge(cx, x), cx.const("f32", 0.25), scale)
    return cx.b.fmul(scale, special(cx, "rcp", cx.b.fmul(x, scale)))


@operation("rsqrt", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.16", dirty_nan=True, meaning=reference.unary)
@operation("sqrt", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.15", dirty_nan=True, meaning=reference.unary)
def roots(cx: Lanes, form: Form, x: Value) -> Value:
    name = form.operation.opcode
    if "ftz" in form:
        return special(cx, name, x)
    before, after = _RESCALING[name]
    small = _subnormal(cx, x)
    (x,) = _scaled_where(cx, small, before, x)
    (result,) = _scaled_where(cx, small, after, special(cx, name, x))
    return result


@operation("ex2", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.21", dirty_nan=True, meaning=reference.unary)
def ex2(cx: Lanes, form: Form, x: Value) -> Value:
    """Without `.ftz`, a result too small for the unit is made as the square of that of half the operand."""
    if "ftz" in form:
        return special(cx, "ex2", x)
    small = cx.b.fcmp_ordered("<", x, cx.const("f32", -126.0))
    (x,) = _scaled_where(cx, small, 0.5, x)
    result = special(cx, "ex2", x)
    return cx.select(small, cx.b.fmul(result, result), result)


@operation("lg2", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.20", dirty_nan=True, meaning=reference.unary)
def lg2(cx: Lanes, form: Form, x: Value) -> Value:
    if "ftz" in form:
        return special(cx, "lg2", x)
    small = _subnormal(cx, x)
    (x,) = _scaled_where(cx, small, 2.0**24, x)
    result = special(cx, "lg2", x)
    return cx.select(small, cx.b.fadd(result, cx.const("f32", -24.0)), result)


@operation("sin", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.18", dirty_nan=True, meaning=reference.unary)
@operation("cos", types="f32", modifiers="approx ftz?", operands="0 = 0", section="9.7.3.19", dirty_nan=True, meaning=reference.unary)
def waves(cx: Lanes, form: Form, x: Value) -> Value:
    """The angle is turned into revolutions first, rounded to zero."""
    if "ftz" in form:
        x = flush(cx, x)
    turns = rounded(cx, "mul", "rz", "f32", [x, cx.const("f32", REVOLUTION)])
    return special(cx, form.operation.opcode, turns)


@operation("tanh", types="f32", modifiers="approx", operands="0 = 0", section="9.7.3.22", dirty_nan=True, meaning=reference.unary)
def tanh(cx: Lanes, form: Form, x: Value) -> Value:
    return special(cx, "tanh", x)


@operation(
    "div", types="f32", modifiers="approx|full ftz?", operands="0 = 0 0", section="9.7.3.8", dirty_nan=True, meaning=reference.divide
)
def divide(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """The dividend times the divisor's reciprocal. `.full` covers divisors beyond 2**126 too."""
    ftz = "ftz" in form
    if ftz:
        a, b = flush(cx, a), flush(cx, b)
    if "full" in form:
        b_and_a = _scaled_where(cx, _huge(cx, b), 0.25, b, a)
        b, a = [flush(cx, v) for v in b_and_a] if ftz else b_and_a
    if not ftz:
        b, a = _scaled_where(cx, _subnormal(cx, b), 2.0**24, b, a)
    inverse = special(cx, "rcp", b)
    return rounded_flushed(cx, "mul", "rn", [a, inverse]) if ftz else cx.b.fmul(a, inverse)
