"""Counting as Nsight Compute does, in native code, where a launch is profiled.

Every block of the kernel counts how often it runs and with how many lanes; from that follow the executions of each
instruction. Accesses add what depends on addresses: sectors of global and local memory, wavefronts of shared memory.
The rules are those of `observers/metrics/rules.py`; the tests compare the two. Affine accesses by a contiguous run of
lanes have closed forms, everything else goes out of line.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Block, Const, Kind
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import WORKER
from gridstride.lower.target import Target, combines
from gridstride.lower.values import Value
from gridstride.passes.analyse_shapes import UNIFORM

PER_BLOCK = 2  # executions, lanes
PER_SITE = 3  # sectors or divergent branches; wavefronts; wavefronts without conflicts
SECTORS, WAVEFRONTS, IDEAL = range(PER_SITE)
SECTOR_BYTES = 32
# Which tag bank a 128-byte line falls into: the exclusive or of these over the bits set in its number (measured on an
# H200, see observers/metrics/rules.py).
TAG_BANK_OF_BIT = (1, 2, 1, 2, 3, 1, 2, 3, 2, 1, 2, 1, 3, 1, 3, 2, 1, 3, 1, 3, 2, 3, 1, 3, 1, 2, 3)
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
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "i64", ["32xi64", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    _BUILDERS[what](f, size)
    return f.function


def _build_sectors(f: NativeFunction, size: int) -> None:
    """Distinct sectors."""
    addresses, mask = f.args
    sectors = addresses >> 5
    per_lane = max(1, size // SECTOR_BYTES)
    # ascending and all lanes: as many sectors as there are steps, and one
    shifted = Native(f, f.b.shuffle_vector(sectors.v, sectors.v, _indices([0, *range(31)])))
    unsorted = Native(f, f.b.icmp_unsigned("<", sectors.v, shifted.v)).to("i32")
    with f.if_(unsorted.eq(0) & mask.eq(0xFFFFFFFF)):
        steps = Native(f, f.b.icmp_unsigned("!=", sectors.v, shifted.v)).to("i32")
        f.ret((f.count_bits(steps) + 1).to("i64") * per_lane)
        f.b.position_at_end(f.block("dead"))
    f.ret(_count_distinct(f, sectors, mask) * per_lane)


def _count_distinct(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """The distinct keys among the lanes of `mask`: keys are dropped into 64 buckets, and whoever finds its own there is
    counted with it."""
    table = f.variable("64xi64")
    buckets = keys & 63
    bits = f.const("32xi64", 1) << buckets
    places = f.splat(Native(f, table.slot).to("i64")) + (buckets << 3)
    count, rest = f.variable("i64", 0), f.variable("i32", mask)
    with f.loop():
        now = rest.get()
        f.break_if(now.eq(0))
        chosen = now.to("32xi1").select(bits, f.const("32xi64", 0))
        union = f.intrinsic("llvm.vector.reduce.or.v32i64", "i64", chosen)
        count.set(count.get() + f.intrinsic("llvm.ctpop.i64", "i64", union))
        rest.set(now & ~_dropped_in(f, keys, places, now, 64))
    return count.get()


def _build_words(f: NativeFunction, size: int) -> None:
    """Distinct words of 4 bytes: the constant cache gives one a pass."""
    addresses, mask = f.args
    f.ret(_count_distinct(f, addresses >> 2, mask) * max(1, size // BANK_BYTES))


def _build_most_on_one_address(f: NativeFunction, size: int) -> None:
    """The most lanes on any one address: so often an atomic is made in turn."""
    addresses, mask = f.args
    at = _stored(f, "32xi64", addresses)
    most, rest = f.variable("i32", 0), f.variable("i32", mask)
    with f.loop():
        now = rest.get()
        f.break_if(now.eq(0))
        first = f.load("i64", at, f.first_lane(now).to("i64") * 8)
        same = Native(f, f.b.icmp_unsigned("==", addresses.v, f.splat(first).v)).to("i32") & now
        count = f.count_bits(same)
        most.set((count > most.get()).select(count, most.get()))
        rest.set(now & ~same)
    f.ret(most.get().to("i64"))


def _dropped_in(f: NativeFunction, keys: Native, places: Native, lanes: Native, bits: int) -> Native:
    """Every lane stores its key at its place; the lanes that find their own key there afterwards."""
    pointers = Native(f, f.b.inttoptr(places.v, ir.VectorType(ir.PointerType(), 32)))
    mask, size, kind = lanes.to("32xi1"), f.const("i32", bits // 8), f"32xi{bits}"
    f.intrinsic(f"llvm.masked.scatter.v32i{bits}.v32p0", "void", keys, pointers, size, mask)
    back = f.intrinsic(f"llvm.masked.gather.v32i{bits}.v32p0", kind, pointers, size, mask, f.const(kind, 0))
    return Native(f, f.b.icmp_unsigned("==", back.v, keys.v)).to("i32") & lanes


def _indices(values: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(values)), [ir.Constant(I32, v) for v in values])


def _stored(f: NativeFunction, kind: str, vector: Native) -> Native:
    """A vector in memory, to take single elements from."""
    slot = f.variable(kind, vector)
    slot.set(vector)
    return Native(f, slot.slot)


# Tag bank of a 128-byte line: two parities over bits of the address (see rules.tag_bank).
_TAG_MASKS = tuple(sum(1 << (bit + 7) for bit, value in enumerate(TAG_BANK_OF_BIT) if value >> half & 1) for half in (0, 1))


def _build_atomic_sectors(f: NativeFunction, size: int) -> None:
    """rules.reduction_sectors: each tag bank takes a line at a time, and of the lanes at one place in a line the lowest."""
    addresses, mask = f.args
    first = f.splat(f.load("i64", _stored(f, "32xi64", addresses), f.first_lane(mask).to("i64") * 8))
    elsewhere = Native(f, f.b.icmp_unsigned("!=", addresses.v, first.v)).to("i32") & mask
    f.ret_if(elsewhere.eq(0), f.count_bits(mask).to("i64"))  # one address: one lane at a time
    banks = f.const("32xi64", 0)
    for half, chosen in enumerate(_TAG_MASKS):
        ones = f.intrinsic("llvm.ctpop.v32i64", "32xi64", addresses & chosen)
        banks = banks | ((ones & 1) << half)
    bank_of = banks.to("32xi32")
    at = _stored(f, "32xi64", addresses)
    total = f.variable("i64", 0)
    for bank in range(4):
        queue = f.variable("i32", 0)
        queue.set(Native(f, f.b.icmp_unsigned("==", bank_of.v, f.const("32xi32", bank).v)).to("i32") & mask)
        with f.loop():
            waiting = queue.get()
            f.break_if(waiting.eq(0))
            line = f.load("i64", at, f.first_lane(waiting).to("i64") * 8) >> 7
            places, sectors, left = f.variable("i128", 0), f.variable("i32", 0), f.variable("i32", 0)
            for variable in (places, sectors, left):
                variable.set(0)
            with f.each_lane(waiting) as lane:
                address = f.load("i64", at, lane.to("i64") * 8)
                bit = f.const("i128", 1) << ((address & 127) // size).to("i128")
                goes = (places.get() & bit).eq(0) & (address >> 7).eq(line)
                sector = f.const("i32", 1) << ((address >> 5) & 3).to("i32")
                sectors.set(sectors.get() | goes.select(sector, f.const("i32", 0)))
                left.set(left.get() | goes.select(f.const("i32", 0), f.const("i32", 1) << lane))
                places.set(places.get() | bit)
            total.set(total.get() + f.count_bits(sectors.get()).to("i64"))
            queue.set(left.get())
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


def _build_shared(f: NativeFunction, size: int) -> None:
    """rules.shared_wavefronts_load: parts of the warp share a pass where lanes go in pairs and no bank conflicts."""
    addresses, mask = f.args
    if size <= BANK_BYTES:
        f.ret(_passes(f, addresses, mask, size))
        return
    groups = size // BANK_BYTES
    if size == 16:
        first = f.splat(f.load("i64", _stored(f, "32xi64", addresses), f.first_lane(mask).to("i64") * 8))
        elsewhere = Native(f, f.b.icmp_unsigned("!=", addresses.v, first.v)).to("i32") & mask
        f.ret_if(elsewhere.eq(0), ((f.count_bits(mask) + 15) >> 4).to("i64"))
    agree = []
    for distance in (1, 2):
        there = Native(f, f.b.shuffle_vector(addresses.v, addresses.v, _indices([k ^ distance for k in range(32)])))
        other = Native(f, f.b.icmp_unsigned("!=", addresses.v, there.v)).to("i32")
        swapped = _swapped(mask, distance)
        agree.append((other & mask & swapped, mask ^ swapped))
    lanes = 32 // groups
    total = f.variable("i64", 0)
    for pair in range(groups // 2):
        span = ((1 << (2 * lanes)) - 1) << (2 * pair * lanes)
        first_part, second_part = mask & (((1 << lanes) - 1) << (2 * pair * lanes)), mask & (((1 << lanes) - 1) << ((2 * pair + 1) * lanes))
        strict = size == 16 and pair == 0
        paired = f.const("i1", 0)
        for differs, uneven in agree:
            wrong = (differs | uneven) if strict else differs
            paired = paired | (wrong & (span & 0xFFFFFFFF)).eq(0)
        if strict:
            paired = paired | (mask >> 31).eq(0)
        together = _passes(f, addresses, first_part | second_part, size)
        apart = _passes(f, addresses, first_part, size) + _passes(f, addresses, second_part, size)
        total.set(total.get() + (paired & together.eq(1)).select(f.const("i64", 1), apart))
    f.ret(total.get())


def _swapped(mask: Native, distance: int) -> Native:
    """The mask with each lane's bit at the lane whose number differs in bit `distance`."""
    low = 0x55555555 if distance == 1 else 0x33333333
    return ((mask >> distance) & low) | ((mask & low) << distance)


