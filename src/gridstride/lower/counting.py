"""Counting as Nsight Compute does, in native code, where a launch is profiled.

Every block of the kernel counts how often it runs and with how many lanes; from that follow the executions of each
instruction. Accesses add what depends on addresses: sectors of global and local memory, wavefronts of shared memory.
The rules are those of `observers/metrics/rules.py`; the tests compare the two. Affine accesses by a contiguous run of
lanes have closed forms, everything else goes out of line.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Block, Kind
from gridstride.lower.access import Target, combines
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.native import Native, NativeFunction, Variable
from gridstride.lower.records import WORKER
from gridstride.lower.values import Value
from gridstride.passes.analyse_shapes import UNIFORM

PER_BLOCK = 2  # executions, lanes
PER_SITE = 3  # sectors or divergent branches; wavefronts; wavefronts without conflicts
SECTORS, WAVEFRONTS, IDEAL = range(PER_SITE)
SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4


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
            _site(e, t.op.site, WAVEFRONTS, _call_on_addresses(e, t, "shared_atomic"))
            return
        _count_shared(e, t)
    elif t.space == "local":
        _count_local(e, t)
    elif t.op.kind is Kind.ATOMIC and combines(t):
        # the machine compiler lets one lane bring what all have for their common address
        _site(e, t.op.site, SECTORS, ir.Constant(I64, 1))
    elif t.op.kind is Kind.ATOMIC:
        _site(e, t.op.site, SECTORS, _call_on_addresses(e, t, "atomic_sectors"))
    else:
        _site(e, t.op.site, SECTORS, _sectors(e, t))


# ---- global ----------------------------------------------------------------------------------------------------


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
    function = _counter(e.module, what, t.bytes)
    return e.b.call(function, [e.values.vector(t.address), e.active])


def _counter(module: ir.Module, what: str, size: int) -> ir.Function:
    """(addresses, mask) -> i64"""
    name = f"count_{what}_{size}"
    known = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "i64", ["32xi64", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    {"sectors": _build_sectors, "atomic_sectors": _build_atomic_sectors, "shared_load": _build_shared, "shared_store": _build_shared_store,
     "shared_atomic": _build_shared_atomic}[what](f, size)  # fmt: skip
    return f.function


def _build_sectors(f: NativeFunction, size: int) -> None:
    addresses, mask = f.args
    sectors = addresses >> 5
    count = f.variable("i64", 0)
    per_lane = max(1, size // SECTOR_BYTES)
    # ascending without gaps in the mask: as many sectors as there are steps, and one
    shifted = Native(f, f.b.shuffle_vector(sectors.v, sectors.v, _indices([0, *range(31)])))
    unsorted = Native(f, f.b.icmp_unsigned("<", sectors.v, shifted.v)).to("i32")
    with f.if_(unsorted.eq(0) & mask.eq(0xFFFFFFFF)):
        steps = Native(f, f.b.icmp_unsigned("!=", sectors.v, shifted.v)).to("i32")
        f.ret((f.count_bits(steps) + 1).to("i64") * per_lane)
        f.b.position_at_end(f.block("dead"))
    _distinct(f, sectors, mask, lambda _lane, _same: count.set(count.get() + per_lane))
    f.ret(count.get())


def _indices(values: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(values)), [ir.Constant(I32, v) for v in values])


def _distinct(f: NativeFunction, keys: Native, mask: Native, visit: object, rest: Variable | None = None) -> None:
    """Call `visit(lane, lanes with the same key)` once for each distinct key among the lanes of `mask`."""
    assert callable(visit)
    stored = f.variable("32xi64", keys)
    stored.set(keys)
    rest = rest or f.variable("i32", mask)
    rest.set(mask)
    with f.loop():
        now = rest.get()
        f.break_if(now.eq(0))
        lane = f.first_lane(now)
        key = f.load("i64", Native(f, stored.slot), lane.to("i64") * 8)
        same = Native(f, f.b.icmp_unsigned("==", keys.v, f.splat(key).v)).to("i32") & now
        visit(lane, same)
        rest.set(now & ~same)


def _build_atomic_sectors(f: NativeFunction, size: int) -> None:
    """Over the sectors, the most lanes on any one address, summed."""
    addresses, mask = f.args
    sectors = addresses >> 5
    total = f.variable("i64", 0)

    def one_sector(_lane: Native, same: Native) -> None:
        most = f.variable("i32", 0)
        most.set(0)

        def one_address(_inner: Native, lanes: Native) -> None:
            count = f.count_bits(lanes)
            most.set((count > most.get()).select(count, most.get()))

        _distinct(f, addresses, same, one_address)
        total.set(total.get() + most.get().to("i64"))

    _distinct(f, sectors, mask, one_sector)
    f.ret(total.get())


# ---- shared ----------------------------------------------------------------------------------------------------


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


def _build_shared(f: NativeFunction, size: int) -> None:
    """Loads of 8 and 16 bytes: two neighbouring groups of lanes share a pass where their distinct addresses are few
    enough and nothing conflicts."""
    addresses, mask = f.args
    if size <= BANK_BYTES:
        f.ret(_passes(f, addresses, mask, size))
        return
    groups, most = (2, 16) if size == 8 else (4, 8)
    lanes = 32 // groups
    total = f.variable("i64", 0)
    for pair in range(groups // 2):
        first = ((1 << lanes) - 1) << (2 * pair * lanes)
        second = first << lanes
        a, c = mask & first, mask & (second & 0xFFFFFFFF)
        number = _count_distinct(f, addresses, a) + _count_distinct(f, addresses, c)
        together = _passes(f, addresses, a | c, size)
        apart = _passes(f, addresses, a, size) + _passes(f, addresses, c, size)
        fits = (number <= most) & (together <= 1)
        total.set(total.get() + fits.select(together, apart))
    f.ret(total.get())


def _build_shared_store(f: NativeFunction, size: int) -> None:
    """Stores: the warp whole up to 4 bytes, in halves at 8, in quarters at 16."""
    addresses, mask = f.args
    groups = max(1, size // BANK_BYTES)
    lanes = 32 // groups
    total = f.variable("i64", 0)
    for group in range(groups):
        part = mask & ((((1 << lanes) - 1) << (group * lanes)) & 0xFFFFFFFF)
        total.set(total.get() + _passes(f, addresses, part, size))
    f.ret(total.get())


def _build_shared_atomic(f: NativeFunction, size: int) -> None:
    addresses, mask = f.args
    f.ret(_passes(f, addresses, mask, size))


def _count_distinct(f: NativeFunction, addresses: Native, mask: Native) -> Native:
    count = f.variable("i32", 0)
    count.set(0)
    _distinct(f, addresses, mask, lambda _lane, _same: count.set(count.get() + 1))
    return count.get()


def _passes(f: NativeFunction, addresses: Native, mask: Native, size: int) -> Native:
    """The distinct words of the busiest bank."""
    words = max(1, size // BANK_BYTES)
    result = f.variable("i64", 0)
    result.set(0)
    first_word = (addresses >> 2).to("32xi32")
    bank = first_word & (BANKS - 1)
    bits = f.const("32xi32", (1 << words) - 1) << bank
    chosen = mask.to("32xi1").select(bits, f.const("32xi32", 0))
    union = f.intrinsic("llvm.vector.reduce.or.v32i32", "i32", chosen)
    with f.if_else(f.count_bits(union).eq(f.count_bits(mask) * words)) as (free, other):
        with free:  # every lane has banks of its own
            result.set(mask.ne(0).to("i64"))
        with other:
            counts = [f.variable("32xi8", f.const("32xi8", 0)) for _ in range(1)]
            counts[0].set(f.const("32xi8", 0))
            most = f.variable("i8", 0)
            most.set(0)
            keys = addresses >> 2

            def visit(lane: Native, _same: Native) -> None:
                start = f.load("i32", _spilled(f, bank), lane.to("i64") * 4)
                for word in range(words):
                    place = ((start + word) & (BANKS - 1)).to("i64")
                    new = f.load("i8", Native(f, counts[0].slot), place) + 1
                    f.store(new, Native(f, counts[0].slot), place)
                    most.set((new > most.get()).select(new, most.get()))

            _distinct(f, keys, mask, visit)
            result.set(most.get().to("i64"))
    return result.get()


def _spilled(f: NativeFunction, vector: Native) -> Native:
    slot = f.variable("32xi32", vector)
    slot.set(vector)
    return Native(f, slot.slot)


# ---- local -----------------------------------------------------------------------------------------------------


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
    function = _counter(e.module, "sectors", BANK_BYTES)
    for word in range(words):
        _site(e, t.op.site, SECTORS, b.call(function, [b.add(places, const("i64", 128 * word)), e.active]))
