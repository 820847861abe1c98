"""Approximate functions of halves: ex2 and tanh on f16, bf16 and packed pairs (PTX ISA 9.7.4.9, 9.7.4.10).

To the bit what an H200 gives: the special-function unit's result for the half as an f32, truncated to a half. Only what is beyond
the largest f16 becomes an infinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gridstride.isa import reference_half as reference
from gridstride.isa.float_formats import F16, Format
from gridstride.isa.half import elementwise
from gridstride.isa.halfmath import narrow, widen
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, lookup, operation

Value = ir.Value


def _by_the_unit(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    single = lookup(reference.single_form(form))
    assert single.operation.lower is not None
    result = single.operation.lower(cx, single, widen(cx, fmt, values[0]))
    bits = narrow(cx, fmt, result, "rz")
    if fmt is F16 and form.operation.opcode == "ex2":
        beyond = cx.b.fcmp_ordered(">=", result, cx.const("f32", 2.0**16))
        bits = cx.select(beyond, cx.const("i16", fmt.infinity), bits)
    return bits


@operation("ex2", types="f16 f16x2", modifiers="approx", operands="0 = 0", section="9.7.4.10", meaning=reference.by_the_unit)
@operation("ex2", types="bf16 bf16x2", modifiers="approx ftz", operands="0 = 0", section="9.7.4.10", meaning=reference.by_the_unit)
@operation("tanh", types="f16 f16x2 bf16 bf16x2", modifiers="approx", operands="0 = 0", section="9.7.4.9", meaning=reference.by_the_unit)
def by_the_unit(cx: Lanes, form: Form, a: Value) -> Value:
    return elementwise(cx, form, _by_the_unit, a, outlined=True)
