"""The values of special registers (PTX ISA 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from gridstride.errors import UnsupportedError
from gridstride.isa.lanes import vector_type
from gridstride.lower.records import BLOCK, WARP, WORKER
from gridstride.lower.values import Value, uniform, varying
from gridstride.passes.analyse_shapes import affine

if TYPE_CHECKING:
    from gridstride.lower.emitter import Emitter

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def special_register(e: Emitter, name: str) -> Value:
    """Of those that do not change while a function runs: computed where it begins."""
    p, layout = e.prologue, e.layout
    base, _, axis = name.partition(".")
    if base == "%tid":
        if not layout.regular:
            return varying("i32", e.field(p, WARP, e.warp, f"tid_{axis}_lanes"))
        first = e.field(p, WARP, e.warp, f"tid_{axis}")
        if layout.width == 32:
            return Value(affine(1, False), "i32", (first,)) if axis == "x" else uniform("i32", first)
        if axis == "x":
            return Value(affine(1, False), "i32", (first,))
        if axis == "y":
            return Value(affine(0, True), "i32", (first, ir.Constant(I32, 1)))
        return uniform("i32", first)
    if base in ("%ntid", "%nctaid"):
        return uniform("i32", e.field(p, WORKER, e.worker, f"{base[1:]}_{axis}"))
    if base == "%ctaid":
        return uniform("i32", e.field(p, BLOCK, e.block, f"ctaid_{axis}"))
    if base == "%laneid":
        if layout.width == 32:
            return Value(affine(1, False), "i32", (ir.Constant(I32, 0),))
        return Value(affine(1, True), "i32", (ir.Constant(I32, 0), ir.Constant(I32, layout.width)))
    if base.startswith("%lanemask_"):
        masks = {
            "eq": [1 << k for k in range(32)],
            "lt": [(1 << k) - 1 for k in range(32)],
            "le": [(2 << k) - 1 for k in range(32)],
            "gt": [0xFFFFFFFF & ~((2 << k) - 1) for k in range(32)],
            "ge": [0xFFFFFFFF & ~((1 << k) - 1) for k in range(32)],
        }[base[10:]]
        return varying("i32", ir.Constant(vector_type("i32"), [ir.Constant(I32, m) for m in masks]))
    if base == "%warpid":
        return uniform("i32", e.field(p, WARP, e.warp, "index"))
    if base == "%nwarpid":
        return uniform("i32", e.field(p, BLOCK, e.block, "warp_count"))
    if base == "%smid":
        return uniform("i32", e.field(p, WORKER, e.worker, "smid"))
    if base == "%nsmid":
        return uniform("i32", e.field(p, WORKER, e.worker, "nsmid"))
    if base == "%gridid":
        return uniform("i64", e.field(p, WORKER, e.worker, "gridid"))
    if base in ("%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size"):
        field = "dynamic_bytes" if base == "%dynamic_smem_size" else "shared_bytes"
        return uniform("i32", p.trunc(e.field(p, WORKER, e.worker, field), I32))
    if base in ("%envreg1", "%envreg2"):
        half = e.field(p, WORKER, e.worker, "cooperative")
        return uniform("i32", p.trunc(half if base == "%envreg2" else p.lshr(half, ir.Constant(I64, 32)), I32))
    if base in ("%clusterid", "%cluster_ctaid", "%cluster_ctarank", "%cluster_nctarank", "%cluster_nctaid", "%nclusterid", "%is_explicit_cluster"):
        return _of_cluster(e, base, axis)
    raise UnsupportedError(f"special register `{name}` is not supported")


def _of_cluster(e: Emitter, base: str, axis: str) -> Value:
    """Places in the cluster and in the grid of clusters (PTX ISA 10.12 to 10.18). Without clusters each block is one."""
    p = e.prologue
    if base == "%cluster_ctarank":
        return uniform("i32", e.field(p, BLOCK, e.block, "cluster_rank"))
    if base == "%cluster_nctarank":
        return uniform("i32", e.field(p, WORKER, e.worker, "cluster_size"))
    if base == "%is_explicit_cluster":
        return uniform("i1", p.trunc(e.field(p, WORKER, e.worker, "explicit_cluster"), ir.IntType(1)))
    extent = e.field(p, WORKER, e.worker, f"cluster_nctaid_{axis}")
    if base == "%cluster_nctaid":
        return uniform("i32", extent)
    if base == "%nclusterid":
        return uniform("i32", p.udiv(e.field(p, WORKER, e.worker, f"nctaid_{axis}"), extent))
    place = e.field(p, BLOCK, e.block, f"ctaid_{axis}")
    return uniform("i32", p.udiv(place, extent) if base == "%clusterid" else p.urem(place, extent))


def clock(e: Emitter, name: str) -> Value:
    """%clock and %globaltimer: a deterministic count that each reading advances."""
    place = e.b.gep(e.worker, [ir.Constant(I64, WORKER.offset("clock"))], source_etype=I8)
    now = e.b.add(e.b.load(place, typ=I64), ir.Constant(I64, 32))
    e.b.store(now, place)
    if name in ("%clock64", "%globaltimer"):
        return uniform("i64", now)
    shift = 32 if name.endswith("_hi") else 0
    return uniform("i32", e.b.trunc(e.b.lshr(now, ir.Constant(I64, shift)), I32))
