"""Video instructions: scalar ones with parts of words as operands, and packed ones on halves and bytes (PTX ISA 9.7.18).

Selectors and masks are written behind the operands (`%r1.b3`, `%r2.h10`). They come here as integer constants after the
ordinary operands, in the order a, b, d, each None where the operand is written whole; `selector` makes the constant.
`vmad` has a sign in the place of d's: bit 0 where the product is negated (by a minus before a or b, not both), bit 1
where c is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from llvmlite import ir

from gridstride.errors import ParseError
from gridstride.isa import reference_video as reference
from gridstride.isa.bits import pick_bytes
from gridstride.isa.integer_lanes import clamp, distance, elements, extend, largest, less, limits, pack, smallest, unpack
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.types import ScalarType

_TRIPLES = " ".join(".".join(t) for t in itertools.product(("u32", "s32"), repeat=3))
_PAIRS = " ".join(".".join(t) for t in itertools.product(("u32", "s32"), repeat=2))
_SHIFTS = "u32.u32.u32 u32.s32.u32 s32.u32.u32 s32.s32.u32"
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BYTES, _HALVES = 0xB, 0xA


def selector(text: str) -> int:
    """The constant for a selector or mask such as "b3", "h10" or "b7654": its digits behind B for bytes, A for
    halves, read as hexadecimal."""
    return int(text.replace("h", "a"), 16)


def _part_bits(part: int | None) -> int:
    if part is None:
        return 32
    return 8 if part >> 4 == _BYTES else 16


def _source(cx: Lanes, value: ir.Value, kind: ScalarType, part: int | None, name: str = "i64") -> ir.Value:
    """An operand, or the part of it that is selected, as a number of the wide type `name`."""
    if part is not None:
        bits = _part_bits(part)
        value = cx.b.trunc(cx.b.lshr(value, cx.const("i32", bits * (part & 15))), cx.type(f"i{bits}"))
    return extend(cx, value, kind.signed, name)


def _first_operation(cx: Lanes, name: str, form: Form, x: ir.Value, y: ir.Value, width: str) -> ir.Value:
    """What vadd … vset do, on signed numbers of a type wide enough for every result."""
    match name:
        case "vadd":
            return cx.b.add(x, y)
        case "vsub":
            return cx.b.sub(x, y)
        case "vabsdiff":
            return distance(cx, x, y, True, width)
        case "vmin":
            return smallest(cx, x, y, True, width)
        case "vmax":
            return largest(cx, x, y, True, width)
        case "vavrg":
            total = cx.b.add(x, y)
            up = cx.b.zext(cx.b.icmp_signed(">=", total, cx.const(width, 0)), cx.type(width))
            return cx.b.ashr(cx.b.add(total, up), cx.const(width, 1))
        case "vset":
            return cx.b.zext(cx.b.icmp_signed(_COMPARISONS[form.one_of(*_COMPARISONS)], x, y), cx.type(width))
        case _:
            amount = cx.b.and_(y, cx.const(width, 31)) if "wrap" in form else smallest(cx, y, cx.const(width, 32), False, width)
            return _shift_up(cx, x, amount, width) if name == "vshl" else cx.b.ashr(x, amount)


def _shift_up(cx: Lanes, x: ir.Value, amount: ir.Value, width: str) -> ir.Value:
    """A 33-bit signed number up by 0 … 32 places, in 64 bits. By 32 it would not fit: what is far out of every range
    is brought closer first, to a number that saturates alike and has the same (no) low bits."""
    nearly = cx.b.shl(x, smallest(cx, amount, cx.const(width, 31), False, width))
    fully = cx.b.shl(clamp(cx, nearly, -(1 << 40), 1 << 40, width), cx.const(width, 1))
    return cx.select(cx.b.icmp_unsigned("==", amount, cx.const(width, 32)), fully, nearly)


def _scalar(
    cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value | None, a_part: int | None, b_part: int | None, d_part: int | None
) -> ir.Value:
    second = form.one_of("add", "min", "max")
    if c is None:
        if second or d_part is not None:
            raise ParseError(f"`{form.text}` with a second operation or a part of d needs the operand c")
        c = cx.const("i32", 0)
    kind_a, kind_b = form.types[-2:]
    is_signed = len(form.types) == 3 and form.types[0].signed
    x, y = _source(cx, a, kind_a, a_part), _source(cx, b, kind_b, b_part)
    value = _first_operation(cx, form.operation.opcode, form, x, y, "i64")
    bits = _part_bits(d_part)
    if "sat" in form:
        value = clamp(cx, value, *limits(bits, is_signed), "i64")
    value = cx.b.trunc(value, cx.type("i32"))
    match second:
        case "add":
            value = cx.b.add(value, c)
        case "min":
            value = smallest(cx, value, c, is_signed, "i32")
        case "max":
            value = largest(cx, value, c, is_signed, "i32")
    if d_part is None:
        return value
    place = bits * (d_part & 15)
    mask = cx.const("i32", ((1 << bits) - 1) << place)
    return cx.b.or_(cx.b.and_(cx.b.shl(value, cx.const("i32", place)), mask), cx.b.and_(c, cx.b.not_(mask)))


def _register_scalar(opcode: str, types: str, modifiers: str, result: str) -> None:
    """The form with two operands, which takes a third to put its result into, and the one with a second operation."""
    tail = "imm? imm? imm?"
    ab = "0 1" if result == "u32" else "1 2"
    for more, third in (("", f"{result}?"), (" add|min|max", result)):
        operands = f"{result} = {ab} {third} {tail}"
        operation(opcode, types=types, modifiers=modifiers + more, operands=operands, section="9.7.18", meaning=reference.scalar)(_scalar)


for _opcode in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    _register_scalar(_opcode, _TRIPLES, "sat?", "0")
for _opcode in ("vshl", "vshr"):
    _register_scalar(_opcode, _SHIFTS, "sat? clamp|wrap", "0")
_register_scalar("vset", _PAIRS, "|".join(_COMPARISONS), "u32")


@operation(
    "vmad", types=_TRIPLES, modifiers="sat? shr7|shr15? po?", operands="0 = 1 2 0 imm? imm? imm?", section="9.7.18", meaning=reference.vmad
)
def vmad(
    cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, a_part: int | None, b_part: int | None, negate: int | None
) -> ir.Value:
    sign = negate or 0
    name = f"{form.text}.{a_part}.{b_part}.{sign}"

    def build(inner: Lanes, abc: Sequence[ir.Value]) -> list[ir.Value]:
        return [_vmad(inner, form, abc, a_part, b_part, sign)]

    return cx.helper(name, ["i32"], [a, b, c], build)[0]


def _vmad(cx: Lanes, form: Form, abc: Sequence[ir.Value], a_part: int | None, b_part: int | None, negate: int) -> ir.Value:
    """In 128 bits, since a product of two unsigned words with a sign does not fit 64."""
    wide = "i128"
    a, b, c = abc
    x, y = _source(cx, a, form.types[1], a_part, wide), _source(cx, b, form.types[2], b_part, wide)
    product_signed = form.types[1].signed or form.types[2].signed or bool(negate & 1)  # c has the product's sign
    is_signed = product_signed or bool(negate & 2)
    product, addend = cx.b.mul(x, y), extend(cx, c, product_signed, wide)
    if negate & 1:
        product = cx.b.neg(product)
    total: ir.Value = cx.b.sub(product, addend) if negate & 2 else cx.b.add(product, addend)
    if "po" in form:
        total = cx.b.add(total, cx.const(wide, 1))
    scale = {"": 0, "shr7": 7, "shr15": 15}[form.one_of("shr7", "shr15")]
    total = cx.b.ashr(total, cx.const(wide, scale))
    if "sat" in form:
        low, high = (cx.const(wide, limit) for limit in limits(32, is_signed))
        total = cx.select(less(cx, "<", total, low, True), low, total)
        total = cx.select(less(cx, ">", total, high, True), high, total)
    return cx.b.trunc(total, cx.type("i32"))


def _packed(
    cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, a_parts: int | None, b_parts: int | None, mask: int | None
) -> ir.Value:
    name = f"{form.text}.{a_parts}.{b_parts}.{mask}"

    def build(inner: Lanes, abc: Sequence[ir.Value]) -> list[ir.Value]:
        return [_packed_body(inner, form, abc, a_parts, b_parts, mask)]

    return cx.helper(name, ["i32"], [a, b, c], build)[0]


def _packed_body(cx: Lanes, form: Form, abc: Sequence[ir.Value], a_parts: int | None, b_parts: int | None, mask: int | None) -> ir.Value:
    a, b, c = abc
    count = int(form.operation.opcode[-1])
    bits = 32 // count
    shape, narrow, wide = elements(cx, count), f"i{bits}", f"i{2 * bits}"
    left = a if a_parts is None else pick_bytes(cx, a, b, cx.const("i32", _byte_choice(a_parts, count)))
    right = b if b_parts is None else pick_bytes(cx, a, b, cx.const("i32", _byte_choice(b_parts, count)))
    kind_a, kind_b = form.types[-2:]
    x = extend(shape, unpack(cx, left, bits), kind_a.signed, wide)
    y = extend(shape, unpack(cx, right, bits), kind_b.signed, wide)
    value = _first_operation(shape, form.operation.opcode[:-1], form, x, y, wide)
    if "sat" in form:
        value = clamp(shape, value, *limits(bits, form.types[0].signed), wide)
    chosen = range(count) if mask is None else [int(digit, 16) for digit in f"{mask:x}"[1:]]
    flags = [ir.Constant(ir.IntType(1), int(k in chosen)) for _ in range(cx.width) for k in range(count)]
    selected = ir.Constant(shape.type("i1"), flags)
    if "add" not in form:
        return pack(cx, shape.select(selected, shape.b.trunc(value, shape.type(narrow)), unpack(cx, c, bits)))
    value = shape.b.sext(shape.select(selected, value, shape.const(wide, 0)), shape.type("i32"))
    total = c
    for k in range(count):
        total = cx.b.add(total, _every(cx, value, k, count))
    return total


def _every(cx: Lanes, values: ir.Value, first: int, step: int) -> ir.Value:
    """Element `first` of each lane's `step` elements."""
    if cx.width == 1:
        return cx.b.extract_element(values, ir.Constant(ir.IntType(32), first))
    order = ir.Constant(ir.VectorType(ir.IntType(32), cx.width), [first + step * lane for lane in range(cx.width)])
    return cx.b.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), order)


def _byte_choice(parts: int, count: int) -> int:
    """A packed operand's selector as a choice of bytes, one a nibble."""
    if count == 4:
        return parts & 0xFFFF
    halves = [parts & 15, parts >> 4 & 15]
    return sum((2 * half | (2 * half + 1) << 4) << (8 * k) for k, half in enumerate(halves))


for _opcode, _count in itertools.product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"), (2, 4)):
    _is_set = _opcode == "vset"
    operation(
        f"{_opcode}{_count}",
        types=_PAIRS if _is_set else _TRIPLES,
        modifiers=f"{'|'.join(_COMPARISONS)} add?" if _is_set else "sat|add?",
        operands=f"{'u32 = 0 1 u32' if _is_set else '0 = 1 2 0'} imm? imm? imm?",
        section="9.7.18",
        meaning=reference.packed_operation,
    )(_packed)
