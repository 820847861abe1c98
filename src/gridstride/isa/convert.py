"""cvt between integers, between integers and floating-point numbers, and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.23)."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_convert as reference
from gridstride.isa.half import float32_to_odd
from gridstride.isa.halfmath import error_signs, format_of, is_nan, narrow, step, widen
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import flush
from gridstride.isa.types import ScalarType

Value = ir.Value

_SECTION = "9.7.9.21"
_INTEGERS = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "su"]
_PRECISION = {"f32": 24, "f64": 53}
_WHOLE = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def clamp_integer(cx: Lanes, source: ScalarType, value: Value, signed: bool, bits: int) -> Value:
    """The source's value clamped to the range of an integer type, still in the source's width. A bound
    that the source cannot reach costs nothing."""
    low, high = reference.integer_range(signed, bits)
    least, most = reference.integer_range(source.signed, source.bits)
    word = "s" if source.signed else "u"
    if low > least:
        value = cx.intrinsic(f"llvm.{word}max", source.storage, value, cx.const(source.storage, low))
    if high < most:
        value = cx.intrinsic(f"llvm.{word}min", source.storage, value, cx.const(source.storage, high))
    return value


def resize(cx: Lanes, value: Value, source: ScalarType, storage: str) -> Value:
    """Truncated, or extended by the source's signedness."""
    bits = int(storage[1:])
    if bits == source.bits:
        return value
    if bits < source.bits:
        return cx.b.trunc(value, cx.type(storage))
    return cx.b.sext(value, cx.type(storage)) if source.signed else cx.b.zext(value, cx.type(storage))


@operation(
    "cvt",
    types=" ".join(f"{target}.{source}" for target in _INTEGERS for source in _INTEGERS),
    modifiers="sat?",
    operands="0 = 1",
    section=_SECTION,
    meaning=reference.integer_to_integer,
)
def integer_to_integer(cx: Lanes, form: Form, a: Value) -> Value:
    target, source = form.types
    if "sat" in form:
        a = clamp_integer(cx, source, a, target.signed, target.bits)
    return resize(cx, a, source, target.storage)


def _to_float(cx: Lanes, source: ScalarType, value: Value, kind: str) -> Value:
    return cx.b.sitofp(value, cx.type(kind)) if source.signed else cx.b.uitofp(value, cx.type(kind))


def _to_float64(cx: Lanes, source: ScalarType, value: Value, mode: str) -> Value:
    """An integer as f64, rounded in any mode (`odd` too). That of 64 bits is the sum of two exact halves, whose
    error is known."""
    if source.bits < 64 or mode == "rn":
        return _to_float(cx, source, value, "f64")
    b = cx.b
    shift = cx.const("i64", 32)
    high = _to_float(cx, source, b.ashr(value, shift) if source.signed else b.lshr(value, shift), "f64")
    high = b.fmul(high, cx.const("f64", 2.0**32))
    low = b.uitofp(b.and_(value, cx.const("i64", 0xFFFFFFFF)), cx.type("f64"))
    total = b.fadd(high, low)
    above, below = error_signs(cx, low, b.fsub(total, high))
    return cx.cast(step(cx, "i64", cx.cast(total, "i64"), above, below, mode), "f64")


def float64_to_float32(cx: Lanes, value: Value, mode: str) -> Value:
    nearest = cx.b.fptrunc(value, cx.type("f32"))
    if mode == "rn":
        return nearest
    signs = error_signs(cx, value, cx.b.fpext(nearest, cx.type("f64")))
    return cx.cast(step(cx, "i32", cx.cast(nearest, "i32"), *signs, mode), "f32")


def _to_float32(cx: Lanes, source: ScalarType, value: Value, mode: str) -> Value:
    """Directed roundings by way of f64: twice in one direction is the same as once."""
    if source.bits <= 16 or mode == "rn":
        return _to_float(cx, source, value, "f32")
    return float64_to_float32(cx, _to_float64(cx, source, value, mode), mode)


def _to_half(cx: Lanes, target: str, source: ScalarType, value: Value, mode: str) -> Value:
    if source.bits > 16 and target == "f16":
        # What overflows f16 still does when cut to 17 bits and a sign, and then fits f32.
        limit = 1 << 17
        if source.signed:
            value = cx.intrinsic("llvm.smax", source.storage, value, cx.const(source.storage, -limit))
            value = cx.intrinsic("llvm.smin", source.storage, value, cx.const(source.storage, limit))
        else:
            value = cx.intrinsic("llvm.umin", source.storage, value, cx.const(source.storage, limit))
        wide = cx.b.sitofp(resize(cx, value, source, "i32"), cx.type("f32"))
    elif source.bits > 16:
        wide = float32_to_odd(cx, _to_float64(cx, source, value, "odd"))
    else:
        wide = _to_float(cx, source, value, "f32")
    return narrow(cx, format_of(target), wide, mode)


def saturate(cx: Lanes, kind: str, value: Value) -> Value:
    """Clamped to [+0, 1]; NaN becomes +0. kind: f32 or f64."""
    zero, one = cx.const(kind, 0.0), cx.const(kind, 1.0)
    positive = cx.select(cx.b.fcmp_ordered(">", value, zero), value, zero)
    return cx.select(cx.b.fcmp_ordered("<", positive, one), positive, one)


