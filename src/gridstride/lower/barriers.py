"""Barriers: what the scheduler must know is written into the warp's record, then the kernel returns to it."""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Arg, Op, Reg
from gridstride.lower import checking
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.records import BLOCK, WARP, WORKER
from gridstride.lower.values import uniform
from gridstride.lower.vector_memory import masked_store
from gridstride.passes.analyse_shapes import UNIFORM

SYNC, ARRIVE, AND, OR, POPC, GATHER = range(6)


def lower(e: Emitter, op: Op) -> None:
    """Write the barrier, its kind and the number of threads it waits for; `flow` returns to the scheduler."""
    assert op.form is not None
    form = op.form
    if "warp" in form:
        if e.checks:
            checking.check_membership(e, op, op.args[0])
        e.put_field(WARP, e.warp, "sync_mask", _scalar(e, op.args[0]))
        e.put_field(WARP, e.warp, "barrier_mode", ir.Constant(I32, GATHER if "gather'" in form else SYNC))
        e.put_field(WARP, e.warp, "site", ir.Constant(I32, op.site))
        if "gather'" in form:
            e.put_field(WARP, e.warp, "present", e.active)
            if len(op.args) > 1:
                _publish(e, op.args[1])
        return
    args = list(op.args)
    mode = {"arrive": ARRIVE, "and": AND, "or": OR, "popc": POPC}.get(form.one_of("arrive", "and", "or", "popc"), SYNC)
    predicate = args.pop() if mode >= AND else None
    e.put_field(WARP, e.warp, "barrier", e.b.and_(_scalar(e, args[0]), ir.Constant(I32, 15)))
    count = _scalar(e, args[1]) if len(args) > 1 else ir.Constant(I32, 0)
    e.put_field(WARP, e.warp, "barrier_count", count)
    e.put_field(WARP, e.warp, "barrier_mode", ir.Constant(I32, mode))
    e.put_field(WARP, e.warp, "site", ir.Constant(I32, op.site))
    if predicate is not None:
        lanes = e.b.bitcast(e.lane_vector(predicate, "i1"), I32)
        e.put_field(WARP, e.warp, "barrier_mask", e.b.and_(lanes, e.active))


def _publish(e: Emitter, arg: Arg) -> None:
    """What each active lane brings to an exchange, where lanes of other groups find it."""
    b = e.b
    frame = e.field(b, WORKER, e.worker, "frame_bytes")
    index = b.zext(e.field(b, WARP, e.warp, "index"), I64)
    first = b.gep(e.field(b, BLOCK, e.block, "warps"), [b.mul(index, frame)], source_etype=I8)
    place = b.gep(first, [ir.Constant(I64, WARP.offset("published"))], source_etype=I8)
    kind = e.storage(arg.id) if isinstance(arg, Reg) else "i32"
    value = e.values.vector(e.values.convert(e.observed(arg, kind), "i64"))
    masked_store(e, value, place, e.active_lanes)


def _scalar(e: Emitter, arg: Arg) -> ir.Value:
    """An operand that all lanes give alike: the lowest active lane's."""
    value = e.read(arg, "i32")
    if value.shape == UNIFORM:
        return value.parts[0]
    function = e.module.globals.get("llvm.cttz.i32")
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(I32, [I32, ir.IntType(1)]), "llvm.cttz.i32")
    first = e.b.call(function, [e.active, ir.Constant(ir.IntType(1), 0)])
    return e.b.extract_element(e.values.vector(value), e.b.and_(first, ir.Constant(I32, 31)))


def result(e: Emitter, op: Op) -> None:
    """What a reducing barrier gave, at its resume point."""
    if op.results[0] is None:
        return
    assert op.form is not None
    value = e.field(e.b, WARP, e.warp, "result")
    if op.form.types[0].kind == "p":
        value = e.b.icmp_unsigned("!=", value, ir.Constant(I32, 0))
        e.set(op.results[0], uniform("i1", value), op)
    else:
        e.set(op.results[0], uniform("i32", value), op)
