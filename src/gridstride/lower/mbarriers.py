"""mbarrier instructions: where the object is, then a function that all kernels share (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from gridstride.ir.nodes import Kind, Op
from gridstride.isa.lanes import vector_type
from gridstride.isa.mbarrier import PHASE_SHIFT
from gridstride.isa.windows import RANK_SHIFT, SHARED_WINDOW
from gridstride.lower import checking
from gridstride.lower.cluster_barriers import stop_at_misuse
from gridstride.lower.emitter import I32, MASK_TYPE, Emitter
from gridstride.lower.mbarrier_runtime import DROPS, KEEPS_OPEN
from gridstride.lower.runtime_table import call_runtime
from gridstride.lower.target import Target, resolved, target_of
from gridstride.lower.values import varying


def lower(e: Emitter, op: Op) -> None:
    """Lower one mbarrier instruction that has an object."""
    form = op.form
    assert form is not None and op.access is not None
    t = target_of(e, op)
    if op.access.space == "generic":
        _stop_elsewhere(e, t)
    if e.checks:
        # making and ending an object is a plain write: whoever uses it must be ordered behind
        plain = form.one_of("init", "inval")
        seen = Target(replace(op, kind=Kind.STORE), t.space, t.address, t.narrow, t.bits, t.count, t.aligned) if plain else t
        checking.check_access(e, seen, [])
    hosts = resolved(e, t)
    arguments = [e.worker, e.block, e.warp, ir.Constant(I32, op.site), hosts, e.active]
    if "init" in form:
        call_runtime(e, "mbarrier_init", [*arguments, _words(e, op, 0)])
    elif "inval" in form:
        call_runtime(e, "mbarrier_inval", arguments)
    elif form.one_of("arrive", "arrive_drop"):
        if "relaxed" not in form:
            checking.mbarrier_arrives(e, t, hosts)
        _arrive(e, op, arguments)
    elif "expect_tx" in form:
        call_runtime(e, "mbarrier_bytes", [*arguments, _words(e, op, 0)])
    elif "complete_tx" in form:
        call_runtime(e, "mbarrier_bytes", [*arguments, e.b.neg(_words(e, op, 0))])
    else:
        _wait(e, op, t, arguments)
        return
    e.stop_if_faulted()


def _stop_elsewhere(e: Emitter, t: Target) -> None:
    """A generic address must lead into the block's own shared memory (PTX ISA 9.7.13.15.9 and following)."""
    b, const = e.b, e.values.warp.const
    top = b.lshr(e.values.vector(t.address), const("i64", RANK_SHIFT))
    outside = b.bitcast(b.icmp_unsigned("!=", top, const("i64", SHARED_WINDOW >> RANK_SHIFT)), I32)
    stop_at_misuse(e, t.op, b.icmp_unsigned("!=", b.and_(outside, e.active), ir.Constant(I32, 0)), "elsewhere")


def _words(e: Emitter, op: Op, number: int) -> ir.Value:
    """An operand behind the address, of 32 bits."""
    return e.lane_vector(op.args[1 + number], "i32")


def _arrive(e: Emitter, op: Op, arguments: list[ir.Value]) -> None:
    form = op.form
    assert form is not None
    one, none = (e.values.warp.const("i32", n) for n in (1, 0))
    given = _words(e, op, 0) if len(op.args) > 1 else one
    count, size = (one, given) if "expect_tx" in form else (given, none)
    how = (DROPS if "arrive_drop" in form else 0) | (KEEPS_OPEN if "noComplete" in form else 0)
    before = call_runtime(e, "mbarrier_arrive", [*arguments, count, size, ir.Constant(I32, how)])
    if op.results[0] is not None:
        e.set(op.results[0], varying("i64", before), op)


def _wait(e: Emitter, op: Op, t: Target, arguments: list[ir.Value]) -> None:
    form = op.form
    assert form is not None
    if "parity" in form:
        parity = _words(e, op, 0)
    else:
        state = e.lane_vector(op.args[1], "i64")
        parity = e.b.trunc(e.b.lshr(state, e.values.warp.const("i64", PHASE_SHIFT)), vector_type("i32"))
    complete = call_runtime(e, "mbarrier_wait", [*arguments, parity])
    e.stop_if_faulted()
    if "relaxed" not in form:
        checking.mbarrier_waited(e, t, arguments[4], complete)
    if op.results[0] is not None:
        e.set(op.results[0], varying("i1", e.b.bitcast(complete, MASK_TYPE)), op)
