"""Integer products, with and without an addend, and dot products (PTX ISA 9.7.1)."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import WORDS, extend
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation


def high_product(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool, bits: int) -> ir.Value:
    """The upper half of the double-width product."""
    if bits == 64 and cx.width > 1:
        name = f"mulhi.{'s' if is_signed else 'u'}64"
        return cx.helper(name, ["i64"], [a, b], lambda inner, ab: [_high_product_64(inner, ab[0], ab[1], is_signed)])[0]
    wide = f"i{2 * bits}"
    product = cx.b.mul(extend(cx, a, is_signed, wide), extend(cx, b, is_signed, wide))
    return cx.b.trunc(cx.b.lshr(product, cx.const(wide, bits)), cx.type(f"i{bits}"))


def _high_product_64(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool) -> ir.Value:
    """By 32-bit halves: no processor has vectors of 128-bit products."""
    builder, half, low = cx.b, cx.const("i64", 32), cx.const("i64", 0xFFFFFFFF)
    a0, a1, b0, b1 = builder.and_(a, low), builder.lshr(a, half), builder.and_(b, low), builder.lshr(b, half)
    middle = builder.add(builder.mul(a1, b0), builder.lshr(builder.mul(a0, b0), half))
    cross = builder.add(builder.mul(a0, b1), builder.and_(middle, low))
    high = builder.add(builder.mul(a1, b1), builder.add(builder.lshr(middle, half), builder.lshr(cross, half)))
    if is_signed:  # a negative factor counted as 2^64 too much
        sign = cx.const("i64", 63)
        high = builder.sub(high, builder.and_(builder.ashr(a, sign), b))
        high = builder.sub(high, builder.and_(builder.ashr(b, sign), a))
    return high


def low_or_high(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return high_product(cx, a, b, form.type.signed, form.type.bits) if "hi" in form else cx.b.mul(a, b)


def _wide_product(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    wide = f"i{2 * form.type.bits}"
    return cx.b.mul(extend(cx, a, form.type.signed, wide), extend(cx, b, form.type.signed, wide))


@operation("mul", types=WORDS, modifiers="lo|hi", operands="0 = 0 0", section="9.7.1.3", meaning=reference.mul)
def mul(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return low_or_high(cx, form, a, b)


@operation("mul", types="u16 u32 s16 s32", modifiers="wide", operands="w0 = 0 0", section="9.7.1.3", meaning=reference.mul)
def mul_wide(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return _wide_product(cx, form, a, b)


@operation("mad", types=WORDS, modifiers="lo|hi", operands="0 = 0 0 0", section="9.7.1.4", meaning=reference.mad)
def mad(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.b.add(low_or_high(cx, form, a, b), c)


@operation("mad", types="s32", modifiers="hi sat", operands="0 = 0 0 0", section="9.7.1.4", meaning=reference.mad)
def mad_saturating(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.intrinsic("llvm.sadd.sat", "i32", high_product(cx, a, b, True, 32), c)


@operation("mad", types="u16 u32 s16 s32", modifiers="wide", operands="w0 = 0 0 w0", section="9.7.1.4", meaning=reference.mad)
def mad_wide(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.b.add(_wide_product(cx, form, a, b), c)


def _product24(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    eight = cx.const("i32", 8)
    if "hi" in form:  # both moved up by 8 bits: the product's bits 16 to 47 come to stand at 32 to 63
        return high_product(cx, cx.b.shl(a, eight), cx.b.shl(b, eight), form.type.signed, 32)
    shift = cx.b.ashr if form.type.signed else cx.b.lshr
    return cx.b.mul(shift(cx.b.shl(a, eight), eight), shift(cx.b.shl(b, eight), eight))


@operation("mul24", types="u32 s32", modifiers="lo|hi", operands="0 = 0 0", section="9.7.1.5", meaning=reference.mul24)
def mul24(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return _product24(cx, form, a, b)


@operation("mad24", types="u32 s32", modifiers="lo|hi", operands="0 = 0 0 0", section="9.7.1.6", meaning=reference.mad24)
def mad24(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.b.add(_product24(cx, form, a, b), c)


@operation("mad24", types="s32", modifiers="hi sat", operands="0 = 0 0 0", section="9.7.1.6", meaning=reference.mad24)
def mad24_saturating(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.intrinsic("llvm.sadd.sat", "i32", _product24(cx, form, a, b), c)


_DOT_TYPES = "u32.u32 u32.s32 s32.u32 s32.s32"


def _piece(cx: Lanes, word: ir.Value, position: int, bits: int, is_signed: bool) -> ir.Value:
    """The `bits` bits of a 32-bit word from `position` on, as a number of 32 bits."""
    if position + bits < 32:
        word = cx.b.shl(word, cx.const("i32", 32 - bits - position))
    return (cx.b.ashr if is_signed else cx.b.lshr)(word, cx.const("i32", 32 - bits))


def _dot(cx: Lanes, form: Form, operands: Sequence[ir.Value], bits: int, count: int, first: int) -> ir.Value:
    """c + Σ a[k]·b[first + k], a in pieces of `bits` bits, b in bytes. The sign of the sum makes no difference
    modulo 2^32."""
    a, b, total = operands
    for k in range(count):
        x = _piece(cx, a, bits * k, bits, form.types[0].signed)
        y = _piece(cx, b, 8 * (first + k), 8, form.types[1].signed)
        total = cx.b.add(total, cx.b.mul(x, y))
    return total


@operation("dp4a", types=_DOT_TYPES, operands="0 = 0 1 u32", section="9.7.1.23", meaning=reference.dp4a)
def dp4a(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.helper(form.text, ["i32"], [a, b, c], lambda inner, abc: [_dot(inner, form, abc, 8, 4, 0)])[0]


@operation("dp2a", types=_DOT_TYPES, modifiers="lo|hi", operands="0 = 0 1 u32", section="9.7.1.24", meaning=reference.dp2a)
def dp2a(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return _dot(cx, form, (a, b, c), 16, 2, 2 if "hi" in form else 0)


@operation("clmad", types="u64", modifiers="lo|hi", operands="0 = 0 0 0", section="9.7.1", meaning=reference.clmad)
def clmad(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return cx.b.xor(cx.helper(form.text, ["i64"], [a, b], lambda inner, ab: [_carryless(inner, ab[0], ab[1], "hi" in form)])[0], c)


def _carryless(cx: Lanes, a: ir.Value, b: ir.Value, high: bool) -> ir.Value:
    """Half of the product over the field of two elements, bit by bit."""
    total: ir.Value = cx.const("i64", 0)
    for k in range(1 if high else 0, 64):
        bit = cx.b.ashr(cx.b.shl(b, cx.const("i64", 63 - k)), cx.const("i64", 63))  # all ones where b has bit k
        term = cx.b.lshr(a, cx.const("i64", 64 - k)) if high else cx.b.shl(a, cx.const("i64", k))
        total = cx.b.xor(total, cx.b.and_(bit, term))
    return total
