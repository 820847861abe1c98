"""PTX f64 arithmetic (PTX ISA 9.7.3). Unlike f32, a NaN operand's payload passes through, made quiet."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_float as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import ROUNDINGS, is_nan, rounded

Value = ir.Value


def _arithmetic(cx: Lanes, form: Form, name: str, *operands: Value) -> Value:
    return rounded(cx, name, form.one_of(*ROUNDINGS, default="rn"), "f64", operands)


@operation("add", types="f64", modifiers="rn|rz|rm|rp?", operands="0 = 0 0", section="9.7.3.3", meaning=reference.arithmetic)
@operation("sub", types="f64", modifiers="rn|rz|rm|rp?", operands="0 = 0 0", section="9.7.3.4", meaning=reference.arithmetic)
@operation("mul", types="f64", modifiers="rn|rz|rm|rp?", operands="0 = 0 0", section="9.7.3.5", meaning=reference.arithmetic)
@operation("fma", types="f64", modifiers="rn|rz|rm|rp", operands="0 = 0 0 0", section="9.7.3.6", meaning=reference.arithmetic)
@operation("div", types="f64", modifiers="rn|rz|rm|rp", operands="0 = 0 0", section="9.7.3.8", meaning=reference.arithmetic)
@operation("sqrt", types="f64", modifiers="rn|rz|rm|rp", operands="0 = 0", section="9.7.3.15", meaning=reference.arithmetic)
def arithmetic(cx: Lanes, form: Form, *operands: Value) -> Value:
    return _arithmetic(cx, form, form.operation.opcode, *operands)


@operation("mad", types="f64", modifiers="rn|rz|rm|rp", operands="0 = 0 0 0", section="9.7.3.7", meaning=reference.arithmetic)
def mad(cx: Lanes, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Since sm_13 the same as fma."""
    return _arithmetic(cx, form, "fma", a, b, c)


@operation("rcp", types="f64", modifiers="rn|rz|rm|rp", operands="0 = 0", section="9.7.3.13", meaning=reference.arithmetic)
def reciprocal(cx: Lanes, form: Form, a: Value) -> Value:
    return _arithmetic(cx, form, "div", cx.const("f64", 1.0), a)


def _keep_nan(cx: Lanes, operand: Value, result: Value) -> Value:
    """`result`, but where `operand` is NaN that NaN made quiet, its sign kept."""
    return cx.select(is_nan(cx, operand), cx.b.fadd(operand, operand), result)


@operation("abs", types="f64", operands="0 = 0", section="9.7.3.9", meaning=reference.absolute)
def absolute(cx: Lanes, form: Form, a: Value) -> Value:
    return _keep_nan(cx, a, cx.intrinsic("llvm.fabs", "f64", a))


@operation("neg", types="f64", operands="0 = 0", section="9.7.3.10", meaning=reference.negative)
def negative(cx: Lanes, form: Form, a: Value) -> Value:
    return _keep_nan(cx, a, cx.b.fneg(a))


@operation("min", types="f64", operands="0 = 0 0", section="9.7.3.11", meaning=reference.extremum)
@operation("max", types="f64", operands="0 = 0 0", section="9.7.3.12", meaning=reference.extremum)
def extremum(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """A NaN operand loses to a number; of two NaN the second stays, made quiet. -0 is less than +0."""
    result = cx.intrinsic(f"llvm.{form.operation.opcode}imumnum", "f64", a, b)
    return cx.select(is_nan(cx, result), cx.b.fadd(b, b), result)


@operation("copysign", types="f64", operands="0 = 0 0", section="9.7.3.2", meaning=reference.copysign)
def copysign(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """The sign of `a` on `b`. Only bits are moved: NaN payloads stay as they are."""
    sign = cx.b.and_(cx.cast(a, "i64"), cx.const("i64", 1 << 63))
    magnitude = cx.b.and_(cx.cast(b, "i64"), cx.const("i64", (1 << 63) - 1))
    return cx.cast(cx.b.or_(sign, magnitude), "f64")
