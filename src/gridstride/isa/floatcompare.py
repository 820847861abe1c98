"""PTX comparisons of floating-point numbers (PTX ISA 9.7.6) and tests of a number's class (9.7.3.1)."""

from __future__ import annotations

from typing import Literal

from llvmlite import ir

from gridstride.isa import reference_float as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import flush

Value = ir.Value

_Symbol = Literal["==", "!=", "<", "<=", ">", ">=", "ord", "uno"]
_SYMBOLS: dict[str, _Symbol] = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# PTX's comparison operators: (LLVM's, whether NaN makes it true).
_COMPARISON: dict[str, tuple[_Symbol, bool]] = {
    **{name: (symbol, False) for name, symbol in _SYMBOLS.items()},
    **{f"{name}u": (symbol, True) for name, symbol in _SYMBOLS.items()},
    "num": ("ord", False),
    "nan": ("uno", True),
}
_COMPARISONS = "|".join(_COMPARISON)
_BOOLEANS = "and|or|xor?"


def _compare(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    if "ftz" in form:
        a, b = flush(cx, a), flush(cx, b)
    symbol, unordered = _COMPARISON[form.one_of(*_COMPARISON)]
    compare = cx.b.fcmp_unordered if unordered else cx.b.fcmp_ordered
    return compare(symbol, a, b)


def _combine(cx: Lanes, form: Form, outcome: Value, other: Value | None) -> Value:
    """The boolean operator of the form applied to a comparison's outcome and the third operand."""
    if other is None:
        return outcome
    combine = {"and": cx.b.and_, "or": cx.b.or_, "xor": cx.b.xor}
    return combine[form.one_of(*combine)](outcome, other)


@operation(
    "setp",
    types="f32",
    modifiers=f"{_COMPARISONS} {_BOOLEANS} ftz?",
    operands="pred pred = 0 0 pred?",
    section="9.7.6.2",
    meaning=reference.setp,
)
@operation(
    "setp",
    types="f64",
    modifiers=f"{_COMPARISONS} {_BOOLEANS}",
    operands="pred pred = 0 0 pred?",
    section="9.7.6.2",
    meaning=reference.setp,
)
def setp(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> tuple[Value, Value]:
    outcome = _compare(cx, form, a, b)
    return _combine(cx, form, outcome, c), _combine(cx, form, cx.b.not_(outcome), c)


@operation(
    "set",
    types="u32.f32 s32.f32 f32.f32",
    modifiers=f"{_COMPARISONS} {_BOOLEANS} ftz?",
    operands="0 = 1 1 pred?",
    section="9.7.6.1",
    meaning=reference.set_,
)
@operation(
    "set",
    types="u32.f64 s32.f64 f32.f64",
    modifiers=f"{_COMPARISONS} {_BOOLEANS}",
    operands="0 = 1 1 pred?",
    section="9.7.6.1",
    meaning=reference.set_,
)
def set_(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    """True is all ones in an integer, 1.0 in an f32."""
    outcome = _combine(cx, form, _compare(cx, form, a, b), c)
    if form.type.kind == "f":
        return cx.select(outcome, cx.const("f32", 1.0), cx.const("f32", 0.0))
    return cx.b.sext(outcome, cx.type("i32"))


@operation(
    "testp",
    types="f32 f64",
    modifiers="finite|infinite|number|notanumber|normal|subnormal",
    operands="pred = 0",
    section="9.7.3.1",
    meaning=reference.testp,
)
def testp(cx: Lanes, form: Form, a: Value) -> Value:
    """By the magnitude's bits, which grow with the magnitude. Zero counts as normal."""
    kind, fraction_bits = (f"i{form.type.bits}", 23 if form.type.bits == 32 else 52)
    infinity = ((1 << (form.type.bits - 1 - fraction_bits)) - 1) << fraction_bits
    magnitude = cx.b.and_(cx.cast(a, kind), cx.const(kind, (1 << (form.type.bits - 1)) - 1))

    def below(limit: int) -> Value:
        return cx.b.icmp_unsigned("<", magnitude, cx.const(kind, limit))

    # Wraps round for zero, which so is not below.
    subnormal = cx.b.icmp_unsigned("<", cx.b.sub(magnitude, cx.const(kind, 1)), cx.const(kind, (1 << fraction_bits) - 1))
    match form.one_of("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        case "finite":
            return below(infinity)
        case "infinite":
            return cx.b.icmp_unsigned("==", magnitude, cx.const(kind, infinity))
        case "number":
            return below(infinity + 1)
        case "notanumber":
            return cx.b.not_(below(infinity + 1))
        case "normal":
            return cx.b.and_(below(infinity), cx.b.not_(subnormal))
    return subnormal
