"""Closed forms of what an access counts whose address is affine in the lane: lanes in one line, or in a few rows of them.

Everything here relies on accesses being aligned to their size; those that are not end the kernel, and nobody reads its counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from llvmlite import ir

from gridstride.lower.access import either
from gridstride.lower.bank_counters import BANK_BYTES, BANKS
from gridstride.lower.counters import SECTOR_BYTES, line_counter
from gridstride.lower.emitter import I32, I64, Emitter
from gridstride.lower.fast_addresses import consecutive_from, times
from gridstride.lower.target import Target
from gridstride.lower.values import Value

MOST_ROWS = 4  # more are counted lane by lane
WARP = 32


@dataclass(frozen=True)
class Steady:
    """A count that follows from a block's executions and their active lanes: so much of each. Nothing is left to count while it runs."""

    execution: int = 0
    lane: int = 0


@dataclass(frozen=True)
class Line:
    """Lane x of row r is at base + step * x + row * r; all rows are the same where `row` is None."""

    base: ir.Value
    step: int
    row: ir.Value | None = None


def line_of(e: Emitter, address: Value) -> Line | None:
    """The line of an affine address; of one that has 32 bits as if it did not wrap."""
    b = e.b
    if address.shape.kind == "affine":
        return Line(address.parts[0], address.shape.step, address.parts[1] if address.shape.row else None)
    if address.shape.kind == "wide" and address.inner.shape.kind == "affine":
        inner, scale = address.inner, ir.Constant(I64, address.shape.scale)
        extend = b.sext if address.shape.signed else b.zext
        base = b.add(address.parts[0], b.mul(extend(inner.parts[0], I64), scale))
        row = b.mul(b.sext(inner.parts[1], I64), scale) if inner.shape.row else None
        return Line(base, inner.shape.step * address.shape.scale, row)
    return None


def row_if_consecutive(e: Emitter, t: Target) -> tuple[ir.Value, Line] | None:
    """For indices of which nothing is known before: whether each lane's is that of lane 0 plus its own number, and the line where it is."""
    address, width = t.address, e.layout.width
    if width != WARP or address.shape.kind != "wide" or address.inner.shape.kind != "varying" or address.shape.scale != t.bytes:
        return None
    first, consecutive = consecutive_from(e, address.inner.parts[0])
    extended = e.b.sext(first, I64) if address.shape.signed else e.b.zext(first, I64)
    return consecutive, Line(e.b.add(address.parts[0], times(e, extended, t.bytes)), t.bytes)


def is_full(e: Emitter) -> ir.Value:
    return e.b.icmp_signed("==", e.active, ir.Constant(I32, -1))


def active_lanes(e: Emitter) -> ir.Value:
    """How many they are."""
    return e.b.zext(_count_bits(e, e.active), I64)


def _count_bits(e: Emitter, mask: ir.Value) -> ir.Value:
    known = e.module.globals.get("llvm.ctpop.i32") or ir.Function(e.module, ir.FunctionType(I32, [I32]), "llvm.ctpop.i32")
    return e.b.call(known, [mask])


# ---- sectors of global memory ------------------------------------------------------------------------------------


def sectors(e: Emitter, line: Line, size: int, otherwise: Callable[[], ir.Value]) -> ir.Value | Steady:
    """Distinct sectors; `otherwise` counts any access, lane by lane."""
    width, step = e.layout.width, abs(line.step)
    one_line = line.row is None
    if step > SECTOR_BYTES and step % size or size > SECTOR_BYTES:
        return otherwise()
    if step >= SECTOR_BYTES:  # every lane in a sector of its own
        return Steady(lane=1) if one_line and width == WARP else otherwise()
    if not one_line and WARP // width > MOST_ROWS:
        return otherwise()

    def part() -> ir.Value:
        if one_line and width == WARP and line.step > 0:
            return e.b.call(line_counter(e.module, step, size), [line.base, e.active])
        return otherwise()

    return either(e, is_full(e), lambda: [_all_sectors(e, line, size)], lambda: [part()])[0]


def _all_sectors(e: Emitter, line: Line, size: int) -> ir.Value:
    """Of all 32 lanes. Neighbours begin less than a sector apart: a row touches every sector from its first to its last."""
    b, width = e.b, e.layout.width
    span = abs(line.step) * (width - 1) + size
    base, row, rows = line.base, line.row, WARP // width
    if line.step < 0:
        base = b.add(base, ir.Constant(I64, line.step * (width - 1)))
    if row is None:
        return b.add(b.sub(_sector(e, base, span - 1), _sector(e, base)), ir.Constant(I64, 1))
    starts = [b.add(base, b.mul(row, ir.Constant(I64, r))) if r else base for r in range(rows)]
    if line.step == 0:
        total: ir.Value = ir.Constant(I64, 1)
        for before, after in pairwise(starts):
            total = b.add(total, b.zext(b.icmp_unsigned("!=", _sector(e, before), _sector(e, after)), I64))
        return total
    down = b.icmp_signed("<", row, ir.Constant(I64, 0))  # from the row at the lowest address up
    starts = [b.select(down, other, start) for start, other in zip(starts, reversed(starts), strict=True)]
    total, border = ir.Constant(I64, 0), None
    for start in starts:  # what the rows before have touched ends at `border`
        first, end = _sector(e, start), b.add(_sector(e, start, span - 1), ir.Constant(I64, 1))
        if border is not None:
            first = b.select(b.icmp_unsigned("<", first, border), border, first)
        total, border = b.add(total, b.sub(end, first)), end
    return total


