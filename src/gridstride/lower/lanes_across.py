"""Shuffles, votes, matches and reductions over the lanes of a warp.

Lanes that a mask names and that are not here (exited, or in another branch) take no part. A shuffle that reads such
a lane gets what its register holds; PTX leaves that value undefined.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.errors import UnsupportedError
from gridstride.ir.nodes import Arg, Const, Op
from gridstride.isa.lanes import vector_type
from gridstride.isa.registry import lookup
from gridstride.lower.calls import first_active
from gridstride.lower.checking import check_membership, check_shuffle
from gridstride.lower.emitter import I32, Emitter
from gridstride.lower.native import Native, NativeFunction, stack_slot
from gridstride.lower.values import Value, canonical_nan, uniform, varying
from gridstride.lower.vector_memory import gather_indexed
from gridstride.passes.analyse_shapes import UNIFORM

V32 = vector_type("i32")


def _vector_constant(values: list[int]) -> ir.Constant:
    return ir.Constant(V32, [ir.Constant(I32, v & 0xFFFFFFFF) for v in values])


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that `lane` reads and whether it is in range (PTX ISA 9.7.9.6, pseudocode)."""
    b, segment, clamp = b & 31, c >> 8 & 31, c & 31
    top, bottom = (lane & segment) | (clamp & ~segment), lane & segment
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": bottom | (b & ~segment)}[mode]
    inside = j >= top if mode == "up" else j <= top
    return (j if inside else lane), inside


def shuffle(e: Emitter, op: Op) -> None:
    assert op.form is not None
    mode = op.form.one_of("up", "down", "bfly", "idx")
    value = e.values.vector(e.observed(op.args[0], "i32"))
    if "sync" in op.form and op.info != "shadow":
        value = e.exchanged(value, "i32")
    b, c = op.args[1], op.args[2]
    if isinstance(b, Const) and isinstance(c, Const):
        sources = [source_lane(mode, lane, b.bits, c.bits) for lane in range(32)]
        moved = e.b.shuffle_vector(value, ir.Constant(V32, ir.Undefined), _vector_constant([s for s, _ in sources]))
        inside: ir.Value = ir.Constant(vector_type("i1"), [ir.Constant(ir.IntType(1), int(p)) for _, p in sources])
        from_lanes: ir.Value = _vector_constant([s for s, _ in sources])
    else:
        moved, inside, from_lanes = _dynamic_shuffle(e, mode, value, e.lane_vector(b, "i32"), e.lane_vector(c, "i32"))
    if e.checks and len(op.args) > 3 and op.info != "shadow":
        check_membership(e, op, op.args[3])
        check_shuffle(e, op, from_lanes, inside)
    if op.results[0] is not None:
        e.set(op.results[0], varying("i32", moved), op)
    if len(op.results) > 1 and op.results[1] is not None:
        e.set(op.results[1], varying("i1", inside), op)