def _build_shared_store(f: NativeFunction, size: int) -> None:
    """Stores: the warp whole up to 4 bytes, in halves at 8, in quarters at 16."""
    addresses, mask = f.args
    total = f.variable("i64", 0)
    for part in _parts(mask, size):
        total.set(total.get() + _passes(f, addresses, part, size))
    f.ret(total.get())


def _parts(mask: Native, size: int) -> list[Native]:
    groups = max(1, size // BANK_BYTES)
    lanes = 32 // groups
    return [mask & ((((1 << lanes) - 1) << (group * lanes)) & 0xFFFFFFFF) for group in range(groups)]


def _build_shared_atomic(f: NativeFunction, size: int) -> None:
    """rules.shared_atomic_wavefronts, "native": the most lanes on any one bank, whether they want the same word or not."""
    addresses, mask = f.args
    banks = BANKS * BANK_BYTES // max(size, BANK_BYTES)
    bank = (addresses >> (max(size, BANK_BYTES).bit_length() - 1)) & (banks - 1)
    at = _stored(f, "32xi64", bank)
    total = f.variable("i64", 0)
    for part in _parts(mask, size):
        counts, most = f.variable("32xi8"), f.variable("i8", 0)
        counts.set(f.const("32xi8", 0))
        most.set(0)
        with f.each_lane(part) as lane:
            place = Native(f, counts.slot) + f.load("i64", at, lane.to("i64") * 8)
            new = f.load("i8", place) + 1
            f.store(new, place)
            most.set((new > most.get()).select(new, most.get()))
        total.set(total.get() + most.get().to("i64"))
    f.ret(total.get())


def _passes(f: NativeFunction, addresses: Native, mask: Native, size: int) -> Native:
    """The distinct words of the busiest bank: each pass serves one of them in every bank."""
    width = max(size, BANK_BYTES)
    banks = BANKS * BANK_BYTES // width
    keys = (addresses >> (width.bit_length() - 1)).to("32xi32")
    bank = keys & (banks - 1)
    bits = f.const("32xi32", 1) << bank
    chosen = mask.to("32xi1").select(bits, f.const("32xi32", 0))
    union = f.intrinsic("llvm.vector.reduce.or.v32i32", "i32", chosen)
    result, rest = f.variable("i64", 0), f.variable("i32", 0)
    result.set(mask.ne(0).to("i64"))
    with f.if_(f.count_bits(union).ne(f.count_bits(mask))):
        table = f.variable("32xi32")
        places = f.splat(Native(f, table.slot).to("i64")) + (bank.to("32xi64") << 2)
        result.set(0)
        rest.set(mask)
        with f.loop():
            now = rest.get()
            f.break_if(now.eq(0))
            result.set(result.get() + 1)
            rest.set(now & ~_dropped_in(f, keys, places, now, 32))
    return result.get()


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


_BUILDERS = {
    "sectors": _build_sectors,
    "atomic_sectors": _build_atomic_sectors,
    "most_on_one_address": _build_most_on_one_address,
    "words": _build_words,
    "shared_load": _build_shared,
    "shared_store": _build_shared_store,
    "shared_atomic": _build_shared_atomic,
}
