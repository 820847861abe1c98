"""Native functions that count one access of a warp: sectors, words, passes over the banks of shared memory."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.emitter import I32
from gridstride.lower.native import Native, NativeFunction

BANKS, BANK_BYTES = 32, 4
SECTOR_BYTES = 32
# Which tag bank a 128-byte line falls into: the exclusive or of these over the bits set in its number (measured on an
# H200, see observers/metrics/rules.py).
TAG_BANK_OF_BIT = (1, 2, 1, 2, 3, 1, 2, 3, 2, 1, 2, 1, 3, 1, 3, 2, 1, 3, 1, 3, 2, 3, 1, 3, 1, 2, 3)
# Tag bank of a 128-byte line: two parities over bits of the address (see rules.tag_bank).
_TAG_MASKS = tuple(sum(1 << (bit + 7) for bit, value in enumerate(TAG_BANK_OF_BIT) if value >> half & 1) for half in (0, 1))


def counter(module: ir.Module, what: str, size: int) -> ir.Function:
    """(addresses, mask) -> i64"""
    name = f"count_{what}_{size}"
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "i64", ["32xi64", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    _BUILDERS[what](f, size)
    return f.function


def line_counter(module: ir.Module, step: int, size: int) -> ir.Function:
    """(address of lane 0, mask) -> i64: distinct sectors of lanes less than a sector apart, ascending, under any mask."""
    name = f"count_line_{step}_{size}"
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    f = NativeFunction(module, name, "i64", ["i64", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    base, mask = f.args
    total, border = f.variable("i64", 0), f.variable("i64", 0)  # what the lanes before have touched ends at `border`
    rest = f.variable("i32", mask)
    with f.loop():  # run by run: within a run of lanes every sector from the first to the last is touched
        now = rest.get()
        f.break_if(now.eq(0))
        first = f.first_lane(now)
        after = now + (f.const("i32", 1) << first)  # the run's ones become zeros, and the next bit a one
        last = f.intrinsic("llvm.ctlz.i32", "i32", now & ~after, f.const("i1", 1)) ^ 31
        start = (base + first.to("i64") * step) >> 5
        end = ((base + last.to("i64") * step + (size - 1)) >> 5) + 1
        fresh = (start < border.get()).select(border.get(), start)
        total.set(total.get() + end - fresh)
        border.set(end)
        rest.set(now & after)
    f.ret(total.get())
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


_BUILDERS = {
    "sectors": _build_sectors,
    "atomic_sectors": _build_atomic_sectors,
    "most_on_one_address": _build_most_on_one_address,
    "words": _build_words,
    "shared_load": _build_shared,
    "shared_store": _build_shared_store,
    "shared_atomic": _build_shared_atomic,
}
