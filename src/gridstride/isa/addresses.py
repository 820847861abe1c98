"""Moving data and addresses between registers and state spaces (PTX ISA 9.7.9: mov, cvta, isspacep)."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_addresses as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW

_MOVABLE = "pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f16 bf16 f16x2 bf16x2 f32 f64"
_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


@operation("mov", types=_MOVABLE, operands="0 = 0", section="9.7.9.2", meaning=reference.copy)
def mov(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    """Packing and unpacking of vectors is the emitter's."""
    return a


@operation("call", types="b8 b16 b32 b64 b128", modifiers="copy", operands="0 = 0", section="9.7.12.5", meaning=reference.copy)
def call_copy(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    """A piece of a call's parameter, passed in a register."""
    return a


def cvta_offset(form: Form) -> int:
    """What cvta adds to an address (PTX ISA 9.7.9.20)."""
    space = form.one_of("global", "const", "shared", "local", "param", "param::entry", "shared::cta", "shared::cluster").split("::")[0]
    window = _WINDOWS.get(space, 0)
    return -window if "to" in form else window


_SPACES = "global|const|shared|local|param|param::entry|shared::cta|shared::cluster"


@operation("cvta", types="u64", modifiers=f"to? {_SPACES}", operands="0 = 0", section="9.7.9.20", meaning=reference.cvta)
def cvta(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    """Generic addresses of global, constant and parameter memory are the addresses themselves."""
    offset = cvta_offset(form)
    return cx.b.add(a, cx.const("i64", offset)) if offset else a


@operation("isspacep", modifiers=_SPACES, operands="pred = u64", section="9.7.9.19", meaning=reference.isspacep)
def isspacep(cx: Lanes, form: Form, a: ir.Value) -> ir.Value:
    top = cx.b.lshr(a, cx.const("i64", 56))
    space = form.one_of(*_SPACES.split("|")).split("::")[0]
    if space in ("const", "param"):
        return cx.const("i1", 0)
    return cx.b.icmp_unsigned("==", top, cx.const("i64", _WINDOWS.get(space, 0) >> 56))
