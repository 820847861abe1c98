"""ld and st: addresses, checks, and the fast and slow ways to memory (PTX ISA 9.7.9.8 to 9.7.9.12).

Global, constant and generic addresses are host addresses: the fast way is taken when the lowest and the highest
byte of the warp's access lie in the allocation that this instruction hit last. Shared addresses are offsets into
the block's shared memory. Whatever the fast way cannot decide goes to `resolve`, which looks at every lane, finds
the allocation or the fault, and returns host addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from gridstride.ir.nodes import AddressOf, Op, Reg
from gridstride.isa.lanes import scalar_type, vector_type
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.native import POINTER
from gridstride.lower.records import BLOCK, SPACES, WARP, WORKER
from gridstride.lower.runtime_table import call_runtime
from gridstride.lower.values import Value, uniform, varying
from gridstride.lower.vector_memory import (
    Rows,
    gather,
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
MAX_ROW = 1 << 56  # bytes from one row of lanes to the next: 32 of them stay far from wrapping


@dataclass
class Target:
    """One access being lowered."""

    op: Op
    space: str  # "flat", "shared" or "local"
    address: Value  # i64
    narrow: Value | None  # the address before it was extended, where the register has 32 bits
    bits: int  # of one element in memory
    count: int
    aligned: int  # bytes that the address is known to be a multiple of

    @property
    def bytes(self) -> int:
        return self.bits // 8 * self.count


def target_of(e: Emitter, op: Op) -> Target:
    access = op.access
    assert access is not None
    space = access.space if access.space in ("shared", "local") else "flat"
    base = op.args[0]
    if isinstance(base, AddressOf):
        address = uniform("i64", e.symbol(base))
    else:
        address = e.read(base, e.storage(base.id) if isinstance(base, Reg) else "i64")
    address = e.values.plus_constant(address, access.offset)
    narrow = address if address.type == "i32" else None
    if narrow is not None:
        address = _extended(e, address)
    bits, count = access.element.bits, access.count
    if bits == 128:
        bits, count = 64, count * 2
    known = 1 << min(e.alignments.get(base.id, 0), _low_zeros(access.offset), 12) if isinstance(base, Reg) else 1
    return Target(op, space, address, narrow, max(8, bits), count, known)


def _extended(e: Emitter, address: Value) -> Value:
    """A 32-bit address as 64 bits. An affine one stays affine: where its 32-bit sum would wrap, the 64-bit sum is
    out of bounds and the exact addresses are looked at."""
    if address.shape.kind == "affine":
        base = e.b.sext(address.parts[0], I64)  # a row that begins below zero may reach inside
        return Value(address.shape, "i64", (base, *[e.b.sext(p, I64) for p in address.parts[1:]]))
    return e.values.convert(address, "i64")


# ---- checks ----------------------------------------------------------------------------------------------------


def _in_range(e: Emitter, t: Target, low: ir.Value, high: ir.Value) -> ir.Value:
    """Whether the accesses from address `low` to address `high` are inside what the fast way knows."""
    b = e.b
    if t.space == "flat":
        first, end = _slot(e, t)
        last = b.sub(end, ir.Constant(I64, t.bytes))
        inside = b.and_(b.icmp_unsigned(">=", low, first), b.icmp_unsigned("<=", high, last))
        # a line that runs over the end of the address space begins above its end
        return inside if low is high else b.and_(inside, b.icmp_unsigned("<=", low, high))
    field = "shared_bytes" if t.space == "shared" else "local_bytes"
    limit = e.once(field, WORKER, e.worker, field)
    last = b.sub(limit, ir.Constant(I64, t.bytes))
    inside = b.and_(b.icmp_signed(">=", low, ir.Constant(I64, 0)), b.icmp_signed("<=", high, last))
    return inside if low is high else b.and_(inside, b.icmp_signed("<=", low, high))


def _slot(e: Emitter, t: Target) -> tuple[ir.Value, ir.Value]:
    slots = e.once("slots", WORKER, e.worker, "slots")
    place = e.b.gep(slots, [ir.Constant(I64, 16 * t.op.site)], source_etype=I8)
    return e.b.load(place, typ=I64), e.b.load(pointer(e, place, 8), typ=I64)


def _aligned(e: Emitter, t: Target, *parts: ir.Value) -> ir.Value | None:
    if t.bytes <= t.aligned:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = e.b.or_(total, part)
    low_bits = e.b.and_(total, ir.Constant(I64, t.bytes - 1))
    return e.b.icmp_unsigned("==", low_bits, ir.Constant(I64, 0))


def _both(e: Emitter, a: ir.Value, b: ir.Value | None) -> ir.Value:
    return a if b is None else e.b.and_(a, b)


def _host_base(e: Emitter, t: Target) -> ir.Value | None:
    if t.space == "shared":
        return e.once("shared", BLOCK, e.block, "shared")
    return None


def _at(e: Emitter, t: Target, address: ir.Value) -> ir.Value:
    """The host pointer of a scalar address."""
    base = _host_base(e, t)
    return pointer(e, address) if base is None else pointer(e, base, address)


# ---- the slow way ----------------------------------------------------------------------------------------------


def _resolve_arguments(e: Emitter, t: Target, where: ir.Value, size: int, align: int) -> list[ir.Value]:
    assert t.op.access is not None
    space = SPACES.index(t.op.access.space)
    constants = [ir.Constant(I64, size), ir.Constant(I64, align), ir.Constant(I32, space)]
    return [e.worker, e.block, e.warp, ir.Constant(I32, t.op.site), where, e.active, *constants]


def _exact(e: Emitter, t: Target) -> ir.Value:
    """The addresses of all lanes; what has 32 bits wraps there (see `_extended`)."""
    if t.narrow is None or t.narrow.shape == UNIFORM:
        return e.values.vector(t.address)
    return e.b.zext(e.values.vector(t.narrow), vector_type("i64"))


def resolved(e: Emitter, t: Target, offset: int = 0, size: int | None = None) -> ir.Value:
    """Host addresses of all lanes, after the exact checks; leaves the kernel where they fail."""
    addresses = _plus(e, _exact(e, t), offset)
    align = t.bytes if offset == 0 else size or t.bytes  # of an access in pieces the first is as aligned as the whole
    hosts = call_runtime(e, "resolve", _resolve_arguments(e, t, addresses, size or t.bytes, align))
    e.stop_if_faulted()
    return hosts


def word_by_word(e: Emitter, t: Target) -> bool:
    """Whether 32-bit words that are neighbours to the thread may lie apart in the host's memory."""
    assert t.op.access is not None
    return t.bytes > 4 and (t.space == "local" or (t.op.access.space == "generic" and e.function.local_bytes > 0))


