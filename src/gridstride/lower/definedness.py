"""The shadow of memory that says which bytes are undefined: a byte for each byte, at a distance that its space sets.

WRITTEN (0, so that the shadow of what is cleared and not touched takes no memory); NEVER nobody has written it; COPIED something undefined was
copied there; DERIVED something computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from gridstride.ir.nodes import Const, Op
from gridstride.isa.reference_definedness import BYTES, COMPUTED
from gridstride.lower import undefined_origins
from gridstride.lower.checking import note_lanes
from gridstride.lower.emitter import I32, I64, Emitter
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import BLOCK, WORKER
from gridstride.lower.target import Target, resolved, target_of, word_by_word
from gridstride.lower.values import varying
from gridstride.lower.vector_memory import has_gather
from gridstride.passes.track_definedness import Use

NEVER, WRITTEN, COPIED, DERIVED = 0xFF, 0x00, 0x01, 0x02
_SINKS = {"branch": "branch", "address": "address", "output": "output", "operand": "output", "update": "update", "decision": "decision"}


def lower(e: Emitter, op: Op) -> None:
    assert op.form is not None
    if "check" in op.form:
        _check(e, op)
        return
    t = target_of(e, op)
    if "load" in op.form:
        loaded = _load(e, t)
        undefined_origins.note(e, t, loaded)
        for result, value in zip(op.results, loaded, strict=True):
            if result is not None:
                e.set(result, varying("i32", value), op)
        return
    values: list[ir.Value]
    if all(a == Const(0) for a in op.args[1:]):
        values = [e.values.warp.const("i32", 0)] * len(op.args[1:])
    else:
        values = [e.values.vector(e.read(a, "i32")) for a in op.args[1:]]
    if "update" in op.form:
        _store_if_undefined(e, t, values[0])
    else:
        _store(e, t, values)


def _store_if_undefined(e: Emitter, t: Target, value: ir.Value) -> None:
    """What an atomic leaves: where nothing was undefined nothing becomes so."""
    lanes = e.b.and_(e.b.bitcast(e.b.icmp_unsigned("!=", value, e.values.warp.const("i32", 0)), I32), e.active)
    some, done = e.native.append_basic_block("undefined"), e.native.append_basic_block("updated")
    e.b.cbranch(e.b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0)), some, done).set_weights([1, 100_000])
    e.b.position_at_end(some)
    _store(e, t, [value])
    e.b.branch(done)
    e.b.position_at_end(done)


def _check(e: Emitter, op: Op) -> None:
    """Report lanes of which an undefined value decides something. Only what was computed counts as an output; plain
    copies may carry undefined bytes."""
    assert isinstance(op.info, Use)
    value = e.values.vector(e.read(op.args[0], "i32"))
    mask = COMPUTED if op.info.what == "output" else COMPUTED | BYTES
    bad = e.b.icmp_unsigned("!=", e.b.and_(value, e.values.warp.const("i32", mask)), e.values.warp.const("i32", 0))
    note_lanes(e, op, bad, "uninitialised", _SINKS[op.info.what], undefined_origins.finder(e, op.info.sites))


def _distance(e: Emitter, t: Target, hosts: ir.Value) -> ir.Value:
    """From each lane's host address to its shadow. Lanes of a generic access may be in different spaces."""
    b = e.b
    shared = e.splat(b.sub(b.ptrtoint(e.field(b, BLOCK, e.block, "shared_defined"), I64), b.ptrtoint(e.field(b, BLOCK, e.block, "shared"), I64)))
    if t.space == "shared":
        return shared
    local = e.splat(e.field(b, BLOCK, e.block, "local_defined"))
    if t.space == "local":
        return local
    flat = e.splat(e.field(b, WORKER, e.worker, "defined"))
    assert t.op.access is not None
    if t.op.access.space != "generic":
        return flat

    def within(start: str, size: ir.Value) -> ir.Value:
        begin = b.ptrtoint(e.field(b, BLOCK, e.block, start), I64)
        return b.icmp_unsigned("<", b.sub(hosts, e.splat(begin)), e.splat(size))

    # from the first to the last block of the cluster, each with its memory and its shadow at the same distance
    size = b.zext(e.field(b, WORKER, e.worker, "cluster_size"), I64)
    in_shared = within("cluster", b.mul(size, e.field(b, WORKER, e.worker, "block_stride")))
    in_local = within("locals", e.field(b, BLOCK, e.block, "locals_bytes"))
    return b.select(in_local, local, b.select(in_shared, shared, flat))


