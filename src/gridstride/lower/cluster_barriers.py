"""The barrier of a cluster: arriving notes the lanes in the warp's record, waiting returns to the scheduler (PTX ISA 9.7.13.3)."""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Op
from gridstride.lower import checking
from gridstride.lower.clusters import AT_CLUSTER_BARRIER
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.native import POINTER
from gridstride.lower.records import BARRIER_MISUSES, BLOCK, FAULT_MISUSE, WARP, WORKER
from gridstride.lower.runtime_table import call_runtime


def lower(e: Emitter, op: Op) -> None:
    """Arrive, or make ready to wait (`flow` returns to the scheduler). Using it out of turn stops the kernel."""
    assert op.form is not None
    b = e.b
    even, odd = (b.load(_arrived(e, q), typ=I32) for q in range(2))
    before = b.and_(b.or_(even, odd), e.active)
    e.put_field(WARP, e.warp, "site", ir.Constant(I32, op.site))
    if "wait" in op.form:
        stop_at_misuse(e, op, b.icmp_unsigned("!=", before, e.active), "waits-unarrived")
        return
    stop_at_misuse(e, op, b.icmp_unsigned("!=", before, ir.Constant(I32, 0)), "arrives-twice")
    leader = b.load(b.gep(e.block, [ir.Constant(I64, BLOCK.offset("cluster"))], source_etype=I8), typ=POINTER)
    phase = e.field(b, BLOCK, leader, "cluster_phase")
    parity = b.and_(phase, ir.Constant(I32, 1))
    checking.cluster_arrive(e, op, b.add(parity, ir.Constant(I32, AT_CLUSTER_BARRIER)))
    place = b.gep(_arrived(e, 0), [b.mul(b.zext(parity, I64), ir.Constant(I64, 4))], source_etype=I8)
    b.store(b.or_(b.load(place, typ=I32), e.active), place)


def _arrived(e: Emitter, parity: int) -> ir.Value:
    return e.b.gep(e.warp, [ir.Constant(I64, WARP.offset("cluster_arrived") + 4 * parity)], source_etype=I8)


def stop_at_misuse(e: Emitter, op: Op, wrong: ir.Value, what: str) -> None:
    """Where a barrier is used as it must not be, the kernel stops."""
    b = e.b
    bad, good = e.native.append_basic_block("misused"), e.native.append_basic_block("used well")
    b.cbranch(wrong, bad, good).set_weights([1, 100_000])
    b.position_at_end(bad)
    call_runtime(e, "fault", [e.worker, e.block, e.warp, ir.Constant(I32, op.site), ir.Constant(I32, FAULT_MISUSE), e.active])
    e.put_field(WORKER, e.worker, "fault_detail", ir.Constant(I32, BARRIER_MISUSES.index(what)))
    b.branch(e.stopped)
    b.position_at_end(good)