def _slow_load(e: Emitter, t: Target) -> list[ir.Value]:
    size = t.bits // 8
    if t.count == 1 and not word_by_word(e, t):
        loaded = call_runtime(e, f"slow_load{t.bits}", _resolve_arguments(e, t, _exact(e, t), t.bytes, t.bytes))
        e.stop_if_faulted()
        return [loaded]
    if not word_by_word(e, t):
        hosts = resolved(e, t)
        return [gather(e, _plus(e, hosts, size * k), t.bits, e.active, e.active_lanes) for k in range(t.count)]
    if size <= 4:
        return [gather(e, resolved(e, t, size * k, size), t.bits, e.active, e.active_lanes) for k in range(t.count)]
    return [_joined(e, *[gather(e, resolved(e, t, 8 * k + h, 4), 32, e.active, e.active_lanes) for h in (0, 4)]) for k in range(t.count)]


def _slow_store(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    size = t.bits // 8
    if t.count == 1 and not word_by_word(e, t):
        call_runtime(e, f"slow_store{t.bits}", [*_resolve_arguments(e, t, _exact(e, t), t.bytes, t.bytes), values[0]])
        e.stop_if_faulted()
        return
    if not word_by_word(e, t):
        hosts = resolved(e, t)
        for k, value in enumerate(values):
            call_runtime(e, f"scatter{t.bits}", [_plus(e, hosts, size * k), e.active, value])
        return
    for k, value in enumerate(values):
        if size <= 4:
            call_runtime(e, f"scatter{t.bits}", [resolved(e, t, size * k, size), e.active, value])
            continue
        for half, word in enumerate(_split(e, value)):
            call_runtime(e, "scatter32", [resolved(e, t, 8 * k + 4 * half, 4), e.active, word])


def _plus(e: Emitter, hosts: ir.Value, offset: int) -> ir.Value:
    return e.b.add(hosts, e.values.warp.const("i64", offset)) if offset else hosts


def _joined(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    wide = vector_type("i64")
    return e.b.or_(e.b.zext(low, wide), e.b.shl(e.b.zext(high, wide), e.values.warp.const("i64", 32)))


def _split(e: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    narrow = vector_type("i32")
    return e.b.trunc(value, narrow), e.b.trunc(e.b.lshr(value, e.values.warp.const("i64", 32)), narrow)


# ---- the fast ways ---------------------------------------------------------------------------------------------


def _affine_rows(e: Emitter, t: Target) -> tuple[Rows, ir.Value] | None:
    """Where an affine address goes, and the condition under which that is right and inside."""
    b, address, width = e.b, t.address, e.layout.width
    exact: ir.Value | None = None
    if address.shape.kind == "wide":
        inner, scale = address.inner, address.shape.scale
        if inner.shape.kind != "affine" or abs(inner.shape.step) >= 1 << 32:
            return None
        extend = b.sext if address.shape.signed else b.zext
        first = extend(inner.parts[0], I64)
        inner_row = b.sext(inner.parts[1], I64) if inner.shape.row else None
        exact = _corners_fit(e, first, inner.shape.step, inner_row, address.shape.signed)
        base = b.add(address.parts[0], _times(e, first, scale))
        step = inner.shape.step * scale
        row = _times(e, inner_row, scale) if inner_row is not None else None
        aligned_parts = [address.parts[0], *([] if scale % t.bytes == 0 else [_times(e, first, scale)])]
        if row is not None and scale % t.bytes:
            aligned_parts.append(row)
    elif address.shape.kind == "affine":
        base, step = address.parts[0], address.shape.step
        row = address.parts[1] if address.shape.row else None
        aligned_parts = [base, *([row] if row is not None else [])]
    else:
        return None
    if step % t.bytes:
        if t.bits // 8 == 1 and t.count == 1:
            pass
        else:
            return None
    rows = Rows(base, step, row)
    low, high = _extent(e, rows, width)
    ok = _both(e, _in_range(e, t, low, high), _aligned(e, t, *aligned_parts))
    if row is not None:  # a row this long wraps around the address space
        ok = b.and_(ok, b.icmp_unsigned("<", b.add(row, ir.Constant(I64, MAX_ROW)), ir.Constant(I64, 2 * MAX_ROW)))
    return rows, _both(e, ok, exact)


def _times(e: Emitter, value: ir.Value, factor: int) -> ir.Value:
    return value if factor == 1 else e.b.mul(value, ir.Constant(I64, factor))


def _corners_fit(e: Emitter, first: ir.Value, step: int, row: ir.Value | None, signed: bool) -> ir.Value:
    """Whether the 32-bit sums of all lanes do not wrap: the sum is linear, so its corners decide."""
    b, width = e.b, e.layout.width
    corners = [b.add(first, ir.Constant(I64, step * (width - 1)))] if step else []
    if row is not None:
        last = b.mul(row, ir.Constant(I64, 32 // width - 1))
        corners += [b.add(c, last) for c in (first, *corners)]
    ok: ir.Value | None = None
    for corner in corners:
        shifted = b.add(corner, ir.Constant(I64, 1 << 31)) if signed else corner
        fits = b.icmp_unsigned("<", shifted, ir.Constant(I64, 1 << 32))
        ok = fits if ok is None else b.and_(ok, fits)
    assert ok is not None
    return ok


def _extent(e: Emitter, rows: Rows, width: int) -> tuple[ir.Value, ir.Value]:
    """Lowest and highest address: of the active lanes in one row, of all lanes if there are several rows."""
    b = e.b
    if width == 32:
        first = b.zext(e.values.scalar.b.call(_bit_function(e, "llvm.cttz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)]), I64)
        leading = b.call(_bit_function(e, "llvm.ctlz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)])
        last = b.zext(b.sub(ir.Constant(I32, 31), leading), I64)
        low, high = b.add(rows.base, _times(e, first, rows.step)), b.add(rows.base, _times(e, last, rows.step))
        return (low, high) if rows.step >= 0 else (high, low)
    line = rows.step * (width - 1)
    low = rows.base if line >= 0 else b.add(rows.base, ir.Constant(I64, line))
    high = b.add(rows.base, ir.Constant(I64, line)) if line > 0 else rows.base
    if rows.row is not None:
        reach = b.mul(rows.row, ir.Constant(I64, 32 // width - 1))
        negative = b.icmp_signed("<", reach, ir.Constant(I64, 0))
        zero = ir.Constant(I64, 0)
        low, high = b.add(low, b.select(negative, reach, zero)), b.add(high, b.select(negative, zero, reach))
    return low, high


def _bit_function(e: Emitter, name: str) -> ir.Function:
    function = e.module.globals.get(name)
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(I32, [I32, ir.IntType(1)]), name)
    return function


@dataclass
class Indexed:
    """A varying access at base + scale * extend(index) whose indices are known to be inside."""

    base: ir.Value
    scale: int
    index: ir.Value
    signed: bool


def _index_range(e: Emitter, t: Target) -> tuple[Indexed, ir.Value] | None:
    """For start + scale * extend(varying 32-bit index): the condition that all active indices are inside."""
    shape = t.address.shape
    if t.space == "flat" and (shape.kind != "wide" or t.address.inner.shape.kind != "varying" or shape.scale % t.bytes):
        return None
    b = e.b
    if t.space == "flat":
        start, index, scale, signed = t.address.parts[0], t.address.inner.parts[0], shape.scale, shape.signed
        first, end = _slot(e, t)
        lowest = b.sdiv(b.add(b.sub(first, start), ir.Constant(I64, scale - 1)), ir.Constant(I64, scale))
        highest = b.sdiv(b.sub(b.sub(end, ir.Constant(I64, t.bytes)), start), ir.Constant(I64, scale))
        # sdiv rounds towards zero: at the negative side that excludes nothing valid below `lowest` but may let
        # `highest` rise by one when it is negative, so a negative highest is taken down by one
        lowest = b.select(b.icmp_signed("<", b.sub(first, start), ir.Constant(I64, 0)), b.sdiv(b.sub(first, start), ir.Constant(I64, scale)), lowest)
        below = b.icmp_signed("<", b.sub(b.sub(end, ir.Constant(I64, t.bytes)), start), ir.Constant(I64, 0))
        highest = b.select(below, b.sub(highest, ir.Constant(I64, 1)), highest)
        aligned = _aligned(e, t, start)
    else:
        return None
    bottom, top = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    lowest = _clamp(e, lowest, bottom, ">")
    highest = _clamp(e, highest, top, "<")
    some = b.icmp_signed("<=", lowest, highest)
    # far from where the differences above would overflow
    some = b.and_(some, b.icmp_unsigned("<", start, ir.Constant(I64, 1 << 62)))
    low32 = b.trunc(lowest, I32)
    span = b.trunc(b.sub(highest, lowest), I32)
    distance = b.sub(index, e.splat(low32))
    outside = b.icmp_unsigned(">", distance, e.splat(span))
    bad = b.and_(b.bitcast(outside, I32), e.active)
    ok = b.and_(some, b.icmp_unsigned("==", bad, ir.Constant(I32, 0)))
    return Indexed(pointer(e, start), scale, index, signed), _both(e, ok, aligned)


def _clamp(e: Emitter, value: ir.Value, bound: int, keep: str) -> ir.Value:
    limit = ir.Constant(I64, bound)
    return e.b.select(e.b.icmp_signed(keep, value, limit), value, limit)


def _index_offsets(e: Emitter, ix: Indexed) -> ir.Value:
    wide = vector_type("i64")
    extended = e.b.sext(ix.index, wide) if ix.signed else e.b.zext(ix.index, wide)
    return extended if ix.scale == 1 else e.b.mul(extended, e.values.warp.const("i64", ix.scale))


def _consecutive(e: Emitter, index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Index of lane 0, and whether every active lane's index is that plus its lane number."""
    b = e.b
    first = b.extract_element(index, ir.Constant(I32, 0))
    lanes = ir.Constant(vector_type("i32"), [ir.Constant(I32, k) for k in range(32)])
    same = b.icmp_unsigned("==", index, b.add(e.splat(first), lanes))
    differs = b.and_(b.not_(b.bitcast(same, I32)), e.active)
    return first, b.icmp_unsigned("==", differs, ir.Constant(I32, 0))


# ---- two ways that meet ----------------------------------------------------------------------------------------


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


# ---- loads -----------------------------------------------------------------------------------------------------


def load(e: Emitter, op: Op) -> None:
    """Lower ld."""
    t = target_of(e, op)
    watch(e, t, [])
    if t.address.shape == UNIFORM and t.space != "local" and not _per_lane(e, op):
        _set_elements(e, op, t, _load_uniform(e, t), uniform)
    else:
        _set_elements(e, op, t, _load_lanes(e, t), varying)


def combines(t: Target) -> bool:
    """Whether an atomic is an integer reduction to one address: all lanes' operands can be brought as one."""
    op = t.op
    assert op.access is not None
    kind = op.access.element
    unused = not op.results or op.results[0] is None
    return unused and t.address.shape == UNIFORM and kind.kind in "sub" and kind.bits <= 64 and op.info in ("add", "and", "or", "xor", "min", "max")


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
    ok = _both(e, _in_range(e, t, address, address), _aligned(e, t, address))

    def at_place(place: ir.Value) -> list[ir.Value]:
        return [e.b.load(pointer(e, place, size * k), typ=scalar_type(f"i{t.bits}"), align=size) for k in range(t.count)]

    def slow() -> list[ir.Value]:
        return [e.b.inttoptr(_resolved_one(e, t, address), POINTER)]

    place = either(e, ok, lambda: [_at(e, t, address)], slow)[0]
    return at_place(place)


def _resolved_one(e: Emitter, t: Target, address: ir.Value) -> ir.Value:
    host = call_runtime(e, "resolve_one", _resolve_arguments(e, t, address, t.bytes, t.bytes))
    e.stop_if_faulted()
    return host


def _load_lanes(e: Emitter, t: Target) -> list[ir.Value]:
    if t.space == "local":
        return _load_local(e, t)
    affine = _affine_rows(e, t)
    if affine is not None:
        rows, ok = affine
        rows = _on_host(e, t, rows)
        return either(e, ok, lambda: load_rows(e, rows, t.bits, t.count), lambda: _slow_load(e, t))
    indexed = _index_range(e, t)
    if indexed is not None:
        ix, ok = indexed
        return either(e, ok, lambda: _load_indexed(e, t, ix), lambda: _slow_load(e, t))
    if t.space == "shared" and has_gather():
        return either(e, shared_lanes_ok(e, t), lambda: _load_shared_lanes(e, t), lambda: _slow_load(e, t))
    return _slow_load(e, t)


def _on_host(e: Emitter, t: Target, rows: Rows) -> Rows:
    base = _host_base(e, t)
    return rows if base is None else Rows(pointer(e, base, rows.base), rows.step, rows.row)


def _load_indexed(e: Emitter, t: Target, ix: Indexed) -> list[ir.Value]:
    size = t.bits // 8

    def one_by_one() -> list[ir.Value]:
        offsets = _index_offsets(e, ix)
        return [gather_indexed(e, pointer(e, ix.base, size * k), offsets, t.bits, e.active, e.active_lanes) for k in range(t.count)]

    if t.count > 1 or ix.scale != size:
        return one_by_one()
    first, consecutive = _consecutive(e, ix.index)

    def line() -> list[ir.Value]:
        extended = e.b.sext(first, I64) if ix.signed else e.b.zext(first, I64)
        return [masked_load(e, pointer(e, ix.base, _times(e, extended, size)), t.bits, e.active_lanes)]

    return either(e, consecutive, line, one_by_one, likely=False)


def shared_lanes_ok(e: Emitter, t: Target) -> ir.Value:
    """All active lanes inside shared memory and aligned."""
    b = e.b
    value = t.narrow or t.address
    addresses = e.values.vector(value)
    last, enough = _last_shared(e, t.bytes)
    outside = b.icmp_unsigned(">", addresses, e.splat(b.trunc(last, scalar_type(value.type))))
    if t.bytes > t.aligned:
        low_bits = b.and_(addresses, e.values.warp.const(value.type, t.bytes - 1))
        outside = b.or_(outside, b.icmp_unsigned("!=", low_bits, e.values.warp.const(value.type, 0)))
    bad = b.and_(b.bitcast(outside, I32), e.active)
    return b.and_(enough, b.icmp_unsigned("==", bad, ir.Constant(I32, 0)))


def _last_shared(e: Emitter, size: int) -> tuple[ir.Value, ir.Value]:
    """The last offset at which `size` bytes fit, and whether there is one."""
    key = f"last shared {size}"
    if key not in e.prologue_values:
        limit = e.once("shared_bytes", WORKER, e.worker, "shared_bytes")
        last = e.prologue.sub(limit, ir.Constant(I64, size))
        e.prologue_values[key] = Value(UNIFORM, "i64", (last, e.prologue.icmp_signed(">=", last, ir.Constant(I64, 0))))
    last, enough = e.prologue_values[key].parts
    return last, enough


def _low_zeros(offset: int) -> int:
    return (offset & -offset).bit_length() - 1 if offset else 64


def shared_offsets(e: Emitter, t: Target) -> ir.Value:
    """Offsets (i64) of lanes that are known to be inside: as small as they are, a sign extension keeps them."""
    if t.narrow is not None:
        return e.b.sext(e.values.vector(t.narrow), vector_type("i64"))
    return e.values.vector(t.address)


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
    return _both(e, _in_range(e, t, address, address), _aligned(e, t, address))


def _load_local(e: Emitter, t: Target) -> list[ir.Value]:
    ok = _local_fast(e, t)
    if ok is None:
        return _slow_load(e, t)

    def rows() -> list[ir.Value]:
        found = []
        for k in range(t.count):
            place = _local_row(e, t, k)
            low = e.b.load(place, typ=vector_type("i32"), align=64)
            found.append(low if t.bits == 32 else _joined(e, low, e.b.load(pointer(e, place, 128), typ=vector_type("i32"), align=64)))
        return found

    return either(e, ok, rows, lambda: _slow_load(e, t))


# ---- stores ----------------------------------------------------------------------------------------------------


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
    affine = _affine_rows(e, t)
    if affine is not None:
        rows, ok = affine
        rows = _on_host(e, t, rows)
        either_way(e, ok, lambda: store_rows(e, rows, vectors), lambda: _slow_store(e, t, vectors))
        return
    indexed = _index_range(e, t)
    if indexed is not None:
        ix, ok = indexed
        either_way(e, ok, lambda: _store_indexed(e, t, ix, vectors), lambda: _slow_store(e, t, vectors))
        return
    if t.space == "shared" and has_gather():

        def lanes() -> None:
            base = e.once("shared", BLOCK, e.block, "shared")
            offsets = shared_offsets(e, t)
            for k, vector in enumerate(vectors):
                scatter_indexed(e, vector, pointer(e, base, t.bits // 8 * k), offsets, e.active, e.active_lanes)

        either_way(e, shared_lanes_ok(e, t), lanes, lambda: _slow_store(e, t, vectors))
        return
    _slow_store(e, t, vectors)


def _store_uniform(e: Emitter, t: Target, values: list[Value]) -> None:
    """All lanes write one place: the highest lane's value stays."""
    b, address, size = e.b, t.address.parts[0], t.bits // 8
    leading = b.call(_bit_function(e, "llvm.ctlz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)])
    last = b.sub(ir.Constant(I32, 31), leading)
    scalars = [v.parts[0] if v.shape == UNIFORM else b.extract_element(e.values.vector(v), last) for v in values]
    ok = _both(e, _in_range(e, t, address, address), _aligned(e, t, address))
    place = either(e, ok, lambda: [_at(e, t, address)], lambda: [e.b.inttoptr(_resolved_one(e, t, address), POINTER)])[0]
    for k, scalar in enumerate(scalars):
        b.store(scalar, pointer(e, place, size * k), align=size)


def _store_indexed(e: Emitter, t: Target, ix: Indexed, vectors: list[ir.Value]) -> None:
    size = t.bits // 8

    def one_by_one() -> None:
        offsets = _index_offsets(e, ix)
        for k, vector in enumerate(vectors):
            scatter_indexed(e, vector, pointer(e, ix.base, size * k), offsets, e.active, e.active_lanes)

    if t.count > 1 or ix.scale != size:
        one_by_one()
        return
    first, consecutive = _consecutive(e, ix.index)

    def line() -> None:
        extended = e.b.sext(first, I64) if ix.signed else e.b.zext(first, I64)
        masked_store(e, vectors[0], pointer(e, ix.base, _times(e, extended, size)), e.active_lanes)

    either_way(e, consecutive, line, one_by_one, likely=False)


def _store_local(e: Emitter, t: Target, vectors: list[ir.Value]) -> None:
    ok = _local_fast(e, t)
    if ok is None:
        _slow_store(e, t, vectors)
        return

    def rows() -> None:
        for k, vector in enumerate(vectors):
            place = _local_row(e, t, k)
            words = (vector,) if t.bits == 32 else _split(e, vector)
            for half, word in enumerate(words):
                masked_store(e, word, pointer(e, place, 128 * half), e.active_lanes)

    either_way(e, ok, rows, lambda: _slow_store(e, t, vectors))
