"""Logic and shift instructions (PTX ISA 9.7.8). PTX shifts by any amount: past the width nothing (or only the sign)
is left, where processors, and LLVM, would take the amount modulo the width or promise nothing."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import constant_lanes
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation

_BITS = "b16 b32 b64"


@operation("and", types=f"pred {_BITS}", operands="0 = 0 0", section="9.7.8.1", meaning=reference.logic_and)
def logic_and(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return cx.b.and_(a, b)


@operation("or", types=f"pred {_BITS}", operands="0 = 0 0", section="9.7.8.2", meaning=reference.logic_or)
def logic_or(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return cx.b.or_(a, b)


@operation("xor", types=f"pred {_BITS}", operands="0 = 0 0", section="9.7.8.3", meaning=reference.logic_xor)
def logic_xor(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return cx.b.xor(a, b)


@operation("not", types=f"pred {_BITS}", operands="0 = 0", section="9.7.8.4", meaning=reference.logic_not)
def logic_not(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return cx.b.xor(a, cx.const(form.type.storage, -1))


@operation("cnot", types=_BITS, operands="0 = 0", section="9.7.8.5", meaning=reference.cnot)
def cnot(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    return cx.b.zext(cx.b.icmp_unsigned("==", a, cx.const(form.type.storage, 0)), a.type)


@operation("lop3", types="b32", operands="0 = 0 0 0 imm", section="9.7.8.6", meaning=reference.lop3)
def lop3(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, table: int) -> ir.Value:
    """Truth table of three inputs: bit 4a + 2b + c. Split by a into two tables of b and c, then joined."""
    without, with_a = table & 15, table >> 4 & 15
    chosen = _two_inputs(cx, without, b, c)
    if without == with_a:
        return chosen
    return cx.b.xor(chosen, cx.b.and_(a, _two_inputs(cx, without ^ with_a, b, c)))


@operation("lop3", types="b32", modifiers="and|or", operands="0 pred = 0 0 0 imm pred", section="9.7.8.6", meaning=reference.lop3_predicate)
def lop3_predicate(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, table: int, q: ir.Value) -> tuple[ir.Value, ir.Value]:
    word = lop3(cx, form, a, b, c, table)
    truth = cx.b.icmp_unsigned("!=", word, cx.const("i32", 0))
    return word, combine(cx, form, truth, q)


def combine(cx: Lanes, form: Form, truth: ir.Value, predicate: ir.Value | None) -> ir.Value:
    """Apply the Boolean operation that a form may carry."""
    if predicate is None:
        return truth
    return {"and": cx.b.and_, "or": cx.b.or_, "xor": cx.b.xor}[form.one_of("and", "or", "xor")](truth, predicate)


def _two_inputs(cx: Lanes, table: int, b: ir.Value, c: ir.Value) -> ir.Value:
    """The function of b and c with the truth table `table`: bit 2b + c."""
    match table:
        case 0b0000:
            return cx.const("i32", 0)
        case 0b1000:
            return cx.b.and_(b, c)
        case 0b1110:
            return cx.b.or_(b, c)
        case 0b0110:
            return cx.b.xor(b, c)
        case 0b1100:
            return b
        case 0b1010:
            return c
        case 0b0100:
            return cx.b.and_(b, cx.b.not_(c))
        case 0b0010:
            return cx.b.and_(c, cx.b.not_(b))
        case _:
            return cx.b.xor(_two_inputs(cx, 15 - table, b, c), cx.const("i32", -1))


def _fits(amount: ir.Value, bits: int) -> bool:
    numbers = constant_lanes(amount)
    return numbers is not None and all(n < bits for n in numbers)


def resize(cx: Lanes, amount: ir.Value, bits: int) -> ir.Value:
    """A 32-bit amount in the width of what is shifted."""
    if bits == 32:
        return amount
    return cx.b.zext(amount, cx.type("i64")) if bits == 64 else cx.b.trunc(amount, cx.type(f"i{bits}"))


def shift_left(cx: Lanes, value: ir.Value, amount: ir.Value, bits: int) -> ir.Value:
    """Shift by a 32-bit amount; zero from `bits` on."""
    shifted = cx.b.shl(value, resize(cx, amount, bits))
    return shifted if _fits(amount, bits) else _within(cx, amount, bits, shifted)


def shift_right(cx: Lanes, value: ir.Value, amount: ir.Value, bits: int, is_signed: bool) -> ir.Value:
    """Shift by a 32-bit amount; only zeros or signs from `bits` on."""
    if is_signed:
        if not _fits(amount, bits):
            amount = cx.intrinsic("llvm.umin", "i32", amount, cx.const("i32", bits - 1))
        return cx.b.ashr(value, resize(cx, amount, bits))
    shifted = cx.b.lshr(value, resize(cx, amount, bits))
    return shifted if _fits(amount, bits) else _within(cx, amount, bits, shifted)


def _within(cx: Lanes, amount: ir.Value, bits: int, shifted: ir.Value) -> ir.Value:
    # LLVM knows this pattern: where the machine's vector shifts clamp, the comparison and selection vanish.
    return cx.select(cx.b.icmp_unsigned("<", amount, cx.const("i32", bits)), shifted, cx.const(f"i{bits}", 0))


@operation("shl", types=_BITS, operands="0 = 0 u32", section="9.7.8.8", meaning=reference.shl)
def shl(cx: Lanes, form: Form, a: ir.Value, amount: ir.Value) -> ir.Value:
    return shift_left(cx, a, amount, form.type.bits)


@operation("shr", types=f"{_BITS} u16 u32 u64 s16 s32 s64", operands="0 = 0 u32", section="9.7.8.9", meaning=reference.shr)
def shr(cx: Lanes, form: Form, a: ir.Value, amount: ir.Value) -> ir.Value:
    return shift_right(cx, a, amount, form.type.bits, form.type.signed)


@operation("shf", types="b32", modifiers="l|r wrap|clamp", operands="0 = 0 0 u32", section="9.7.8.7", meaning=reference.shf)
def shf(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, amount: ir.Value) -> ir.Value:
    """Shift the 64 bits b·2^32 + a; the upper half of a left shift, the lower half of a right shift."""
    shifted = cx.intrinsic("llvm.fshl" if "l" in form else "llvm.fshr", "i32", b, a, amount)
    if "wrap" in form or _fits(amount, 32):
        return shifted
    return cx.select(cx.b.icmp_unsigned("<", amount, cx.const("i32", 32)), shifted, a if "l" in form else b)
