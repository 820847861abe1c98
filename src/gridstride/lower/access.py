"""ld and st by the fastest way that is safe: one place, a row of lanes, indices, lane by lane (PTX ISA 9.7.9.8 to 9.7.9.12)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.ir.nodes import Op
from gridstride.isa.lanes import scalar_type, vector_type
from gridstride.lower.emitter import I32, I64, Emitter
from gridstride.lower.fast_addresses import (
    Indexed,
    affine_rows,
    bit_function,
    consecutive_from,
    index_offsets,
    index_range,
    shared_lanes_ok,
    shared_offsets,
    times,
)
from gridstride.lower.native import POINTER
from gridstride.lower.records import BLOCK, WARP, WORKER
from gridstride.lower.target import (
    Target,
    both,
    halves,
    host_address,
    host_base,
    in_range,
    is_aligned,
    joined,
    resolved_one,
    slow_load,
    slow_store,
    target_of,
)
from gridstride.lower.values import Value, uniform, varying
from gridstride.lower.vector_memory import (
    Rows,
    gather_indexed,
    has_gather,
    load_rows,
    masked_load,
    masked_store,
    pointer,
    scatter_indexed,
    store_rows,
)
from gridstride.passes.analyse_shapes import UNIFORM

_WEIGHTS = [1_000_000, 1]


def either(
    e: Emitter, condition: ir.Value, fast: Callable[[], list[ir.Value]], slow: Callable[[], list[ir.Value]], likely: bool = True
) -> list[ir.Value]:
    """Values of the fast way where `condition` holds, of the slow one elsewhere."""
    b = e.b
    yes, no, meet = (e.native.append_basic_block(n) for n in ("fast", "slow", "meet"))
    branch = b.cbranch(condition, yes, no)
    if likely:
        branch.set_weights(_WEIGHTS)
    incoming = []
    for block, way in ((yes, fast), (no, slow)):
        b.position_at_end(block)
        values = way()
        incoming.append((values, b.block))
        b.branch(meet)
    b.position_at_end(meet)
    merged: list[ir.Value] = []
    for k, first in enumerate(incoming[0][0]):
        phi = b.phi(first.type)
        for values, block in incoming:
            phi.add_incoming(values[k], block)
        merged.append(phi)
    return merged


def either_way(e: Emitter, condition: ir.Value, fast: Callable[[], None], slow: Callable[[], None], likely: bool = True) -> None:
    """`either` for ways that give no values."""

    def nothing(way: Callable[[], None]) -> list[ir.Value]:
        way()
        return []

    either(e, condition, lambda: nothing(fast), lambda: nothing(slow), likely)


def load(e: Emitter, op: Op) -> None:
    """Lower ld."""
    t = target_of(e, op)
    watch(e, t, [])
    if t.address.shape == UNIFORM and t.space != "local" and not _per_lane(e, op):
        _set_elements(e, op, t, _load_uniform(e, t), uniform)
    else:
        _set_elements(e, op, t, _load_lanes(e, t), varying)


def watch(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    """Let the observers that are on see an access before it is made; `values` is what a store will write."""
    if e.counting:
        from gridstride.lower.counting import count_access

        count_access(e, t)
    if e.checks:
        from gridstride.lower.checking import check_access

        check_access(e, t, values)


def _per_lane(e: Emitter, op: Op) -> bool:
    """A generic address may be a local one, which means another place for each lane."""
    return op.access is not None and op.access.space == "generic" and e.function.local_bytes > 0


def _set_elements(e: Emitter, op: Op, t: Target, elements: list[ir.Value], make: Callable[[str, ir.Value], Value]) -> None:
    assert op.access is not None
    if op.access.element.bits == 128:
        lanes = e.values.scalar if make is uniform else e.values.warp
        low, high = (e.b.zext(x, lanes.type("i128")) for x in elements)
        elements = [e.b.or_(low, e.b.shl(high, lanes.const("i128", 64)))]
        t = Target(op, t.space, t.address, None, 128, 1, t.aligned)
    for result, element in zip(op.results, elements, strict=True):
        if result is not None:
            value = e.values.convert(make(f"i{t.bits}", element), e.storage(result), op.access.element.signed)
            e.set(result, value, op)


def _load_uniform(e: Emitter, t: Target) -> list[ir.Value]:
    address = t.address.parts[0]
    size = t.bits // 8
    ok = both(e, in_range(e, t, address, address), is_aligned(e, t, address))

    def at_place(place: ir.Value) -> list[ir.Value]:
        return [e.b.load(pointer(e, place, size * k), typ=scalar_type(f"i{t.bits}"), align=size) for k in range(t.count)]

    def slow() -> list[ir.Value]:
        return [e.b.inttoptr(resolved_one(e, t, address), POINTER)]

    place = either(e, ok, lambda: [host_address(e, t, address)], slow)[0]
    return at_place(place)


def _load_lanes(e: Emitter, t: Target) -> list[ir.Value]:
    if t.space == "local":
        return _load_local(e, t)
    affine = affine_rows(e, t)
    if affine is not None:
        rows, ok = affine
        rows = _on_host(e, t, rows)
        return either(e, ok, lambda: load_rows(e, rows, t.bits, t.count), lambda: slow_load(e, t))
    indexed = index_range(e, t)
    if indexed is not None:
        ix, ok = indexed
        return either(e, ok, lambda: _load_indexed(e, t, ix), lambda: slow_load(e, t))
    if t.space == "shared" and has_gather():
        return either(e, shared_lanes_ok(e, t), lambda: _load_shared_lanes(e, t), lambda: slow_load(e, t))
    return slow_load(e, t)


def _on_host(e: Emitter, t: Target, rows: Rows) -> Rows:
    base = host_base(e, t)
    return rows if base is None else Rows(pointer(e, base, rows.base), rows.step, rows.row)


def _load_indexed(e: Emitter, t: Target, ix: Indexed) -> list[ir.Value]:
    size = t.bits // 8

    def one_by_one() -> list[ir.Value]:
        offsets = index_offsets(e, ix)
        return [gather_indexed(e, pointer(e, ix.base, size * k), offsets, t.bits, e.active, e.active_lanes) for k in range(t.count)]

    if t.count > 1 or ix.scale != size:
        return one_by_one()
    first, consecutive = consecutive_from(e, ix.index)

    def line() -> list[ir.Value]:
        extended = e.b.sext(first, I64) if ix.signed else e.b.zext(first, I64)
        return [masked_load(e, pointer(e, ix.base, times(e, extended, size)), t.bits, e.active_lanes)]

    return either(e, consecutive, line, one_by_one, likely=False)


def _load_shared_lanes(e: Emitter, t: Target) -> list[ir.Value]:
    base = e.once("shared", BLOCK, e.block, "shared")
    offsets = shared_offsets(e, t)
    size = t.bits // 8
    return [gather_indexed(e, pointer(e, base, size * k), offsets, t.bits, e.active, e.active_lanes) for k in range(t.count)]


def _local_row(e: Emitter, t: Target, element: int) -> ir.Value:
    """Pointer to the 32 lanes' words that hold element `element` of a uniform local address."""
    base = e.once("local", WARP, e.warp, "local")
    offset = e.b.add(t.address.parts[0], ir.Constant(I64, element * t.bits // 8))
    word = e.b.and_(offset, ir.Constant(I64, ~3 & ((1 << 64) - 1)))
    return pointer(e, base, e.b.mul(word, ir.Constant(I64, 32)))


def _local_fast(e: Emitter, t: Target) -> ir.Value | None:
    if t.address.shape != UNIFORM or t.bits < 32:
        return None
    address = t.address.parts[0]
    return both(e, in_range(e, t, address, address), is_aligned(e, t, address))


def _load_local(e: Emitter, t: Target) -> list[ir.Value]:
    ok = _local_fast(e, t)
    if ok is None:
        return slow_load(e, t)

    def rows() -> list[ir.Value]:
        found = []
        for k in range(t.count):
            place = _local_row(e, t, k)
            low = e.b.load(place, typ=vector_type("i32"), align=64)
            found.append(low if t.bits == 32 else joined(e, low, e.b.load(pointer(e, place, 128), typ=vector_type("i32"), align=64)))
        return found

    return either(e, ok, rows, lambda: slow_load(e, t))


def store(e: Emitter, op: Op) -> None:
    """Lower st."""
    t = target_of(e, op)
    access = op.access
    assert access is not None
    if access.ordering != "weak":  # somebody may wait for it: a loop that stores so is not one that only spins
        changes = e.b.add(e.field(e.b, WORKER, e.worker, "changes"), ir.Constant(I64, 1))
        e.put_field(WORKER, e.worker, "changes", changes)
    values = [e.observed(a, f"i{access.element.bits}" if access.element.bits >= 8 else "i8") for a in op.args[1:]]
    if access.element.bits == 128:
        whole = e.values.vector(values[0])
        parts = [whole, e.b.lshr(whole, e.values.warp.const("i128", 64))]
        values = [varying("i64", e.b.trunc(p, vector_type("i64"))) for p in parts]
    watch(e, t, [e.values.vector(v) for v in values] if e.checks else [])
    if t.address.shape == UNIFORM and t.space != "local" and not _per_lane(e, op):
        _store_uniform(e, t, values)
        return
    vectors = [e.values.vector(v) for v in values]
    if t.space == "local":
        _store_local(e, t, vectors)
        return
    affine = affine_rows(e, t)
    if affine is not None:
        rows, ok = affine
        rows = _on_host(e, t, rows)
        either_way(e, ok, lambda: store_rows(e, rows, vectors), lambda: slow_store(e, t, vectors))
        return
    indexed = index_range(e, t)
    if indexed is not None:
        ix, ok = indexed
        either_way(e, ok, lambda: _store_indexed(e, t, ix, vectors), lambda: slow_store(e, t, vectors))
        return
    if t.space == "shared" and has_gather():

        def lanes() -> None:
            base = e.once("shared", BLOCK, e.block, "shared")
            offsets = shared_offsets(e, t)
            for k, vector in enumerate(vectors):
                scatter_indexed(e, vector, pointer(e, base, t.bits // 8 * k), offsets, e.active, e.active_lanes)

        either_way(e, shared_lanes_ok(e, t), lanes, lambda: slow_store(e, t, vectors))
        return
    slow_store(e, t, vectors)


def _store_uniform(e: Emitter, t: Target, values: list[Value]) -> None:
    """All lanes write one place: the highest lane's value stays."""
    b, address, size = e.b, t.address.parts[0], t.bits // 8
    leading = b.call(bit_function(e, "llvm.ctlz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)])
    last = b.sub(ir.Constant(I32, 31), leading)
    scalars = [v.parts[0] if v.shape == UNIFORM else b.extract_element(e.values.vector(v), last) for v in values]
    ok = both(e, in_range(e, t, address, address), is_aligned(e, t, address))
    place = either(e, ok, lambda: [host_address(e, t, address)], lambda: [e.b.inttoptr(resolved_one(e, t, address), POINTER)])[0]
    for k, scalar in enumerate(scalars):
        b.store(scalar, pointer(e, place, size * k), align=size)


def _store_indexed(e: Emitter, t: Target, ix: Indexed, vectors: list[ir.Value]) -> None:
    size = t.bits // 8

    def one_by_one() -> None:
        offsets = index_offsets(e, ix)
        for k, vector in enumerate(vectors):
            scatter_indexed(e, vector, pointer(e, ix.base, size * k), offsets, e.active, e.active_lanes)

    if t.count > 1 or ix.scale != size:
        one_by_one()
        return
    first, consecutive = consecutive_from(e, ix.index)

    def line() -> None:
        extended = e.b.sext(first, I64) if ix.signed else e.b.zext(first, I64)
        masked_store(e, vectors[0], pointer(e, ix.base, times(e, extended, size)), e.active_lanes)

    either_way(e, consecutive, line, one_by_one, likely=False)


def _store_local(e: Emitter, t: Target, vectors: list[ir.Value]) -> None:
    ok = _local_fast(e, t)
    if ok is None:
        slow_store(e, t, vectors)
        return

    def rows() -> None:
        for k, vector in enumerate(vectors):
            place = _local_row(e, t, k)
            words = (vector,) if t.bits == 32 else halves(e, vector)
            for half, word in enumerate(words):
                masked_store(e, word, pointer(e, place, 128 * half), e.active_lanes)

    either_way(e, ok, rows, lambda: slow_store(e, t, vectors))