def _dynamic_shuffle(e: Emitter, mode: str, value: ir.Value, b_lanes: ir.Value, c_lanes: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    b = e.b
    const = e.values.warp.const
    lane = _vector_constant(list(range(32)))
    amount = b.and_(b_lanes, const("i32", 31))
    segment = b.and_(b.lshr(c_lanes, const("i32", 8)), const("i32", 31))
    clamp = b.and_(c_lanes, const("i32", 31))
    outside_segment = b.xor(segment, const("i32", 31))
    bottom = b.and_(lane, segment)
    top = b.or_(bottom, b.and_(clamp, outside_segment))
    if mode == "up":
        j = b.sub(lane, amount)
    elif mode == "down":
        j = b.add(lane, amount)
    elif mode == "bfly":
        j = b.xor(lane, amount)
    else:
        j = b.or_(bottom, b.and_(amount, outside_segment))
    inside = b.icmp_signed(">=" if mode == "up" else "<=", j, top)
    j = b.and_(b.select(inside, j, lane), const("i32", 31))
    builder = ir.IRBuilder(e.allocation_block)
    table = stack_slot(builder, V32, 64)
    b.store(value, table, align=64)
    offsets = b.mul(b.zext(j, vector_type("i64")), const("i64", 4))
    everyone = ir.Constant(vector_type("i1"), [ir.Constant(ir.IntType(1), 1)] * 32)
    moved = gather_indexed(e, table, offsets, 32, ir.Constant(I32, -1), everyone)
    return moved, inside, j


def member_mask(e: Emitter, op: Op, arg: Arg | None) -> Value:
    """The lanes that take part: named by the mask and here."""
    if arg is None:
        return uniform("i32", e.active)
    check_membership(e, op, arg)
    mask, here = e.read(arg, "i32"), e.present_lanes()
    if mask.shape == UNIFORM:
        return uniform("i32", e.b.and_(mask.parts[0], here))
    return varying("i32", e.b.and_(e.values.vector(mask), e.splat(here)))


def vote(e: Emitter, op: Op) -> None:
    assert op.form is not None
    b = e.b
    predicate = e.lane_vector(op.args[0], "i1")
    if "sync" in op.form:
        predicate = e.exchanged(predicate, "i1")
    bits = b.bitcast(predicate, I32)
    members = member_mask(e, op, op.args[1] if len(op.args) > 1 else None)
    lanes = e.lanes(members)
    mask = members.parts[0]
    holds = b.and_(mask, bits if members.shape == UNIFORM else e.splat(bits))
    mode = op.form.one_of("all", "any", "uni", "ballot")
    if mode == "ballot":
        result, kind = holds, "i32"
    else:
        kind = "i1"
        everyone = b.icmp_unsigned("==", holds, mask)
        someone = b.icmp_unsigned("!=", holds, lanes.const("i32", 0))
        result = {"all": everyone, "any": someone, "uni": b.or_(everyone, b.not_(someone))}[mode]
    if op.results[0] is not None:
        e.set(op.results[0], Value(members.shape if members.shape == UNIFORM else varying("i1", result).shape, kind, (result,)), op)


def active_mask(e: Emitter, op: Op) -> None:
    if op.results[0] is not None:
        e.set(op.results[0], uniform("i32", e.active), op)


def same_target(e: Emitter, op: Op) -> None:
    """Whether a lane's value is that of the lowest active lane."""
    value = e.read(op.args[0], "i64")
    if op.results[0] is None:
        return
    if value.shape == UNIFORM:
        e.set(op.results[0], varying("i1", e.values.warp.const("i1", 1)), op)
        return
    vector = e.values.vector(value)
    e.set(op.results[0], varying("i1", e.b.icmp_unsigned("==", vector, e.splat(first_active(e, vector)))), op)


def elect(e: Emitter, op: Op) -> None:
    """The lowest member leads."""
    members = member_mask(e, op, op.args[0])
    b = e.b
    mask = e.values.vector(members)
    lowest = b.and_(mask, b.neg(mask))
    me = _vector_constant([1 << k for k in range(32)])
    if op.results[0] is not None:
        function = e.module.globals.get("llvm.cttz.v32i32") or ir.Function(e.module, ir.FunctionType(V32, [V32, ir.IntType(1)]), "llvm.cttz.v32i32")
        e.set(op.results[0], varying("i32", b.call(function, [mask, ir.Constant(ir.IntType(1), 0)])), op)
    if len(op.results) > 1 and op.results[1] is not None:
        e.set(op.results[1], varying("i1", b.icmp_unsigned("==", lowest, me)), op)


def _helper(e: Emitter, name: str, result: str, arguments: list[str]) -> tuple[ir.Function, NativeFunction | None]:
    known = e.module.globals.get(name)
    if known is not None:
        return known, None
    made = NativeFunction(e.module, name, result, arguments, attributes=("noinline",))
    made.function.linkage = "internal"
    return made.function, made


def match(e: Emitter, op: Op) -> None:
    assert op.form is not None
    width = op.form.types[0].bits
    members = e.values.vector(member_mask(e, op, op.args[1]))
    value = e.exchanged(e.values.vector(e.observed(op.args[0], f"i{width}")), f"i{width}")
    equal = _same_value_mask(e, width)
    same = e.b.and_(e.b.call(equal, [value, e.present_lanes()]), members)
    if "any" in op.form:
        if op.results[0] is not None:
            e.set(op.results[0], varying("i32", same), op)
        return
    everyone = e.b.icmp_unsigned("==", same, members)
    if op.results[0] is not None:
        e.set(op.results[0], varying("i32", e.b.select(everyone, members, e.values.warp.const("i32", 0))), op)
    if len(op.results) > 1 and op.results[1] is not None:
        e.set(op.results[1], varying("i1", everyone), op)


def _same_value_mask(e: Emitter, width: int) -> ir.Function:
    """(values, lanes) -> for each lane of `lanes` the mask of all lanes with its value."""
    function, f = _helper(e, f"same_value_{width}", "32xi32", [f"32xi{width}", "i32"])
    if f is None:
        return function
    values, lanes = f.args
    stored = f.variable(f"32xi{width}", values)
    result = f.variable("32xi32", f.const("32xi32", 0))
    with f.each_lane(lanes) as lane:
        one = f.load(f"i{width}", Native(f, stored.slot), lane.to("i64") * (width // 8))
        equal = Native(f, f.b.icmp_unsigned("==", values.v, f.splat(one).v)).to("i32")
        f.store(equal, Native(f, result.slot), lane.to("i64") * 4)
    f.ret(result.get())
    return function


def reduce(e: Emitter, op: Op) -> None:
    assert op.form is not None
    form = op.form
    kind = form.types[0]
    if kind.kind == "f":
        _reduce_floats(e, op)
        return
    name = form.one_of("add", "min", "max", "and", "or", "xor")
    intrinsic = {"min": "smin" if kind.signed else "umin", "max": "smax" if kind.signed else "umax"}.get(name, name)
    neutral = {"add": 0, "or": 0, "xor": 0, "and": -1, "umin": -1, "umax": 0, "smin": 0x7FFFFFFF, "smax": 0x80000000}[intrinsic]
    value = e.exchanged(e.values.vector(e.read(op.args[0], "i32")), "i32")
    members = member_mask(e, op, op.args[1])
    if op.results[0] is None:
        return
    if members.shape == UNIFORM:
        chosen = e.b.select(e.b.bitcast(members.parts[0], vector_type("i1")), value, e.values.warp.const("i32", neutral))
        e.set(op.results[0], uniform("i32", vector_reduce(e, intrinsic, chosen)), op)
        return
    function, f = _helper(e, f"redux_{intrinsic}", "32xi32", ["32xi32", "32xi32", "i32"])
    if f is not None:
        values, masks, lanes = f.args
        stored = f.variable("32xi32", masks)
        result = f.variable("32xi32", values)
        with f.each_lane(lanes) as lane:
            mask = f.load("i32", Native(f, stored.slot), lane.to("i64") * 4)
            named = mask.to("32xi1").select(values, f.const("32xi32", neutral & 0xFFFFFFFF))
            total = f.intrinsic(f"llvm.vector.reduce.{intrinsic}.v32i32", "i32", named)
            f.store(total, Native(f, result.slot), lane.to("i64") * 4)
        f.ret(result.get())
    e.set(op.results[0], varying("i32", e.b.call(function, [value, members.parts[0], e.active])), op)


def _reduce_floats(e: Emitter, op: Op) -> None:
    """min or max of f32, as the instruction of that name has it (PTX ISA 9.7.13.11): halves of the warp against each other."""
    assert op.form is not None
    form = op.form
    members = member_mask(e, op, op.args[1])
    if members.shape != UNIFORM:
        raise UnsupportedError(f"PTX line {op.line}: `{form.text}` with a mask that differs between lanes is not supported")
    if op.results[0] is None:
        return
    strict = "NaN" in form
    pair = lookup(f"{form.one_of('min', 'max')}{'.NaN' if strict else ''}.f32")
    assert pair.operation.lower is not None
    warp = e.values.warp
    value = e.exchanged(e.values.vector(e.read(op.args[0], "f32")), "f32")
    if "abs" in form:
        value = warp.intrinsic("llvm.fabs", "f32", value)
    infinity = float("inf") if "min" in form else float("-inf")
    value = e.b.select(e.b.bitcast(members.parts[0], vector_type("i1")), value, warp.const("f32", infinity if strict else float("nan")))
    for distance in (16, 8, 4, 2, 1):
        other = e.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), _vector_constant([k ^ distance for k in range(32)]))
        value = pair.operation.lower(warp, pair, value, other, None)
    total = canonical_nan(e.values.scalar, e.b.extract_element(value, ir.Constant(I32, 0)))
    e.set(op.results[0], uniform("f32", total), op)


def vector_reduce(e: Emitter, name: str, vector: ir.Value) -> ir.Value:
    bits = vector.type.element.width
    full = f"llvm.vector.reduce.{name}.v32i{bits}"
    function = e.module.globals.get(full)
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(ir.IntType(bits), [vector.type]), full)
    return e.b.call(function, [vector])