def _sector(e: Emitter, address: ir.Value, offset: int = 0) -> ir.Value:
    if offset:
        address = e.b.add(address, ir.Constant(I64, offset))
    return e.b.lshr(address, ir.Constant(I64, SECTOR_BYTES.bit_length() - 1))


# ---- passes over the banks of shared memory -----------------------------------------------------------------------


def passes_of_words(e: Emitter, line: Line, size: int) -> ir.Value | Steady | None:
    """Passes over the banks for accesses of a word at most, all rows being the same, under any mask. None: no closed form."""
    width, step = e.layout.width, abs(line.step)
    if size > BANK_BYTES or line.row is not None:
        return None
    if (step * (width - 1) + BANK_BYTES - 1) // BANK_BYTES < BANKS:  # fewer words than banks, side by side
        return Steady(1)
    if step % BANK_BYTES:
        return None
    period = BANKS // gcd(step // BANK_BYTES, BANKS)  # lanes so far apart are on one bank, and at different words
    if period >= width:
        return Steady(1)
    return _busiest_class(e, _first_row(e), period)


def _first_row(e: Emitter) -> ir.Value:
    """The lanes of the first row that are active in any row."""
    mask, span = e.active, WARP
    while span > e.layout.width:
        span //= 2
        mask = e.b.or_(mask, e.b.lshr(mask, ir.Constant(I32, span)))
    return mask if e.layout.width == WARP else e.b.and_(mask, ir.Constant(I32, (1 << e.layout.width) - 1))


def _busiest_class(e: Emitter, mask: ir.Value, period: int) -> ir.Value:
    """The most bits in any class of bits whose numbers are equal modulo `period`: classes are added up side by side, in
    binary, one word a digit."""
    b = e.b
    if period == 1:
        return b.zext(_count_bits(e, mask), I64)
    digits, span = [mask], WARP
    while span > period:
        span //= 2
        low = [b.and_(digit, ir.Constant(I32, (1 << span) - 1)) for digit in digits]
        high = [b.lshr(digit, ir.Constant(I32, span)) for digit in digits]
        digits, carry = [], None
        for one, other in zip(low, high, strict=True):
            either_, both = b.xor(one, other), b.and_(one, other)
            digits.append(either_ if carry is None else b.xor(either_, carry))
            carry = both if carry is None else b.or_(both, b.and_(either_, carry))
        assert carry is not None
        digits.append(carry)
    most: ir.Value = ir.Constant(I32, 0)
    candidates: ir.Value = ir.Constant(I32, -1)
    for place, digit in reversed(list(enumerate(digits))):
        left = b.and_(candidates, digit)
        some = b.icmp_unsigned("!=", left, ir.Constant(I32, 0))
        candidates = b.select(some, left, candidates)
        most = b.or_(most, b.shl(b.zext(some, I32), ir.Constant(I32, place)))
    return b.zext(most, I64)


def passes_of_rows_of_one_word(e: Emitter, line: Line, size: int) -> ir.Value | None:
    """Passes for all 32 lanes where each row reads one word: rows that are a multiple of the banks apart are in each other's way."""
    if size != BANK_BYTES or line.step or line.row is None:
        return None
    b, rows = e.b, WARP // e.layout.width
    words = b.trunc(b.lshr(line.row, ir.Constant(I64, 2)), I32)
    most: ir.Value = ir.Constant(I64, 1)
    for apart in (2**k for k in range(1, 6)):  # rows of which every 32 / apart are on one bank
        together = rows * apart // BANKS
        if together > 1:
            on_one = b.icmp_unsigned("==", b.and_(words, ir.Constant(I32, apart - 1)), ir.Constant(I32, 0))
            most = b.select(on_one, ir.Constant(I64, together), most)
    return b.select(b.icmp_signed("==", line.row, ir.Constant(I64, 0)), ir.Constant(I64, 1), most)


def pattern(e: Emitter, t: Target, line: Line) -> ir.Value:
    """What the passes for all 32 lanes depend on where the step is known: the distance of the rows, and for less than a word
    where in a word they begin."""
    key: ir.Value = ir.Constant(I64, 0) if line.row is None else e.b.shl(line.row, ir.Constant(I64, 2))
    return e.b.or_(key, e.b.and_(line.base, ir.Constant(I64, BANK_BYTES - 1))) if t.bytes < BANK_BYTES else key