def _places(e: Emitter, t: Target) -> list[list[tuple[ir.Value, int]]]:
    """For each element the shadow addresses of its pieces, and their bytes."""
    size = t.bits // 8
    if not word_by_word(e, t):
        hosts = resolved(e, t)
        start = e.b.add(hosts, _distance(e, t, hosts))
        step = min(size, 8)
        return [[(e.b.add(start, e.values.warp.const("i64", size * k + p)), step) for p in range(0, size, step)] for k in range(t.count)]
    found = []
    for k in range(t.count):
        pieces = []
        for part in range(0, size, 4):
            hosts = resolved(e, t, size * k + part, min(size, 4))
            pieces.append((e.b.add(hosts, _distance(e, t, hosts)), min(size, 4)))
        found.append(pieces)
    return found


def _joined(t: Target) -> bool:
    """Whether two 64-bit elements are one 128-bit register."""
    assert t.op.access is not None
    return t.op.access.element.bits == 128


def _load(e: Emitter, t: Target) -> list[ir.Value]:
    values = []
    for pieces in _places(e, t):
        total: ir.Value | None = None
        for number, (places, size) in enumerate(pieces):
            value: ir.Value = e.b.call(_reader(e.module, size), [places, e.active])
            if number:
                value = _moved(e, value, number * size)
            total = value if total is None else e.b.or_(total, value)
        assert total is not None
        values.append(total)
    if _joined(t):
        values = [e.b.or_(values[0], _moved(e, values[1], 8))]
    return values


