"""Counting as Nsight Compute does, in native code, where a launch is profiled.

Every block of the kernel counts how often it runs and with how many lanes; from that follow the executions of each
instruction. Accesses add what depends on addresses: sectors of global and local memory, wavefronts of shared memory.
The rules are those of `observers/metrics/rules.py`; the tests compare the two. Affine accesses by a contiguous run of
lanes have closed forms, everything else goes out of line.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Block, Const, Kind
from gridstride.lower.counters import BANK_BYTES, BANKS, SECTOR_BYTES, counter
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.records import WORKER
from gridstride.lower.target import Target, combines
from gridstride.lower.values import Value
from gridstride.passes.analyse_shapes import UNIFORM

PER_BLOCK = 2  # executions, lanes
PER_SITE = 3  # sectors or divergent branches; wavefronts; wavefronts without conflicts
SECTORS, WAVEFRONTS, IDEAL = range(PER_SITE)


def _add(e: Emitter, index: int, amount: ir.Value) -> None:
    counters = e.once("counters", WORKER, e.worker, "counters")
    place = e.b.gep(counters, [ir.Constant(I64, 8 * index)], source_etype=I8)
    e.b.store(e.b.add(e.b.load(place, typ=I64), amount), place)


def _site(e: Emitter, site: int, what: int, amount: ir.Value) -> None:
    """Site counters come before block counters: their number is known when the first access is lowered."""
    if amount.type == I32:
        amount = e.b.zext(amount, I64)
    _add(e, site * PER_SITE + what, amount)


def _popcount(e: Emitter, mask: ir.Value) -> ir.Value:
    return e.b.call(_declared(e.module, "llvm.ctpop.i32", I32, [I32]), [mask])


def _declared(module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def count_block(e: Emitter, number: int) -> None:
    """One more execution of a block, with its active lanes. `number` counts over all functions of the kernel."""
    start = len(e.function.sites) * PER_SITE + number * PER_BLOCK
    _add(e, start, ir.Constant(I64, 1))
    _add(e, start + 1, e.b.zext(_popcount(e, e.active), I64))


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
        _site(e, t.op.site, SECTORS, ir.Constant(I64, 1))
    elif t.op.kind is Kind.ATOMIC:
        _site(e, t.op.site, SECTORS, _call_on_addresses(e, t, "atomic_sectors"))
        _site(e, t.op.site, WAVEFRONTS, _call_on_addresses(e, t, "most_on_one_address"))
    elif t.op.access is not None and t.op.access.space == "const":
        _site(e, t.op.site, SECTORS, _sectors(e, t))
        _site(e, t.op.site, WAVEFRONTS, ir.Constant(I64, 1) if t.address.shape == UNIFORM else _call_on_addresses(e, t, "words"))
    else:
        _site(e, t.op.site, SECTORS, _sectors(e, t))


def _sectors(e: Emitter, t: Target) -> ir.Value:
    """Distinct sectors of a global access."""
    b = e.b
    if t.address.shape == UNIFORM:
        return ir.Constant(I64, max(1, t.bytes // SECTOR_BYTES))
    line = _line(e, t.address)
    if line is None:
        return _call_on_addresses(e, t, "sectors")
    base, step = line
    if step < 0 or step > SECTOR_BYTES and step % t.bytes:
        return _call_on_addresses(e, t, "sectors")
    if step >= SECTOR_BYTES:  # every lane begins in a sector of its own
        return b.mul(b.zext(_popcount(e, e.active), I64), ir.Constant(I64, max(1, t.bytes // SECTOR_BYTES)))
    # neighbours begin at most a sector apart: a run of lanes touches every sector from the first to the last
    first = b.call(_declared(e.module, "llvm.cttz.i32", I32, [I32, ir.IntType(1)]), [e.active, ir.Constant(ir.IntType(1), 0)])
    leading = b.call(_declared(e.module, "llvm.ctlz.i32", I32, [I32, ir.IntType(1)]), [e.active, ir.Constant(ir.IntType(1), 0)])
    last = b.sub(ir.Constant(I32, 31), leading)
    run = b.lshr(e.active, first)
    is_run = b.icmp_unsigned("==", b.and_(run, b.add(run, ir.Constant(I32, 1))), ir.Constant(I32, 0))
    low = b.add(base, b.mul(b.zext(first, I64), ir.Constant(I64, step)))
    high = b.add(base, b.add(b.mul(b.zext(last, I64), ir.Constant(I64, step)), ir.Constant(I64, t.bytes - 1)))
    closed = b.add(b.sub(b.lshr(high, ir.Constant(I64, 5)), b.lshr(low, ir.Constant(I64, 5))), ir.Constant(I64, 1))
    start, general, done = b.block, e.native.append_basic_block("scattered"), e.native.append_basic_block("counted")
    branch = b.cbranch(is_run, done, general)
    branch.set_weights([100, 1])
    b.position_at_end(general)
    counted = _call_on_addresses(e, t, "sectors")
    b.branch(done)
    general_end = b.block
    b.position_at_end(done)
    result = b.phi(I64)
    result.add_incoming(closed, start)
    result.add_incoming(counted, general_end)
    return result


def _line(e: Emitter, address: Value) -> tuple[ir.Value, int] | None:
    """Base and step of an affine address whose lanes are one row."""
    if e.layout.width != 32:
        return None
    if address.shape.kind == "affine":
        return address.parts[0], address.shape.step
    if address.shape.kind == "wide" and address.inner.shape.kind == "affine":
        extend = e.b.sext if address.shape.signed else e.b.zext
        offset = e.b.mul(extend(address.inner.parts[0], I64), ir.Constant(I64, address.shape.scale))
        return e.b.add(address.parts[0], offset), address.inner.shape.step * address.shape.scale
    return None


def _call_on_addresses(e: Emitter, t: Target, what: str) -> ir.Value:
    function = counter(e.module, what, t.bytes)
    return e.b.call(function, [e.values.vector(t.address), e.active])


def _count_shared(e: Emitter, t: Target) -> None:
    what = "shared_load" if t.op.kind is Kind.LOAD else "shared_store"
    b = e.b
    full = b.icmp_signed("==", e.active, ir.Constant(I32, -1))
    line = _line(e, t.address)
    usual_passes: int | None = None  # of a whole warp
    if t.address.shape == UNIFORM:
        usual_passes = max(1, t.bytes // (8 if t.op.kind is Kind.LOAD else BANK_BYTES))
    elif line is not None and line[1] == t.bytes and t.bytes >= BANK_BYTES:
        usual_passes = t.bytes // BANK_BYTES
    if usual_passes == 1 and t.address.shape == UNIFORM:
        passes: ir.Value = ir.Constant(I64, 1)
    elif usual_passes is not None:
        usual, other, done = b.block, e.native.append_basic_block("partly"), e.native.append_basic_block("passes")
        b.cbranch(full, done, other).set_weights([100, 1])
        b.position_at_end(other)
        counted = _call_on_addresses(e, t, what)
        b.branch(done)
        end = b.block
        b.position_at_end(done)
        passes = b.phi(I64)
        passes.add_incoming(ir.Constant(I64, usual_passes), usual)
        passes.add_incoming(counted, end)
    else:
        passes = _call_on_addresses(e, t, what)
    _site(e, t.op.site, WAVEFRONTS, passes)
    asked = b.mul(b.zext(_popcount(e, e.active), I64), ir.Constant(I64, t.bytes))
    fewest = b.lshr(b.add(asked, ir.Constant(I64, BANKS * BANK_BYTES - 1)), ir.Constant(I64, 7))
    _site(e, t.op.site, IDEAL, b.select(b.icmp_unsigned("<", fewest, passes), fewest, passes))


def _count_shared_atomic(e: Emitter, t: Target) -> None:
    """What machine instruction it becomes decides (see rules.shared_atomic_wavefronts)."""
    op = t.op
    unused = not op.results or op.results[0] is None
    if op.info == "add" and unused and t.bytes == BANK_BYTES and op.args[1] == Const(1):
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
