"""Counting, finding, reversing, extracting and permuting bits and bytes (PTX ISA 9.7.1 and 9.7.9.7)."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import constant_lanes, elements, pack, smallest, unpack
from gridstride.isa.lanes import Lanes
from gridstride.isa.logic import resize, shift_left, shift_right
from gridstride.isa.registry import Form, operation

_FALSE = ir.Constant(ir.IntType(1), 0)  # for LLVM's flag "zero is undefined"


def _narrow(cx: Lanes, form: Form, value: ir.Value) -> ir.Value:
    return cx.b.trunc(value, cx.type("i32")) if form.type.bits == 64 else value


@operation("popc", types="b32 b64", operands="u32 = 0", section="9.7.1.14", meaning=reference.popc)
def popc(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return _narrow(cx, form, cx.intrinsic("llvm.ctpop", form.type.storage, a))


@operation("clz", types="b32 b64", operands="u32 = 0", section="9.7.1.15", meaning=reference.clz)
def clz(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return _narrow(cx, form, cx.intrinsic("llvm.ctlz", form.type.storage, a, _FALSE))


@operation("bfind", types="u32 u64 s32 s64", modifiers="shiftamt?", operands="u32 = 0", section="9.7.1.16", meaning=reference.bfind)
def bfind(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    """Position of the highest bit that differs from the sign; all ones where there is none."""
    bits = form.type.bits
    if form.type.signed:
        a = cx.b.xor(a, cx.b.ashr(a, cx.const(form.type.storage, bits - 1)))
    zeros = _narrow(cx, form, cx.intrinsic("llvm.ctlz", form.type.storage, a, _FALSE))
    if "shiftamt" in form:
        return cx.select(cx.b.icmp_unsigned("==", zeros, cx.const("i32", bits)), cx.const("i32", -1), zeros)
    return cx.b.sub(cx.const("i32", bits - 1), zeros)


@operation("brev", types="b32 b64", operands="0 = 0", section="9.7.1.18", meaning=reference.brev)
def brev(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return cx.intrinsic("llvm.bitreverse", form.type.storage, a)


def _low_ones(cx: Lanes, count: ir.Value, bits: int) -> ir.Value:
    """`count` (32 bits wide) ones from bit 0 up; all `bits` of them from there on."""
    return cx.b.not_(shift_left(cx, cx.const(f"i{bits}", -1), count, bits))


def _field_number(cx: Lanes, value: ir.Value, bits: int) -> ir.Value:
    """Position or length of a bit field. PTX takes eight bits of it; an H200 does so for 32-bit words, but takes
    the whole number, limited to 64, for 64-bit words."""
    if bits == 32:
        return cx.b.and_(value, cx.const("i32", 255))
    return smallest(cx, value, cx.const("i32", 64), False, "i32")


@operation("bfe", types="u32 u64 s32 s64", operands="0 = 0 u32 u32", section="9.7.1.19", meaning=reference.bfe)
def bfe(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    bits, name = form.type.bits, form.type.storage
    position, length = _field_number(cx, b, bits), _field_number(cx, c, bits)
    if not form.type.signed:
        return cx.b.and_(shift_right(cx, a, position, bits, False), _low_ones(cx, length, bits))
    # Bring the field's last bit (or the word's, where the field goes past it) to the top, then everything down.
    end = smallest(cx, cx.b.add(position, length), cx.const("i32", bits), False, "i32")
    up = cx.b.sub(cx.const("i32", bits), end)
    field = shift_right(cx, cx.b.shl(a, resize(cx, up, bits)), cx.b.add(up, position), bits, True)
    return cx.select(cx.b.icmp_unsigned("==", length, cx.const("i32", 0)), cx.const(name, 0), field)


@operation("bfi", types="b32 b64", operands="0 = 0 0 u32 u32", section="9.7.1.20", meaning=reference.bfi)
def bfi(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
    bits = form.type.bits
    position = _field_number(cx, c, bits)
    mask = shift_left(cx, _low_ones(cx, _field_number(cx, d, bits), bits), position, bits)
    return cx.b.or_(cx.b.and_(shift_left(cx, a, position, bits), mask), cx.b.and_(b, cx.b.not_(mask)))


@operation("szext", types="u32 s32", modifiers="clamp|wrap", operands="0 = 0 u32", section="9.7.1.21", meaning=reference.szext)
def szext(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    thirty_two = cx.const("i32", 32)
    length = cx.b.and_(b, cx.const("i32", 31)) if "wrap" in form else smallest(cx, b, thirty_two, False, "i32")
    if not form.type.signed:
        return cx.b.and_(a, _low_ones(cx, length, 32))
    rest = cx.b.sub(thirty_two, length)
    return shift_right(cx, shift_left(cx, a, rest, 32), rest, 32, True)


@operation("bmsk", types="b32", modifiers="clamp|wrap", operands="0 = u32 u32", section="9.7.1.22", meaning=reference.bmsk)
def bmsk(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    if "wrap" in form:
        a, b = (cx.b.and_(v, cx.const("i32", 31)) for v in (a, b))
    return shift_left(cx, _low_ones(cx, b, 32), a, 32)


@operation("fns", types="b32", operands="0 = 0 u32 s32", section="9.7.1.17", meaning=reference.fns)
def fns(cx: Lanes, form: Form, mask: ir.Value, base: ir.Value, offset: ir.Value) -> ir.Value:
    return cx.helper("fns", ["i32"], [mask, base, offset], lambda inner, args: [_find_nth(inner, *args)])[0]


def _find_nth(cx: Lanes, mask: ir.Value, base: ir.Value, offset: ir.Value) -> ir.Value:
    """Downward search is upward search in the reversed mask. The set bits before the wanted one are taken away."""
    zero, one, last, nowhere = (cx.const("i32", n) for n in (0, 1, 31, -1))
    down, here = cx.b.icmp_signed("<", offset, zero), cx.b.icmp_unsigned("==", offset, zero)
    start = cx.select(down, cx.b.sub(last, base), base)
    rest = cx.select(down, cx.intrinsic("llvm.bitreverse", "i32", mask), mask)
    rest = cx.b.and_(rest, shift_left(cx, nowhere, start, 32))
    size = cx.select(down, cx.b.sub(zero, offset), offset)
    surplus = cx.select(here, zero, cx.b.sub(size, one))
    for k in range(32):
        skip = cx.b.icmp_unsigned("<", cx.const("i32", k), surplus)
        rest = cx.select(skip, cx.b.and_(rest, cx.b.sub(rest, one)), rest)
    found = cx.intrinsic("llvm.cttz", "i32", rest, _FALSE)
    wrong = cx.b.icmp_unsigned("==", rest, zero)
    wrong = cx.b.or_(wrong, cx.b.icmp_unsigned(">", base, last))
    wrong = cx.b.or_(wrong, cx.b.and_(here, cx.b.icmp_unsigned("!=", found, start)))
    return cx.select(wrong, nowhere, cx.select(down, cx.b.sub(last, found), found))


@operation("prmt", types="b32", operands="0 = 0 0 u32", section="9.7.9.7", meaning=reference.prmt)
def prmt(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    choices = constant_lanes(c)
    if choices is not None and len(set(choices)) == 1:
        return _permute_alike(cx, a, b, choices[0])
    return pick_bytes(cx, a, b, c)


@operation("prmt", types="b32", modifiers="f4e|b4e|rc8|ecl|ecr|rc16", operands="0 = 0 0 u32", section="9.7.9.7", meaning=reference.prmt)
def prmt_mode(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """The other modes stand for choices that depend on the two low bits of c: a nibble a byte, lowest first."""
    n = cx.b.and_(c, cx.const("i32", 3))
    choice: ir.Value
    match form.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        case "f4e":
            choice = cx.b.add(cx.b.mul(n, cx.const("i32", 0x1111)), cx.const("i32", 0x3210))
        case "b4e":  # counting down modulo 8
            choice = cx.b.add(cx.b.mul(n, cx.const("i32", 0x1111)), cx.const("i32", 0x5670))
            choice = cx.b.and_(choice, cx.const("i32", 0x7777))
        case "rc8":
            choice = cx.b.mul(n, cx.const("i32", 0x1111))
        case "rc16":
            choice = cx.b.add(cx.b.mul(cx.b.and_(n, cx.const("i32", 1)), cx.const("i32", 0x2222)), cx.const("i32", 0x1010))
        case "ecl":
            choice = _by_number(cx, n, (0x3210, 0x3211, 0x3222, 0x3333))
        case _:
            choice = _by_number(cx, n, (0x0000, 0x1110, 0x2210, 0x3210))
    return pick_bytes(cx, a, b, choice)


def _by_number(cx: Lanes, n: ir.Value, values: tuple[int, int, int, int]) -> ir.Value:
    result: ir.Value = cx.const("i32", values[0])
    for k, value in enumerate(values[1:], start=1):
        result = cx.select(cx.b.icmp_unsigned("==", n, cx.const("i32", k)), cx.const("i32", value), result)
    return result


def pick_bytes(cx: Lanes, a: ir.Value, b: ir.Value, choice: ir.Value) -> ir.Value:
    """Four bytes out of the eight of b:a, each named by a nibble of `choice`; its top bit asks for the sign alone."""
    return cx.helper("pick_bytes", ["i32"], [a, b, choice], lambda inner, args: [_pick_bytes(inner, *args)])[0]


def _pick_bytes(cx: Lanes, a: ir.Value, b: ir.Value, choice: ir.Value) -> ir.Value:
    i64, builder = cx.type("i64"), cx.b
    both = builder.or_(builder.shl(builder.zext(b, i64), cx.const("i64", 32)), builder.zext(a, i64))
    result: ir.Value = cx.const("i32", 0)
    for k in range(4):
        nibble = builder.lshr(choice, cx.const("i32", 4 * k))
        place = builder.shl(builder.and_(nibble, cx.const("i32", 7)), cx.const("i32", 3))
        value = builder.trunc(builder.lshr(both, builder.zext(place, i64)), cx.type("i8"))
        sign = builder.ashr(value, cx.const("i8", 7))
        only_sign = builder.icmp_unsigned("!=", builder.and_(nibble, cx.const("i32", 8)), cx.const("i32", 0))
        piece = builder.zext(cx.select(only_sign, sign, value), cx.type("i32"))
        result = builder.or_(result, builder.shl(piece, cx.const("i32", 8 * k)))
    return result


def _permute_alike(cx: Lanes, a: ir.Value, b: ir.Value, choice: int) -> ir.Value:
    """The same constant choice in every lane is one byte shuffle."""
    first, second = unpack(cx, a, 8), unpack(cx, b, 8)
    picks = [choice >> (4 * k) & 15 for k in range(4)]
    total = 4 * cx.width

    def shuffled(one: ir.Value, other: ir.Value) -> ir.Value:
        order = [4 * lane + (p & 3) + (total if p & 4 else 0) for lane in range(cx.width) for p in picks]
        return cx.b.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), total), order))

    result: ir.Value = shuffled(first, second)
    if any(p & 8 for p in picks):
        bytes_ = elements(cx, 4)
        signs = bytes_.b.ashr(result, bytes_.const("i8", 7))
        flags = ir.Constant(bytes_.type("i1"), [ir.Constant(ir.IntType(1), p >> 3 & 1) for _ in range(cx.width) for p in picks])
        result = bytes_.select(flags, signs, result)
    return pack(cx, result)
