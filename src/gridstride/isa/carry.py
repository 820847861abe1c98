"""Extended-precision integer arithmetic (PTX ISA 9.7.2).

The condition code's carry flag is an ordinary value here: forms with `cc` return (result, carry out), and addc, subc
and madc take the carry in as one more argument at the end. Whoever emits the instructions keeps the flag in between.
A subtraction is the addition of the complement: its flag is 1 where nothing was borrowed. So the H200 has it, and NVIDIA's
128-bit division relies on it by reading with addc what subc left.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.multiply import low_or_high
from gridstride.isa.registry import Form, operation

_TYPES = "u32 s32 u64 s64"
_Result = ir.Value | tuple[ir.Value, ir.Value]


def _add(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, carry: ir.Value | None) -> _Result:
    total = cx.b.add(a, b)
    out = cx.b.icmp_unsigned("<", total, a)
    if carry is not None:
        total_with = cx.b.add(total, cx.b.zext(carry, total.type))
        out = cx.b.or_(out, cx.b.icmp_unsigned("<", total_with, total))
        total = total_with
    return (total, out) if "cc" in form else total


def _sub(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, carry: ir.Value | None) -> _Result:
    total = cx.b.sub(a, b)
    borrowed = cx.b.icmp_unsigned("<", a, b)
    if carry is not None:
        total_with = cx.b.sub(total, cx.b.zext(cx.b.not_(carry), total.type))
        borrowed = cx.b.or_(borrowed, cx.b.icmp_unsigned("<", total, total_with))
        total = total_with
    return (total, cx.b.not_(borrowed)) if "cc" in form else total


@operation("add", types=_TYPES, modifiers="cc", operands="0 pred = 0 0", section="9.7.2.1", meaning=reference.add_carry)
def add_cc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> _Result:
    return _add(cx, form, a, b, None)


@operation("addc", types=_TYPES, operands="0 = 0 0 pred", section="9.7.2.2", meaning=reference.add_carry)
@operation("addc", types=_TYPES, modifiers="cc", operands="0 pred = 0 0 pred", section="9.7.2.2", meaning=reference.add_carry)
def addc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, carry: ir.Value) -> _Result:
    return _add(cx, form, a, b, carry)


@operation("sub", types=_TYPES, modifiers="cc", operands="0 pred = 0 0", section="9.7.2.3", meaning=reference.sub_borrow)
def sub_cc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> _Result:
    return _sub(cx, form, a, b, None)


@operation("subc", types=_TYPES, operands="0 = 0 0 pred", section="9.7.2.4", meaning=reference.sub_borrow)
@operation("subc", types=_TYPES, modifiers="cc", operands="0 pred = 0 0 pred", section="9.7.2.4", meaning=reference.sub_borrow)
def subc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, carry: ir.Value) -> _Result:
    return _sub(cx, form, a, b, carry)


@operation("mad", types=_TYPES, modifiers="lo|hi cc", operands="0 pred = 0 0 0", section="9.7.2.5", meaning=reference.mad_carry)
def mad_cc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value) -> _Result:
    return _add(cx, form, low_or_high(cx, form, a, b), c, None)


@operation("madc", types=_TYPES, modifiers="lo|hi", operands="0 = 0 0 0 pred", section="9.7.2.6", meaning=reference.mad_carry)
@operation("madc", types=_TYPES, modifiers="lo|hi cc", operands="0 pred = 0 0 0 pred", section="9.7.2.6", meaning=reference.mad_carry)
def madc(cx: Lanes, form: Form, a: ir.Value, b: ir.Value, c: ir.Value, carry: ir.Value) -> _Result:
    return _add(cx, form, low_or_high(cx, form, a, b), c, carry)
