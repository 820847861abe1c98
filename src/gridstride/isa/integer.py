"""Integer sums, differences, extrema and distances (PTX ISA 9.7.1)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import SIGNED_WORDS, WORDS, distance, element_shape, largest, pack, smallest, unpack
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation

Elementwise = Callable[[Lanes, str, list[ir.Value]], ir.Value]


def _elementwise(cx: Lanes, form: Form, operands: list[ir.Value], build: Elementwise) -> ir.Value:
    """Apply `build` to whole operands, or to the halves of a ….x2 type."""
    shape, name = element_shape(cx, form.type)
    if shape is cx:
        return build(cx, name, operands)
    return pack(cx, build(shape, name, [unpack(cx, operand, 16) for operand in operands]))


def _saturating(form: Form, verb: str) -> str:
    return f"llvm.{'s' if form.type.signed else 'u'}{verb}.sat"


@operation("add", types=f"{WORDS} u16x2 s16x2", operands="0 = 0 0", section="9.7.1.1", meaning=reference.add)
def add(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return _elementwise(cx, form, [a, b], lambda shape, name, ab: shape.b.add(ab[0], ab[1]))


@operation("add", types="s32 u32 u16x2 s16x2", modifiers="sat", operands="0 = 0 0", section="9.7.1.1", meaning=reference.add)
def add_saturating(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return _elementwise(cx, form, [a, b], lambda shape, name, ab: shape.intrinsic(_saturating(form, "add"), name, *ab))


@operation("sub", types=WORDS, operands="0 = 0 0", section="9.7.1.2", meaning=reference.sub)
def sub(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return cx.b.sub(a, b)


@operation("sub", types="s32", modifiers="sat", operands="0 = 0 0", section="9.7.1.2", meaning=reference.sub)
def sub_saturating(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return cx.intrinsic(_saturating(form, "sub"), form.type.storage, a, b)


@operation("abs", types=SIGNED_WORDS, operands="0 = 0", section="9.7.1.10", meaning=reference.absolute)
def absolute(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return largest(cx, a, cx.b.neg(a), True, form.type.storage)


@operation("neg", types=SIGNED_WORDS, operands="0 = 0", section="9.7.1.11", meaning=reference.neg)
def neg(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return cx.b.sub(cx.const(form.type.storage, 0), a)


@operation("min", types=f"{WORDS} u16x2 s16x2", operands="0 = 0 0", section="9.7.1.12", meaning=reference.minimum)
@operation("min", types="s32 s16x2", modifiers="relu", operands="0 = 0 0", section="9.7.1.12", meaning=reference.minimum)
def minimum(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    def build(shape: Lanes, name: str, ab: list[ir.Value]) -> ir.Value:
        return _relu(shape, form, name, smallest(shape, ab[0], ab[1], form.type.signed, name))

    return _elementwise(cx, form, [a, b], build)


@operation("max", types=f"{WORDS} u16x2 s16x2", operands="0 = 0 0", section="9.7.1.13", meaning=reference.maximum)
@operation("max", types="s32 s16x2", modifiers="relu", operands="0 = 0 0", section="9.7.1.13", meaning=reference.maximum)
def maximum(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    def build(shape: Lanes, name: str, ab: list[ir.Value]) -> ir.Value:
        return _relu(shape, form, name, largest(shape, ab[0], ab[1], form.type.signed, name))

    return _elementwise(cx, form, [a, b], build)


def _relu(shape: Lanes, form: Form, name: str, value: ir.Value) -> ir.Value:
    return largest(shape, value, shape.const(name, 0), True, name) if "relu" in form else value


@operation("sad", types=WORDS, operands="0 = 0 0 0", section="9.7.1.7", meaning=reference.sad)
def sad(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.b.add(c, distance(cx, a, b, form.type.signed, form.type.storage))
