"""Addresses of a warp that one test shows to be inside: rows of lanes, indices into a buffer, offsets into shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from gridstride.isa.lanes import scalar_type, vector_type
from gridstride.lower.emitter import I32, I64, Emitter
from gridstride.lower.records import WORKER
from gridstride.lower.target import Target, both, in_range, is_aligned, last_hit
from gridstride.lower.values import Value
from gridstride.lower.vector_memory import (
    Rows,
    pointer,
)
from gridstride.passes.analyse_shapes import UNIFORM

MAX_ROW = 1 << 56  # bytes from one row of lanes to the next: 32 of them stay far from wrapping


def affine_rows(e: Emitter, t: Target) -> tuple[Rows, ir.Value] | None:
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
        base = b.add(address.parts[0], times(e, first, scale))
        step = inner.shape.step * scale
        row = times(e, inner_row, scale) if inner_row is not None else None
        aligned_parts = [address.parts[0], *([] if scale % t.bytes == 0 else [times(e, first, scale)])]
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
    ok = both(e, in_range(e, t, low, high), is_aligned(e, t, *aligned_parts))
    if row is not None:  # a row this long wraps around the address space
        ok = b.and_(ok, b.icmp_unsigned("<", b.add(row, ir.Constant(I64, MAX_ROW)), ir.Constant(I64, 2 * MAX_ROW)))
    return rows, both(e, ok, exact)


def times(e: Emitter, value: ir.Value, factor: int) -> ir.Value:
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
        first = b.zext(e.values.scalar.b.call(bit_function(e, "llvm.cttz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)]), I64)
        leading = b.call(bit_function(e, "llvm.ctlz.i32"), [e.active, ir.Constant(ir.IntType(1), 0)])
        last = b.zext(b.sub(ir.Constant(I32, 31), leading), I64)
        low, high = b.add(rows.base, times(e, first, rows.step)), b.add(rows.base, times(e, last, rows.step))
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


def bit_function(e: Emitter, name: str) -> ir.Function:
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


def index_range(e: Emitter, t: Target) -> tuple[Indexed, ir.Value] | None:
    """For start + scale * extend(varying 32-bit index): the condition that all active indices are inside."""
    shape = t.address.shape
    if t.space == "flat" and (shape.kind != "wide" or t.address.inner.shape.kind != "varying" or shape.scale % t.bytes):
        return None
    b = e.b
    if t.space == "flat":
        start, index, scale, signed = t.address.parts[0], t.address.inner.parts[0], shape.scale, shape.signed
        first, end = last_hit(e, t)
        lowest = b.sdiv(b.add(b.sub(first, start), ir.Constant(I64, scale - 1)), ir.Constant(I64, scale))
        highest = b.sdiv(b.sub(b.sub(end, ir.Constant(I64, t.bytes)), start), ir.Constant(I64, scale))
        # sdiv rounds towards zero: at the negative side that excludes nothing valid below `lowest` but may let
        # `highest` rise by one when it is negative, so a negative highest is taken down by one
        lowest = b.select(b.icmp_signed("<", b.sub(first, start), ir.Constant(I64, 0)), b.sdiv(b.sub(first, start), ir.Constant(I64, scale)), lowest)
        below = b.icmp_signed("<", b.sub(b.sub(end, ir.Constant(I64, t.bytes)), start), ir.Constant(I64, 0))
        highest = b.select(below, b.sub(highest, ir.Constant(I64, 1)), highest)
        aligned = is_aligned(e, t, start)
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
    return Indexed(pointer(e, start), scale, index, signed), both(e, ok, aligned)


def _clamp(e: Emitter, value: ir.Value, bound: int, keep: str) -> ir.Value:
    limit = ir.Constant(I64, bound)
    return e.b.select(e.b.icmp_signed(keep, value, limit), value, limit)


def index_offsets(e: Emitter, ix: Indexed) -> ir.Value:
    wide = vector_type("i64")
    extended = e.b.sext(ix.index, wide) if ix.signed else e.b.zext(ix.index, wide)
    return extended if ix.scale == 1 else e.b.mul(extended, e.values.warp.const("i64", ix.scale))


def consecutive_from(e: Emitter, index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Index of lane 0, and whether every active lane's index is that plus its lane number."""
    b = e.b
    first = b.extract_element(index, ir.Constant(I32, 0))
    lanes = ir.Constant(vector_type("i32"), [ir.Constant(I32, k) for k in range(32)])
    same = b.icmp_unsigned("==", index, b.add(e.splat(first), lanes))
    differs = b.and_(b.not_(b.bitcast(same, I32)), e.active)
    return first, b.icmp_unsigned("==", differs, ir.Constant(I32, 0))


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


def shared_offsets(e: Emitter, t: Target) -> ir.Value:
    """Offsets (i64) of lanes that are known to be inside: as small as they are, a sign extension keeps them."""
    if t.narrow is not None:
        return e.b.sext(e.values.vector(t.narrow), vector_type("i64"))
    return e.values.vector(t.address)