def integer_to_float(cx: Lanes, form: Form, a: Value) -> Value:
    target, source = form.types
    mode = form.one_of(*reference.ROUNDINGS)
    if "sat" in form:  # only 0 and 1 are left of the integers
        a = clamp_integer(cx, source, a, False, 1)
    if target.name == "f64":
        return _to_float64(cx, source, a, mode)
    if target.name == "f32":
        return _to_float32(cx, source, a, mode)
    return _to_half(cx, target.name, source, a, mode)


# `.ftz` is taken where ptxas takes it; an integer is never subnormal.
for _target, _modifiers in (("f16", "sat?"), ("bf16", ""), ("f32", "ftz? sat?"), ("f64", "sat?")):
    operation(
        "cvt",
        types=" ".join(f"{_target}.{source}" for source in _INTEGERS),
        modifiers=f"rn|rz|rm|rp {_modifiers}",
        operands="0 = 1",
        section=_SECTION,
        meaning=reference.integer_to_float,
    )(integer_to_float)


def saturating_integer(cx: Lanes, target: ScalarType, value: Value, kind: str) -> Value:
    """A whole number to an integer, out of range to the nearest bound, NaN to 0.

    LLVM's saturating conversions say the same, but are taken lane by lane on x86; its plain ones do not define
    what is out of range, which therefore is kept from them.
    """
    b = cx.b
    low, high = reference.integer_range(target.signed, target.bits)

    def number(bound: float) -> Value:
        return cx.const(kind, bound)

    if high < 1 << _PRECISION[kind]:  # both bounds are floating-point numbers
        if target.signed:
            value = cx.select(is_nan(cx, value), number(0), value)
        value = cx.select(b.fcmp_ordered(">", value, number(low)), value, number(low))
        value = cx.select(b.fcmp_ordered("<", value, number(high)), value, number(high))
        if target.name == "u32":
            return b.fptoui(value, cx.type("i32"))
        result: Value = b.fptosi(value, cx.type("i32"))
        return result if target.bits == 32 else b.trunc(result, cx.type(target.storage))
    limit = number(high + 1)
    too_large = b.fcmp_ordered(">=", value, limit)
    if target.signed:
        inside = b.fcmp_ordered("<", cx.intrinsic("llvm.fabs", kind, value), limit)
        result = b.fptosi(cx.select(inside, value, number(0)), cx.type(target.storage))
        too_small = b.fcmp_ordered("<=", value, number(low))
        result = cx.select(too_small, cx.const(target.storage, low), result)
    else:
        inside = b.and_(b.fcmp_ordered(">", value, number(0)), b.fcmp_ordered("<", value, limit))
        result = b.fptoui(cx.select(inside, value, number(0)), cx.type(target.storage))
    return cx.select(too_large, cx.const(target.storage, high), result)


def float_to_integer(cx: Lanes, form: Form, a: Value) -> Value:
    target, source = form.types
    kind = "f64" if source.name == "f64" else "f32"
    value = widen(cx, format_of(source.name), a) if source.kind == "h" else a
    if "ftz" in form:
        value = flush(cx, value)
    rounding = form.one_of(*_WHOLE)
    if rounding != "rzi":
        value = cx.intrinsic(_WHOLE[rounding], kind, value)
    number = saturating_integer(cx, target, value, kind)
    if 64 in (source.bits, target.bits):  # where 64 bits are involved the H200 makes NaN the most significant bit
        number = cx.select(is_nan(cx, value), cx.const(target.storage, 1 << (target.bits - 1)), number)
    return number


for _source, _modifiers in (("f16", "sat?"), ("bf16", ""), ("f32", "ftz? sat?"), ("f64", "sat?")):
    operation(
        "cvt",
        types=" ".join(f"{target}.{_source}" for target in _INTEGERS),
        modifiers=f"rni|rzi|rmi|rpi {_modifiers}",
        operands="0 = 1",
        section=_SECTION,
        meaning=reference.float_to_integer,
    )(float_to_integer)


def _pack(cx: Lanes, form: Form, a: Value, b: Value, c: Value | None) -> Value:
    """b in the lowest place, a in the next, c above."""
    signed, bits = reference.packed_kind(form)
    source = form.types[-2] if form.types[-1].name == "b32" else form.types[-1]
    mask = cx.const("i32", (1 << bits) - 1)
    low, high = (cx.b.and_(clamp_integer(cx, source, value, signed, bits), mask) for value in (b, a))
    packed = cx.b.or_(low, cx.b.shl(high, cx.const("i32", bits)))
    return packed if c is None else cx.b.or_(packed, cx.b.shl(c, cx.const("i32", 2 * bits)))


@operation("cvt", types="s16.s32 u16.s32", modifiers="pack sat", operands="b32 = 1 1", section="9.7.9.23", meaning=reference.pack)
def pack_words(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    return _pack(cx, form, a, b, None)


@operation(
    "cvt", types="s8.s32.b32 u8.s32.b32", modifiers="pack sat", operands="b32 = s32 s32 b32", section="9.7.9.23", meaning=reference.pack
)
@operation(
    "cvt", types="s32.b32", modifiers="pack sat s4|u4|s2|u2", operands="b32 = s32 s32 b32", section="9.7.9.23", meaning=reference.pack
)
def pack_bytes(cx: Lanes, form: Form, a: Value, b: Value, c: Value) -> Value:
    return _pack(cx, form, a, b, c)