def _store(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    if _joined(t):
        values = [values[0], _moved(e, values[0], -8)]
    for pieces, value in zip(_places(e, t), values, strict=True):
        for number, (places, size) in enumerate(pieces):
            part = _moved(e, value, -number * size) if number else value
            e.b.call(_writer(e.module, size), [places, e.active, part])


def _moved(e: Emitter, companion: ir.Value, places: int) -> ir.Value:
    """A companion for other bytes of its register: up by so many, or down. That it was computed stays."""
    const, shift = e.values.warp.const, e.b.shl if places > 0 else e.b.lshr
    moved = e.b.and_(shift(e.b.and_(companion, const("i32", BYTES)), const("i32", abs(places))), const("i32", BYTES))
    return e.b.or_(moved, e.b.and_(companion, const("i32", COMPUTED)))


def _reader(module: ir.Module, size: int) -> ir.Function:
    """(shadow addresses, mask) -> a bit for each of `size` bytes that is undefined."""
    name = f"defined_load_{size}"
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "32xi32", ["32xi64", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    addresses, mask = f.args
    stored, result = f.variable("32xi64", addresses), f.variable("32xi32", f.const("32xi32", 0))
    bits = size * 8
    first = f.element(addresses, 0)
    line = f.splat(first) + f.lanes("i64") * size
    differs = Native(f, f.b.icmp_unsigned("!=", addresses.v, line.v)).to("i32")
    with f.if_((differs | ~mask).eq(0)):  # a whole line that is defined: the usual case
        words = f.load(f"{4 * size}xi64", first.to("ptr"), align=1)
        union = f.intrinsic(f"llvm.vector.reduce.or.v{4 * size}i64", "i64", words)
        f.ret_if(union.eq(0), f.const("32xi32", 0))
    for width in (16, 8):
        with _rows(f, addresses, mask, width, size) as starts:
            f.ret_if(_union_of(f, starts, width * size).eq(0), f.const("32xi32", 0))
    with _rows(f, addresses, mask, 16, 0) as starts:  # one place for each half of the warp
        first_half, second_half = (f.load(f"i{bits}", start.to("ptr"), align=1) for start in starts)
        f.ret_if((first_half | second_half).eq(0), f.const("32xi32", 0))
    if size >= 4 and has_gather():  # bytes here and there that are all defined: atomics on a table, say
        pointers = Native(f, f.b.inttoptr(addresses.v, ir.VectorType(ir.PointerType(), 32)))
        states = f.intrinsic(f"llvm.masked.gather.v32i{bits}.v32p0", f"32xi{bits}", pointers, f.const("i32", 1), mask.to("32xi1"), f.const(f"32xi{bits}", 0))
        f.ret_if(f.intrinsic(f"llvm.vector.reduce.or.v32i{bits}", f"i{bits}", states).eq(0), f.const("32xi32", 0))
    with f.each_lane(mask) as lane:
        at = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        value = f.load(f"i{bits}", at.to("ptr"), align=1)
        total = f.const("i32", 0)
        for k in range(size):
            byte = (value >> (8 * k)) & 0xFF
            total = total | (byte.ne(WRITTEN).to("i32") << k) | byte.eq(DERIVED).select(f.const("i32", COMPUTED), f.const("i32", 0))
        f.store(total, Native(f, result.slot), lane.to("i64") * 4)
    f.ret(result.get())
    return f.function


@contextmanager
def _rows(f: NativeFunction, addresses: Native, mask: Native, width: int, step: int) -> Iterator[list[Native]]:
    """Where the whole warp accesses rows of so many lanes, `step` bytes from lane to lane (as in blocks 16 wide): the start of each row."""
    starts = Native(f, f.b.shuffle_vector(addresses.v, addresses.v, ir.Constant(ir.VectorType(ir.IntType(32), 32), [k - k % width for k in range(32)])))
    fits = (addresses - starts).eq((f.lanes("i64") & (width - 1)) * step).to("i32")
    with f.if_((fits & mask).eq(f.const("i32", -1))):
        yield [f.element(addresses, k) for k in range(0, 32, width)]


def _union_of(f: NativeFunction, starts: list[Native], size: int) -> Native:
    """The bits that are set in any eight-byte word of some rows of shadow."""
    total = f.const(f"{size // 8}xi64", 0)
    for start in starts:
        total = total | f.load(f"{size // 8}xi64", start.to("ptr"), align=1)
    return f.intrinsic(f"llvm.vector.reduce.or.v{size // 8}i64", "i64", total)


def _writer(module: ir.Module, size: int) -> ir.Function:
    """(shadow addresses, mask, companions): bytes become defined, or copies of something undefined."""
    name = f"defined_store_{size}"
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "void", ["32xi64", "i32", "32xi32"], attributes=("noinline",))
    f.function.linkage = "internal"
    addresses, mask, values = f.args
    first = f.element(addresses, 0)
    line = f.splat(first) + f.lanes("i64") * size
    differs = Native(f, f.b.icmp_unsigned("!=", addresses.v, line.v)).to("i32")
    union = f.intrinsic("llvm.vector.reduce.or.v32i32", "i32", mask.to("32xi1").select(values, f.const("32xi32", 0)))
    with f.if_(((differs | ~mask) | (union & BYTES)).eq(0)):
        f.store(f.const(f"{4 * size}xi64", 0), first.to("ptr"), align=1)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    for width in (16, 8):
        with _rows(f, addresses, mask, width, size) as rows, f.if_((union & BYTES).eq(0)):
            for start in rows:
                f.store(f.const(f"{width * size // 8}xi64", 0), start.to("ptr"), align=1)
            f.ret()
            f.b.position_at_end(f.block("dead"))
    stored, source = f.variable("32xi64", addresses), f.variable("32xi32", values)
    with f.each_lane(mask) as lane:
        at = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        value = f.load("i32", Native(f, source.slot), lane.to("i64") * 4)
        kind = f"i{size * 8}"
        state = (value & COMPUTED).ne(0).select(f.const(kind, DERIVED), f.const(kind, COPIED))
        total = f.const(kind, 0)
        for k in range(size):
            total = total | (((value >> k) & 1).ne(0).select(state, f.const(kind, WRITTEN)) << (8 * k))
        f.store(total, at.to("ptr"), align=1)
    f.ret()
    return f.function

