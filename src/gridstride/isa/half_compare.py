"""Comparisons of halves: set and setp on f16, bf16 and packed pairs, and set of f32 and f64 with a half result
(PTX ISA 9.7.7 and 9.7.6.1)."""

from __future__ import annotations

from typing import Literal

from llvmlite import ir

from gridstride.isa import reference_half as reference
from gridstride.isa.half import flush
from gridstride.isa.halfmath import format_of, halves, widen
from gridstride.isa.lanes import Lanes
from gridstride.isa.logic import combine
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import flush as flush_float32

Value = ir.Value
_Symbol = Literal["==", "!=", "<", "<=", ">", ">=", "ord", "uno"]

_ORDERED: dict[str, _Symbol] = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "num": "ord"}
_UNORDERED: dict[str, _Symbol] = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">=", "nan": "uno"}
_COMPARISONS = "|".join((*_ORDERED, *_UNORDERED))
_BOOLEAN = "and|or|xor?"


def _compare_floats(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    word = form.one_of(*_ORDERED)
    if word:
        return cx.b.fcmp_ordered(_ORDERED[word], a, b)
    return cx.b.fcmp_unordered(_UNORDERED[form.one_of(*_UNORDERED)], a, b)


def _compare(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """i1 lanes from i16 lanes of the source type's halves."""
    fmt = format_of(form.types[-1].name)
    values = [flush(cx, fmt, v) if "ftz" in form else v for v in (a, b)]
    return _compare_floats(cx, form, *(widen(cx, fmt, v) for v in values))


def _parts(cx: Lanes, packed: Value) -> tuple[Value, Value]:
    low = cx.b.trunc(packed, cx.type("i16"))
    return low, cx.b.trunc(cx.b.lshr(packed, cx.const("i32", 16)), cx.type("i16"))


@operation(
    "setp",
    types="f16",
    modifiers=f"{_COMPARISONS} {_BOOLEAN} ftz?",
    operands="pred pred? = 0 0 pred?",
    section="9.7.7.2",
    meaning=reference.set_predicates,
)
@operation(
    "setp",
    types="bf16",
    modifiers=f"{_COMPARISONS} {_BOOLEAN}",
    operands="pred pred? = 0 0 pred?",
    section="9.7.7.2",
    meaning=reference.set_predicates,
)
def set_predicates(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> tuple[Value, Value]:
    condition = _compare(cx, form, a, b)
    return combine(cx, form, condition, c), combine(cx, form, cx.b.not_(condition), c)


@operation(
    "setp",
    types="f16x2",
    modifiers=f"{_COMPARISONS} {_BOOLEAN} ftz?",
    operands="pred pred = 0 0 pred?",
    section="9.7.7.2",
    meaning=reference.set_predicates,
)
@operation(
    "setp",
    types="bf16x2",
    modifiers=f"{_COMPARISONS} {_BOOLEAN}",
    operands="pred pred = 0 0 pred?",
    section="9.7.7.2",
    meaning=reference.set_predicates,
)
def set_predicates_of_pairs(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> tuple[Value, Value]:
    """The first predicate is the low half's, the second the high half's."""
    low, high = (_compare(cx, form, x, y) for x, y in zip(_parts(cx, a), _parts(cx, b), strict=True))
    return combine(cx, form, low, c), combine(cx, form, high, c)


def _chosen(cx: Lanes, form: Form, condition: Value) -> Value:
    """All ones of an integer type, 1.0 of a half."""
    target = form.type
    if target.kind in "su":
        return cx.b.sext(condition, cx.type(target.storage))
    return cx.select(condition, cx.const(target.storage, reference.ONE[target.name]), cx.const(target.storage, 0))


def set_value(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    return _chosen(cx, form, combine(cx, form, _compare(cx, form, a, b), c))


def set_value_of_floats(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    if "ftz" in form:
        a, b = flush_float32(cx, a), flush_float32(cx, b)
    return _chosen(cx, form, combine(cx, form, _compare_floats(cx, form, a, b), c))


def set_value_of_pairs(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    """In each half 1.0, or all ones where the result is an integer."""
    pairs, (x, y) = halves(cx, a, b)
    condition = _compare(pairs, form, x, y)
    element = format_of(form.type.name)
    true = -1 if form.type.kind in "su" else reference.ONE[element.name]
    if c is None:
        return cx.cast(pairs.select(condition, pairs.const("i16", true), pairs.const("i16", 0)), "i32")
    # The third operand belongs to both halves: combine the masks.
    mask = cx.cast(pairs.b.sext(condition, pairs.type("i16")), "i32")
    both = cx.b.sext(c, cx.type("i32"))
    word = form.one_of("and", "or", "xor")
    mask = {"and": cx.b.and_, "or": cx.b.or_, "xor": cx.b.xor}[word](mask, both)
    return cx.b.and_(mask, cx.const("i32", true & 0xFFFF | (true & 0xFFFF) << 16))


_PLAIN = f"{_COMPARISONS} {_BOOLEAN}"
for _types, _modifiers, _lower in (
    ("u16.f16 s16.f16 u32.f16 s32.f16 f16.f16 bf16.f16", f"{_PLAIN} ftz?", set_value),
    ("u16.bf16 s16.bf16 u32.bf16 s32.bf16 bf16.bf16", _PLAIN, set_value),
    ("f16x2.f16x2 u32.f16x2 s32.f16x2", f"{_PLAIN} ftz?", set_value_of_pairs),
    ("bf16x2.bf16x2 u32.bf16x2 s32.bf16x2", _PLAIN, set_value_of_pairs),
    ("f16.f32", f"{_PLAIN} ftz?", set_value_of_floats),
    ("bf16.f32 f16.f64 bf16.f64", _PLAIN, set_value_of_floats),
):
    operation("set", types=_types, modifiers=_modifiers, operands="0 = 1 1 pred?", section="9.7.7.1", meaning=reference.set_value)(_lower)
