"""atom and red (PTX ISA 9.7.13.5, 9.7.13.6): lanes one after the other, in lane order.

Each combination of operation and type is one out-of-line function of the kernel's module. While only one worker
runs blocks a plain read-modify-write is enough; otherwise a compare-and-swap loop makes it indivisible.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.errors import UnsupportedError
from gridstride.ir.nodes import Op
from gridstride.isa.lanes import Lanes, scalar_type
from gridstride.isa.registry import lookup
from gridstride.isa.types import ScalarType
from gridstride.lower.access import either, watch
from gridstride.lower.emitter import I64, Emitter
from gridstride.lower.fast_addresses import shared_lanes_ok, shared_offsets
from gridstride.lower.lanes_across import vector_reduce
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import BLOCK, WORKER
from gridstride.lower.target import Target, combines, resolved, target_of
from gridstride.lower.values import canonical_nan, varying

_REDUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor"}


def lower(e: Emitter, op: Op) -> None:
    """Lower one atomic; its result register, if any, gets the old values."""
    assert op.access is not None and isinstance(op.info, str)
    kind = op.access.element
    t = target_of(e, op)
    t = Target(op, t.space, t.address, t.narrow, kind.bits, 1, t.aligned)
    watch(e, t, [])
    hosts = _hosts(e, t)
    values = [e.values.vector(e.observed(a, f"i{kind.bits}")) for a in op.args[1:]]
    unused = not op.results or op.results[0] is None
    mask = e.active
    if combines(t):
        values, mask = [_combined(e, op.info, kind, values[0])], e.b.and_(e.active, e.b.neg(e.active))
    function = _function(e.module, op.info, kind, not unused, flush=t.space == "flat" and kind.name == "f32")
    old = e.b.call(function, [e.worker, hosts, mask, *values])
    if not unused:
        assert op.results[0] is not None
        e.set(op.results[0], e.values.convert(varying(f"i{kind.bits}", old), e.storage(op.results[0])), op)


def _hosts(e: Emitter, t: Target) -> ir.Value:
    """Host addresses of all lanes, checked."""
    if t.space != "shared":
        return resolved(e, t)
    base = e.splat(e.b.ptrtoint(e.once("shared", BLOCK, e.block, "shared"), I64))
    return either(e, shared_lanes_ok(e, t), lambda: [e.b.add(base, shared_offsets(e, t))], lambda: [resolved(e, t)])[0]


def _combined(e: Emitter, name: str, kind: ScalarType, vector: ir.Value) -> ir.Value:
    """All active lanes' operands as one, in every lane: for an address that they share."""
    intrinsic = _REDUCTIONS.get(name) or f"{'s' if kind.signed else 'u'}{name}"
    top = (1 << kind.bits) - 1
    neutral = {"add": 0, "or": 0, "xor": 0, "and": top, "umin": top, "umax": 0, "smin": top >> 1, "smax": 1 << kind.bits - 1}[intrinsic]
    chosen = e.b.select(e.active_lanes, vector, e.values.warp.const(f"i{kind.bits}", neutral))
    return e.splat(vector_reduce(e, intrinsic, chosen))


