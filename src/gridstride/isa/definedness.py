"""Operations on companions of registers (see `passes/track_definedness.py`): not PTX, made by that pass only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from gridstride.isa import reference_definedness as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.reference_definedness import BYTES, COMPUTED
from gridstride.isa.registry import Effect, Form, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter

_SECTION = "(definedness)"


@operation("shadow", modifiers="any", operands="b32 = b32 b32 b32", section=_SECTION, meaning=reference.any_of)
def any_of(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """All of the result is computed from undefined bytes if any argument has some."""
    some = cx.b.icmp_unsigned("!=", cx.b.or_(cx.b.or_(a, b), c), cx.const("i32", 0))
    return cx.b.select(some, cx.const("i32", COMPUTED | BYTES), cx.const("i32", 0))


@operation("shadow", modifiers="place", operands="b32 = b32 imm imm", section=_SECTION, meaning=reference.place)
def place(cx: Lanes, form: Form, a: ir.Value, start: int, count: int) -> ir.Value:
    """The lowest `count` bytes of a piece, put at byte `start`."""
    low = cx.b.and_(a, cx.const("i32", (1 << count) - 1))
    moved = cx.b.and_(cx.b.shl(low, cx.const("i32", start)), cx.const("i32", BYTES))
    return _computed_too(cx, moved, a)


@operation("shadow", modifiers="take", operands="b32 = b32 imm imm", section=_SECTION, meaning=reference.take)
def take(cx: Lanes, form: Form, a: ir.Value, start: int, count: int) -> ir.Value:
    """`count` bytes from byte `start` on."""
    moved = cx.b.and_(cx.b.lshr(cx.b.and_(a, cx.const("i32", BYTES)), cx.const("i32", start)), cx.const("i32", (1 << count) - 1))
    return _computed_too(cx, moved, a)


@operation("shadow", modifiers="keep", operands="b32 = b32 imm", section=_SECTION, meaning=reference.keep)
def keep(cx: Lanes, form: Form, a: ir.Value, kept: int) -> ir.Value:
    """The bytes that a constant mask lets through."""
    return _computed_too(cx, cx.b.and_(a, cx.const("i32", kept & BYTES)), a)


@operation("shadow", modifiers="permute", operands="b32 = b32 b32 imm", section=_SECTION, meaning=reference.permute)
def permute(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, selector: int) -> ir.Value:
    """prmt with a constant selector."""
    joined = cx.b.or_(cx.b.and_(a, cx.const("i32", 15)), cx.b.shl(cx.b.and_(b, cx.const("i32", 15)), cx.const("i32", 4)))
    total: ir.Value = cx.const("i32", 0)
    for k in range(4):
        bit = cx.b.and_(cx.b.lshr(joined, cx.const("i32", selector >> 4 * k & 7)), cx.const("i32", 1))
        total = cx.b.or_(total, cx.b.shl(bit, cx.const("i32", k)))
    return _computed_too(cx, total, cx.b.or_(a, b))


def _computed_too(cx: Lanes, taken: ir.Value, source: ir.Value) -> ir.Value:
    """The bytes taken, computed if their source was; where all of them are defined nothing is left of that."""
    some = cx.b.icmp_unsigned("!=", taken, cx.const("i32", 0))
    return cx.b.or_(taken, cx.b.select(some, cx.b.and_(source, cx.const("i32", COMPUTED)), cx.const("i32", 0)))


def _logic(cx: Lanes, a_shadow: ir.Value, b_shadow: ir.Value, a: ir.Value, b: ir.Value, decisive: int) -> ir.Value:
    """A predicate that one defined argument decides is defined, whatever the other is."""
    zero, builder = cx.const("i32", 0), cx.b
    a_bad, b_bad = builder.icmp_unsigned("!=", a_shadow, zero), builder.icmp_unsigned("!=", b_shadow, zero)
    open_a, open_b = (builder.xor(v, cx.const("i1", decisive)) for v in (a, b))
    bad = builder.or_(builder.and_(a_bad, b_bad), builder.or_(builder.and_(a_bad, open_b), builder.and_(b_bad, open_a)))
    return builder.select(bad, cx.const("i32", COMPUTED | BYTES), zero)


@operation("shadow", modifiers="and", operands="b32 = b32 b32 pred pred", section=_SECTION, meaning=reference.logic_and)
def logic_and(cx: Lanes, form: Form, a_shadow: ir.Value, b_shadow: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return _logic(cx, a_shadow, b_shadow, a, b, 0)


@operation("shadow", modifiers="or", operands="b32 = b32 b32 pred pred", section=_SECTION, meaning=reference.logic_or)
def logic_or(cx: Lanes, form: Form, a_shadow: ir.Value, b_shadow: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return _logic(cx, a_shadow, b_shadow, a, b, 1)


def _memory(e: Emitter, op: Op) -> None:
    from gridstride.lower import definedness

    definedness.lower(e, op)


operation("shadow", modifiers="load", operands="b32 = u64", section=_SECTION, effects=Effect.READS_MEMORY)(_memory)
operation("shadow", modifiers="store", operands="= u64 b32", section=_SECTION, effects=Effect.WRITES_MEMORY)(_memory)
operation("shadow", modifiers="update", operands="= u64 b32", section=_SECTION, effects=Effect.WRITES_MEMORY)(_memory)
operation("shadow", modifiers="check", operands="= b32", section=_SECTION, effects=Effect.READS_MEMORY)(_memory)
