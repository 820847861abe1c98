"""Moving data and addresses between registers and state spaces (PTX ISA 9.7.9: mov, cvta, isspacep)."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_addresses as reference
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.windows import HIGHEST_RANK, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW

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
    space = form.one_of(*_SPACES.split("|"))
    if space.split("::")[0] in ("const", "param"):
        return cx.const("i1", 0)
    # the window of a block's own shared memory is a part of its cluster's
    shift = RANK_SHIFT if space in ("shared", "shared::cta") else 56
    top = cx.b.lshr(a, cx.const("i64", shift))
    return cx.b.icmp_unsigned("==", top, cx.const("i64", _WINDOWS.get(space.split("::")[0], 0) >> shift))


@operation("mapa", types="u32 u64", modifiers="shared::cluster?", operands="0 = 0 u32 u32?", section="9.7.9.22", meaning=reference.mapa)
def mapa(cx: Lanes, form: Form, a: ir.Value, rank: ir.Value, own: ir.Value) -> ir.Value:
    """The same place in the shared memory of the block of that rank; `own` (put in by the selector) is the rank of this one.

    A shared address and a generic one only differ in what stands above 32 bits, which stays.
    """
    kind = form.type.storage
    middle = cx.const(kind, 1 << RANK_SHIFT - 1)
    shifted = cx.b.add(a, middle)
    offset = cx.b.sub(cx.b.or_(cx.b.and_(shifted, cx.const(kind, (1 << RANK_SHIFT) - 1)), _above_32(cx, kind, a)), middle)
    highest = cx.const("i32", HIGHEST_RANK)
    known = cx.b.select(cx.b.icmp_unsigned("<", rank, highest), rank, highest)
    field = cx.b.select(cx.b.icmp_unsigned("==", rank, own), cx.const("i32", 0), cx.b.add(known, cx.const("i32", 1)))
    if kind == "i64":
        field = cx.b.zext(field, cx.type("i64"))
    return cx.b.add(offset, cx.b.shl(field, cx.const(kind, RANK_SHIFT)))


def _above_32(cx: Lanes, kind: str, address: ir.Value) -> ir.Value:
    return cx.b.and_(address, cx.const(kind, 0xFFFFFFFF << 32)) if kind == "i64" else cx.const(kind, 0)


@operation("getctarank", types="u32 u64", modifiers="shared::cluster?", operands="b32 = 0 u32?", section="9.7.9.23", meaning=reference.getctarank)
def getctarank(cx: Lanes, form: Form, a: ir.Value, own: ir.Value) -> ir.Value:
    """The rank of the block into whose shared memory an address leads; `own` is put in by the selector."""
    kind = form.type.storage
    shifted = cx.b.add(a, cx.const(kind, 1 << RANK_SHIFT - 1))
    if kind == "i64":
        shifted = cx.b.trunc(shifted, cx.type("i32"))
    field = cx.b.lshr(shifted, cx.const("i32", RANK_SHIFT))
    return cx.b.select(cx.b.icmp_unsigned("==", field, cx.const("i32", 0)), own, cx.b.sub(field, cx.const("i32", 1)))
