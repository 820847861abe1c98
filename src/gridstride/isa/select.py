"""Integer comparisons, and selections of every type (PTX ISA 9.7.6). Comparisons of floating-point numbers stand
with their families."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import less
from gridstride.isa.lanes import Lanes
from gridstride.isa.logic import combine
from gridstride.isa.registry import Form, operation
from gridstride.isa.types import ScalarType

# By kind of operand: types, and the comparisons it knows.
_SIGNED = ("s16", "s32", "s64"), "eq|ne|lt|le|gt|ge"
_UNSIGNED = ("u16", "u32", "u64"), "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
_UNTYPED = ("b16", "b32", "b64"), "eq|ne"
_BOOLEAN = "and|or|xor?"
_OPERATORS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
# What `set` gives for true.
_TRUE: dict[str, int] = {"u32": -1, "s32": -1, "f32": 1, "f16": 0x3C00, "bf16": 0x3F80}
_SELECTABLE = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


def _compare(cx: Lanes, form: Form, kind: ScalarType, a: ir.Value, b: ir.Value) -> ir.Value:
    return less(cx, _OPERATORS[form.one_of(*_OPERATORS)], a, b, kind.signed)


def setp(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, predicate: ir.Value | None) -> tuple[ir.Value, ir.Value]:
    """Both results always: of the comparison and of its opposite, each combined with the predicate."""
    truth = _compare(cx, form, form.type, a, b)
    return combine(cx, form, truth, predicate), combine(cx, form, cx.b.not_(truth), predicate)


def set_value(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, predicate: ir.Value | None) -> ir.Value:
    target, source = form.types
    truth = combine(cx, form, _compare(cx, form, source, a, b), predicate)
    return cx.select(truth, cx.const(target.storage, _TRUE[target.name]), cx.const(target.storage, 0))


for _types, _comparisons in (_SIGNED, _UNSIGNED, _UNTYPED):
    _modifiers = f"{_comparisons} {_BOOLEAN}"
    operation(
        "setp", types=" ".join(_types), modifiers=_modifiers, operands="pred pred? = 0 0 pred?", section="9.7.6.2", meaning=reference.setp
    )(setp)
    _pairs = " ".join(f"{target}.{source}" for target in _TRUE for source in _types)
    operation("set", types=_pairs, modifiers=_modifiers, operands="0 = 1 1 pred?", section="9.7.6.1", meaning=reference.set_value)(
        set_value
    )


@operation("selp", types=_SELECTABLE, operands="0 = 0 0 pred", section="9.7.6.3", meaning=reference.selp)
def selp(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, predicate: ir.Value) -> ir.Value:
    return cx.select(predicate, a, b)


_SLCT_S32 = " ".join(f"{t}.s32" for t in _SELECTABLE.split())
_SLCT_F32 = " ".join(f"{t}.f32" for t in _SELECTABLE.split())


@operation("slct", types=_SLCT_S32, operands="0 = 0 0 1", section="9.7.6.4", meaning=reference.slct)
def slct(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.select(cx.b.icmp_signed(">=", c, cx.const("i32", 0)), a, b)


@operation("slct", types=_SLCT_F32, modifiers="ftz?", operands="0 = 0 0 1", section="9.7.6.4", meaning=reference.slct)
def slct_f32(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Minus zero counts as zero, a NaN as negative. With ftz, so does every subnormal as zero: only numbers from
    the smallest normal one on can be negative."""
    if "ftz" in form:
        return cx.select(cx.b.fcmp_ordered(">", c, cx.const("f32", -(2.0**-126))), a, b)
    return cx.select(cx.b.fcmp_ordered(">=", c, cx.const("f32", 0.0)), a, b)