def _function(module: ir.Module, name: str, kind: ScalarType, returns: bool, flush: bool) -> ir.Function:
    """(worker, host addresses, mask, operand…) -> old values (zeros unless `returns`)."""
    full = f"atomic_{name}_{kind.name}{'' if returns else '_red'}{'_ftz' if flush else ''}"
    known: ir.Function | None = module.globals.get(full)
    if known is not None:
        return known
    bits, lane_type = kind.bits, f"i{kind.bits}"
    vector = f"32x{lane_type}"
    operands = 2 if name == "cas" else 1
    f = NativeFunction(module, full, vector, ["ptr", "32xi64", "i32", *[vector] * operands], attributes=("noinline",))
    f.function.linkage = "internal"
    worker, hosts, mask = f.args[:3]
    where = f.variable("32xi64", hosts)
    given = [f.variable(vector, v) for v in f.args[3:]]
    result = f.variable(vector, f.const(vector, 0))
    exclusive = f.get(WORKER, worker, "exclusive").ne(0)
    changes = f.variable("i64", 0)
    with f.each_lane(mask) as lane:
        at = f.load("i64", Native(f, where.slot), lane.to("i64") * 8).to("ptr")
        inputs = [f.load(lane_type, Native(f, g.slot), lane.to("i64") * (bits // 8)) for g in given]
        old, new = f.variable(lane_type, 0), f.variable(lane_type, 0)
        with f.if_else(exclusive) as (plain, shared):
            with plain:
                before = f.load(lane_type, at, align=bits // 8)
                new.set(_applied(f, name, kind, before, inputs, flush))
                f.store(new.get(), at, align=bits // 8)
                old.set(before)
            with shared:
                old.set(f.load(lane_type, at, align=bits // 8))
                with f.loop():
                    expected = old.get()
                    new.set(_applied(f, name, kind, expected, inputs, flush))
                    pair = f.b.cmpxchg(at.v, expected.v, new.get().v, "seq_cst")
                    old.set(Native(f, f.b.extract_value(pair, 0)))
                    f.break_if(Native(f, f.b.extract_value(pair, 1)))
        changes.set(changes.get() + new.get().ne(old.get()).to("i64"))
        if returns:
            f.store(old.get(), Native(f, result.slot), lane.to("i64") * (bits // 8))
    f.add_to(WORKER, worker, "changes", changes.get())
    f.ret(result.get())
    return f.function


def _applied(f: NativeFunction, name: str, kind: ScalarType, old: Native, inputs: list[Native], flush: bool) -> Native:
    """The new value of one atomic operation."""
    value = inputs[0]
    if name == "exch":
        return value
    if name == "cas":
        return old.eq(value).select(inputs[1], old)
    if name in ("and", "or", "xor"):
        return {"and": old & value, "or": old | value, "xor": old ^ value}[name]
    if name == "inc":
        return (old >= value).select(f.const("i32", 0), old + 1)
    if name == "dec":
        return (old.eq(0) | (old > value)).select(value, old - 1)
    if name in ("min", "max") and kind.kind == "h":
        return _by_form(f, kind, f"{name}.{kind.name}", old, value)
    if name in ("min", "max"):
        compare = f.b.icmp_signed if kind.signed else f.b.icmp_unsigned
        return Native(f, f.b.select(compare("<" if name == "min" else ">", value.v, old.v), value.v, old.v))
    if name != "add":
        raise UnsupportedError(f"atomic operation `{name}` is not supported")
    if kind.kind in "sub":
        return old + value
    return _float_sum(f, kind, old, value, flush)


def _float_sum(f: NativeFunction, kind: ScalarType, old: Native, value: Native, flush: bool) -> Native:
    """A floating-point sum as the add instruction of that type gives it; f32 in global memory flushes subnormals."""
    return _by_form(f, kind, f"add{'.ftz' if flush else ''}.{kind.name}" if kind.kind == "f" else f"add.rn.{kind.name}", old, value)


def _by_form(f: NativeFunction, kind: ScalarType, text: str, old: Native, value: Native) -> Native:
    """What the instruction of that form makes of the two."""
    form = lookup(text)
    lanes = Lanes(f.b, 1)
    assert form.operation.lower is not None
    real = scalar_type(kind.storage)
    a, b = (f.b.bitcast(v.v, real) if kind.kind == "f" else v.v for v in (old, value))
    total = form.operation.lower(lanes, form, a, b)
    if kind.kind == "f":
        if kind.bits == 32:
            total = canonical_nan(lanes, total)
        total = f.b.bitcast(total, scalar_type(f"i{kind.bits}"))
    return Native(f, total)

