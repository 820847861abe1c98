"""Sums and products of halves with an f32 (PTX ISA 9.7.5): the halves are converted, which is exact, then it is f32 arithmetic."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, lookup, operation

_TYPES = "f32.f16 f32.bf16"


def _widened(form: Form) -> tuple[Form, Form]:
    """The conversion of the halves, and the f32 operation."""
    words = [word for word in form.text.split(".")[1:] if word not in ("f32", form.types[1].name)]
    if form.operation.opcode != "fma" and not form.one_of("rn", "rz", "rm", "rp"):
        words.insert(0, "rn")
    return lookup(f"cvt.f32.{form.types[1].name}"), lookup(".".join((form.operation.opcode, *words, "f32")))


def _meaning(form: Form, *arguments: int) -> int:
    convert, compute = _widened(form)
    assert convert.operation.meaning is not None and compute.operation.meaning is not None
    *narrow, last = arguments
    result = compute.operation.meaning(compute, *(convert.operation.meaning(convert, a) for a in narrow), last)
    assert isinstance(result, int)
    return result


@operation("add", types=_TYPES, modifiers="rn|rz|rm|rp? sat?", operands="0 = 1 0", section="9.7.5.1", dirty_nan=True, meaning=_meaning)
@operation("sub", types=_TYPES, modifiers="rn|rz|rm|rp? sat?", operands="0 = 1 0", section="9.7.5.2", dirty_nan=True, meaning=_meaning)
@operation("fma", types=_TYPES, modifiers="rn|rz|rm|rp sat?", operands="0 = 1 1 0", section="9.7.5.3", dirty_nan=True, meaning=_meaning)
def mixed(cx: Lanes, form: Form, *arguments: ir.Value) -> ir.Value:
    convert, compute = _widened(form)
    assert convert.operation.lower is not None and compute.operation.lower is not None
    *narrow, last = arguments
    result: ir.Value = compute.operation.lower(cx, compute, *(convert.operation.lower(cx, convert, a) for a in narrow), last)
    return result
