"""Barriers: what the scheduler must know is written into the warp's record, then the kernel returns to it."""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Arg, Op
from gridstride.lower import checking
from gridstride.lower.emitter import I32, Emitter
from gridstride.lower.records import WARP
from gridstride.lower.values import uniform
from gridstride.passes.analyse_shapes import UNIFORM

SYNC, ARRIVE, AND, OR, POPC = range(5)


def lower(e: Emitter, op: Op) -> None:
    """Write the barrier, its kind and the number of threads it waits for; `flow` returns to the scheduler."""
    assert op.form is not None
    form = op.form
    if "warp" in form:
        if e.checks:
            checking.check_membership(e, op, op.args[0])
        e.put_field(WARP, e.warp, "sync_mask", _scalar(e, op.args[0]))
        e.put_field(WARP, e.warp, "site", ir.Constant(I32, op.site))
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
