"""PTX f32 arithmetic (PTX ISA 9.7.3): sums, products, quotients, roots in every rounding mode, minimum and maximum.

No function here makes a NaN canonical: `dirty_nan` leaves that to the emitter.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.isa import reference_float as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import ROUNDINGS, flush, is_nan, rounded, rounded_flushed, saturate

Value = ir.Value
_Lowering = Callable[..., Value]


def _flushed(cx: Lanes, form: Form, *values: Value) -> list[Value]:
    return [flush(cx, value) for value in values] if "ftz" in form else list(values)


def _arithmetic(cx: Lanes, form: Form, name: str, *operands: Value) -> Value:
    """Round `name` of the operands as the form's modifiers say."""
    mode = form.one_of(*ROUNDINGS, default="rn")
    result = rounded_flushed(cx, name, mode, operands) if "ftz" in form else rounded(cx, name, mode, "f32", operands)
    return saturate(cx, result) if "sat" in form else result


def _entry(opcode: str, operands: str, section: str, modifiers: str = "rn|rz|rm|rp? ftz? sat?") -> Callable[[_Lowering], _Lowering]:
    return operation(
        opcode, types="f32", modifiers=modifiers, operands=operands, section=section, dirty_nan=True, meaning=reference.arithmetic
    )


@_entry("add", "0 = 0 0", "9.7.3.3")
@_entry("sub", "0 = 0 0", "9.7.3.4")
@_entry("mul", "0 = 0 0", "9.7.3.5")
@_entry("fma", "0 = 0 0 0", "9.7.3.6", "rn|rz|rm|rp ftz? sat?")
@_entry("div", "0 = 0 0", "9.7.3.8", "rn|rz|rm|rp ftz?")
@_entry("sqrt", "0 = 0", "9.7.3.15", "rn|rz|rm|rp ftz?")
def arithmetic(cx: Lanes, form: Form, *operands: Value) -> Value:
    return _arithmetic(cx, form, form.operation.opcode, *operands)


@_entry("mad", "0 = 0 0 0", "9.7.3.7")
def mad(cx: Lanes, form: Form, a: Value, b: Value, c: Value) -> Value:
    """Since sm_20 the same as fma."""
    return _arithmetic(cx, form, "fma", a, b, c)


@_entry("rcp", "0 = 0", "9.7.3.13", "rn|rz|rm|rp ftz?")
def reciprocal(cx: Lanes, form: Form, a: Value) -> Value:
    return _arithmetic(cx, form, "div", cx.const("f32", 1.0), a)


@operation("abs", types="f32", modifiers="ftz?", operands="0 = 0", section="9.7.3.9", dirty_nan=True, meaning=reference.absolute)
def absolute(cx: Lanes, form: Form, a: Value) -> Value:
    (a,) = _flushed(cx, form, a)
    return cx.intrinsic("llvm.fabs", "f32", a)


@operation("neg", types="f32", modifiers="ftz?", operands="0 = 0", section="9.7.3.10", dirty_nan=True, meaning=reference.negative)
def negative(cx: Lanes, form: Form, a: Value) -> Value:
    (a,) = _flushed(cx, form, a)
    return cx.b.fneg(a)


@operation(
    "min",
    types="f32",
    modifiers="ftz? NaN? xorsign? abs?",
    operands="0 = 0 0 0?",
    section="9.7.3.11",
    dirty_nan=True,
    meaning=reference.extremum,
)
@operation(
    "max",
    types="f32",
    modifiers="ftz? NaN? xorsign? abs?",
    operands="0 = 0 0 0?",
    section="9.7.3.12",
    dirty_nan=True,
    meaning=reference.extremum,
)
def extremum(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    """-0 is less than +0. Without `.NaN` a NaN operand loses to a number. `.xorsign.abs` gives the extremum of the
    magnitudes the sign of the operands' product, even where one of them is NaN."""
    operands = _flushed(cx, form, *(operand for operand in (a, b, c) if operand is not None))
    magnitudes = [cx.intrinsic("llvm.fabs", "f32", operand) for operand in operands] if "abs" in form else operands
    name = f"llvm.{form.operation.opcode}imum{'' if 'NaN' in form else 'num'}"
    result: Value = magnitudes[0]
    for other in magnitudes[1:]:
        result = cx.intrinsic(name, "f32", result, other)
    if "xorsign" not in form:
        return result
    sign = cx.b.xor(cx.cast(operands[0], "i32"), cx.cast(operands[1], "i32"))
    return cx.intrinsic("llvm.copysign", "f32", result, cx.cast(sign, "f32"))


@operation("copysign", types="f32", operands="0 = 0 0", section="9.7.3.2", meaning=reference.copysign)
def copysign(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """The sign of `a` on `b`. Only bits are moved: NaN payloads stay as they are."""
    sign = cx.b.and_(cx.cast(a, "i32"), cx.const("i32", 0x80000000))
    magnitude = cx.b.and_(cx.cast(b, "i32"), cx.const("i32", 0x7FFFFFFF))
    return cx.cast(cx.b.or_(sign, magnitude), "f32")


def _in_halves(cx: Lanes, apply: Callable[..., Value], *packed: Value) -> Value:
    """Apply an f32 operation to both halves of packed registers; NaN results are made canonical here, since
    `dirty_nan` speaks of f32 results only."""
    b = cx.b
    result: Value = cx.const("i64", 0)
    for shift in (0, 32):
        operands = [cx.cast(b.trunc(b.lshr(p, cx.const("i64", shift)), cx.type("i32")), "f32") for p in packed]
        half = apply(*operands)
        bits = cx.select(is_nan(cx, half), cx.const("i32", 0x7FFFFFFF), cx.cast(half, "i32"))
        result = b.or_(result, b.shl(b.zext(bits, cx.type("i64")), cx.const("i64", shift)))
    return result


@operation("add", types="f32x2", modifiers="rn|rz|rm|rp? ftz?", operands="0 = 0 0", section="9.7.3.3", meaning=reference.packed_arithmetic)
@operation("sub", types="f32x2", modifiers="rn|rz|rm|rp? ftz?", operands="0 = 0 0", section="9.7.3.4", meaning=reference.packed_arithmetic)
@operation("mul", types="f32x2", modifiers="rn|rz|rm|rp? ftz?", operands="0 = 0 0", section="9.7.3.5", meaning=reference.packed_arithmetic)
@operation("fma", types="f32x2", modifiers="rn|rz|rm|rp ftz?", operands="0 = 0 0 0", section="9.7.3.6", meaning=reference.packed_arithmetic)
def packed_arithmetic(cx: Lanes, form: Form, *operands: Value) -> Value:
    return _in_halves(cx, lambda *halves: _arithmetic(cx, form, form.operation.opcode, *halves), *operands)
