"""Counting as Nsight Compute does, in native code, where a launch is profiled.

Every block of the kernel counts how often it runs and with how many lanes; from that follow the executions of each
instruction. Accesses add what depends on addresses: sectors of global and local memory, wavefronts of shared memory.
The rules are those of `observers/metrics/rules.py`; the tests compare the two. Affine accesses have closed forms
(`line_counts.py`), everything else goes out of line (`counters.py`). What is the same at every execution is not counted
at all: the launch makes it of the executions (`steady`).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.ir.nodes import Block, Const, Kind
from gridstride.isa.lanes import vector_type
from gridstride.lower.access import either
from gridstride.lower.bank_counters import BANK_BYTES, BANKS
from gridstride.lower.counters import SECTOR_BYTES, counter
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.line_counts import (
    Line,
    Steady,
    active_lanes,
    is_full,
    line_of,
    passes_of_rows_of_one_word,
    passes_of_words,
    pattern,
    row_if_consecutive,
    sectors,
)
from gridstride.lower.records import WORKER
from gridstride.lower.target import Target, combines
from gridstride.passes.analyse_shapes import UNIFORM

PER_BLOCK = 2  # executions, lanes
PER_SITE = 3  # sectors or divergent branches; wavefronts; wavefronts without conflicts
SECTORS, WAVEFRONTS, IDEAL = range(PER_SITE)
REMEMBERED_BITS = 8  # of a count that is remembered with the pattern it belongs to
NOTHING_REMEMBERED = -(1 << 63)


def _add(e: Emitter, index: int, amount: ir.Value) -> None:
    counters = e.once("counters", WORKER, e.worker, "counters")
    place = e.b.gep(counters, [ir.Constant(I64, 8 * index)], source_etype=I8)
    e.b.store(e.b.add(e.b.load(place, typ=I64), amount), place)


def _site(e: Emitter, site: int, what: int, amount: ir.Value | Steady) -> None:
    """Site counters come before block counters: their number is known when the first access is lowered."""
    if isinstance(amount, Steady):
        e.steady.append((e.counted_block, site, what, amount.execution, amount.lane))
        return
    _add(e, site * PER_SITE + what, amount)


def count_block(e: Emitter, number: int) -> None:
    """One more execution of a block, with its active lanes. `number` counts over all functions of the kernel."""
    start = len(e.function.sites) * PER_SITE + number * PER_BLOCK
    e.counted_block = number
    _add(e, start, ir.Constant(I64, 1))
    _add(e, start + 1, active_lanes(e))


def count_divergence(e: Emitter, block: Block, taken: ir.Value, other: ir.Value) -> None:
    """A branch at which some lanes go and some stay."""
    site = block.terminator.site
    if site < 0:
        return
    zero = ir.Constant(I32, 0)
    parts = e.b.and_(e.b.icmp_unsigned("!=", taken, zero), e.b.icmp_unsigned("!=", other, zero))
    _site(e, site, SECTORS, e.b.zext(parts, I64))


def count_access(e: Emitter, t: Target) -> None:
    """One access, before it is made."""
    if t.space == "shared":
        if t.op.kind is Kind.ATOMIC:
            _count_shared_atomic(e, t)
            return
        _count_shared(e, t)
    elif t.space == "local":
        _count_local(e, t)
    elif t.op.kind is Kind.ATOMIC and combines(t):
        # the machine compiler lets one lane bring what all have for their common address
        _site(e, t.op.site, SECTORS, Steady(1))
    elif t.op.kind is Kind.ATOMIC and t.address.shape == UNIFORM:  # one lane after the other
        _site(e, t.op.site, SECTORS, Steady(lane=1))
        _site(e, t.op.site, WAVEFRONTS, Steady(lane=1))
    elif t.op.kind is Kind.ATOMIC:
        both = _call_on_addresses(e, t, "atomics")
        _site(e, t.op.site, SECTORS, e.b.and_(both, ir.Constant(I64, 0xFFFFFFFF)))
        _site(e, t.op.site, WAVEFRONTS, e.b.lshr(both, ir.Constant(I64, 32)))
    elif t.op.access is not None and t.op.access.space == "const":
        _count_constant(e, t)
    else:
        _site(e, t.op.site, SECTORS, _sectors(e, t))


def _sectors(e: Emitter, t: Target) -> ir.Value | Steady:
    """Distinct sectors of a global access."""
    if t.address.shape == UNIFORM:
        return Steady(max(1, t.bytes // SECTOR_BYTES))

    def scattered() -> ir.Value:
        return _call_on_addresses(e, t, "sectors")

    line = line_of(e, t.address)
    if line is not None:
        return sectors(e, line, t.bytes, scattered)
    row = row_if_consecutive(e, t)
    if row is None:
        return scattered()
    consecutive, line = row

    def in_a_row() -> ir.Value:
        found = sectors(e, line, t.bytes, scattered)
        assert not isinstance(found, Steady)  # neighbours less than a sector apart
        return found

    return either(e, consecutive, lambda: [in_a_row()], lambda: [scattered()], likely=False)[0]


def _count_constant(e: Emitter, t: Target) -> None:
    """Constant memory: its cache gives one word a pass."""
    _site(e, t.op.site, SECTORS, _sectors(e, t))
    row = row_if_consecutive(e, t)
    if t.address.shape == UNIFORM:
        words: ir.Value | Steady = Steady(1)
    elif row is not None and t.bytes == BANK_BYTES:
        words = either(e, row[0], lambda: [active_lanes(e)], lambda: [_call_on_addresses(e, t, "words")], likely=False)[0]
    else:
        words = _call_on_addresses(e, t, "words")
    _site(e, t.op.site, WAVEFRONTS, words)


def _call_on_addresses(e: Emitter, t: Target, what: str) -> ir.Value:
    """Count out of line; shared memory has 32-bit addresses."""
    function = counter(e.module, what, t.bytes)
    if t.space != "shared":
        return e.b.call(function, [e.values.vector(t.address), e.active])
    addresses = e.values.vector(t.narrow or t.address)
    if t.narrow is None:
        addresses = e.b.trunc(addresses, vector_type("i32"))
    return e.b.call(function, [addresses, e.active])


def _count_shared(e: Emitter, t: Target) -> None:
    passes = _shared_passes(e, t)
    _site(e, t.op.site, WAVEFRONTS, passes)
    if t.bytes <= BANK_BYTES:
        _site(e, t.op.site, IDEAL, Steady(1))  # 32 words fit into one
        return
    b = e.b
    asked = b.mul(active_lanes(e), ir.Constant(I64, t.bytes))
    fewest = b.lshr(b.add(asked, ir.Constant(I64, BANKS * BANK_BYTES - 1)), ir.Constant(I64, 7))
    if isinstance(passes, Steady):
        passes = ir.Constant(I64, passes.execution)
    _site(e, t.op.site, IDEAL, b.select(b.icmp_unsigned("<", fewest, passes), fewest, passes))


def _shared_passes(e: Emitter, t: Target) -> ir.Value | Steady:
    """Wavefronts of a load or store of shared memory."""
    is_load = t.op.kind is Kind.LOAD

    def any_access() -> ir.Value:
        return _call_on_addresses(e, t, "shared_load" if is_load else "shared_store")

    if t.address.shape == UNIFORM and (t.bytes <= BANK_BYTES or is_load and t.bytes == 2 * BANK_BYTES):
        return Steady(1)
    line = line_of(e, t.address) if t.address.shape != UNIFORM else Line(t.address.parts[0], 0)
    if line is None:
        return any_access()
    words = passes_of_words(e, line, t.bytes)
    if words is not None:
        return words

    def all_lanes() -> ir.Value:
        rows = passes_of_rows_of_one_word(e, line, t.bytes)
        return _remembered(e, t, pattern(e, t, line), any_access) if rows is None else rows

    return either(e, is_full(e), lambda: [all_lanes()], lambda: [any_access()])[0]


def _remembered(e: Emitter, t: Target, key: ir.Value, count: Callable[[], ir.Value]) -> ir.Value:
    """What the access counted when its pattern was last `key`; otherwise it is counted, and remembered with the pattern."""
    b = e.b
    shift = ir.Constant(I64, REMEMBERED_BITS)
    place = b.gep(e.once("remembered", WORKER, e.worker, "remembered"), [ir.Constant(I64, 8 * t.op.site)], source_etype=I8)
    known = b.load(place, typ=I64)

    def again() -> list[ir.Value]:
        return [b.and_(known, ir.Constant(I64, (1 << REMEMBERED_BITS) - 1))]

    def anew() -> list[ir.Value]:
        found = count()
        b.store(b.or_(b.shl(key, shift), found), place)
        return [found]

    return either(e, b.icmp_signed("==", b.ashr(known, shift), key), again, anew)[0]


def _count_shared_atomic(e: Emitter, t: Target) -> None:
    """What machine instruction it becomes decides (see rules.shared_atomic_wavefronts)."""
    op = t.op
    unused = not op.results or op.results[0] is None
    increment = op.info == "add" and unused and t.bytes == BANK_BYTES and op.args[1] == Const(1)
    if t.address.shape == UNIFORM:
        passes: ir.Value | Steady = Steady(1) if increment else Steady(lane=2 if op.info == "cas" else 1)
    elif increment:
        passes = _call_on_addresses(e, t, "shared_store")
    else:
        passes = _call_on_addresses(e, t, "shared_atomic")
        if op.info == "cas":
            passes = e.b.mul(passes, ir.Constant(I64, 2))
    _site(e, op.site, WAVEFRONTS, passes)


def _count_local(e: Emitter, t: Target) -> None:
    """Neighbouring lanes' words are neighbours: a word at one offset is a line of 128 bytes. One request a word."""
    b = e.b
    words = max(1, t.bytes // BANK_BYTES)
    if t.address.shape == UNIFORM:
        total: ir.Value = ir.Constant(I64, 0)
        for group in range(4):
            some = b.icmp_unsigned("!=", b.and_(e.active, ir.Constant(I32, 0xFF << 8 * group)), ir.Constant(I32, 0))
            total = b.add(total, b.zext(some, I64))
        _site(e, t.op.site, SECTORS, b.mul(total, ir.Constant(I64, words)))
        return
    offsets = e.values.vector(t.address)
    const = e.values.warp.const
    lanes = ir.Constant(offsets.type, [ir.Constant(I64, 4 * k) for k in range(32)])
    places = b.add(b.mul(b.and_(offsets, const("i64", -4)), const("i64", 32)), lanes)
    function = counter(e.module, "sectors", BANK_BYTES)
    for word in range(words):
        _site(e, t.op.site, SECTORS, b.call(function, [b.add(places, const("i64", 128 * word)), e.active]))
