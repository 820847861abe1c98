"""Native functions that count one access of a warp: sectors, words, passes over the banks of shared memory."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower import bank_counters
from gridstride.lower.bank_counters import BANK_BYTES
from gridstride.lower.emitter import I32
from gridstride.lower.equal_lanes import equal_to, leaders, moved, rows_of_equals
from gridstride.lower.native import Native, NativeFunction

SECTOR_BYTES = 32
# Which tag bank a 128-byte line falls into: the exclusive or of these over the bits set in its number (measured on an
# H200, see observers/metrics/rules.py).
TAG_BANK_OF_BIT = (1, 2, 1, 2, 3, 1, 2, 3, 2, 1, 2, 1, 3, 1, 3, 2, 1, 3, 1, 3, 2, 3, 1, 3, 1, 2, 3)
# Tag bank of a 128-byte line: two parities over bits of the address (see rules.tag_bank).
_TAG_MASKS = tuple(sum(1 << (bit + 7) for bit, value in enumerate(TAG_BANK_OF_BIT) if value >> half & 1) for half in (0, 1))


def counter(module: ir.Module, what: str, size: int) -> ir.Function:
    """(addresses, mask) -> i64. Addresses of shared memory have 32 bits, all others 64."""
    name = f"count_{what}_{size}"
    known: ir.Function | None = module.globals.get(name)
    if known is not None:
        return known
    addresses = "32xi32" if what.startswith("shared") else "32xi64"
    f = NativeFunction(module, name, "i64", [addresses, "i32"], attributes=("noinline",))
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
    f.ret(_count_distinct(f, addresses >> 5, mask) * max(1, size // SECTOR_BYTES))


def _count_distinct(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """The distinct keys among the lanes of `mask`."""
    count = f.variable("i64", 0)
    halves_agree = equal_to(f, keys, moved(f, keys, 16)).eq(0xFFFFFFFF)
    mask = halves_agree.select((mask | (mask >> 16)) & 0xFFFF, mask)
    behind = moved(f, keys, 1)
    steps = ~equal_to(f, keys, behind) & ~1
    falls = Native(f, f.b.icmp_unsigned("<", keys.v, behind.v)).to("i32") & ~1
    # where lanes ascend, equal keys are neighbours: stretches of lanes, of which those with an active one count
    count.set(f.count_bits(_stretches_with(f, steps, mask)).to("i64"))
    with f.if_(falls.ne(0)):
        # in a run of active lanes, too, of which the others need not ascend
        run = mask >> f.first_lane(mask)
        followers = mask & (mask << 1)
        count.set((f.count_bits(steps & followers) + 1).to("i64"))
        with f.if_(((falls & followers) | (run & (run + 1))).ne(0)):
            count.set(_count_unsorted(f, keys, mask))
    return count.get()


def _stretches_with(f: NativeFunction, steps: Native, mask: Native) -> Native:
    """One bit for each stretch of lanes (it begins at a bit of `steps`, or at lane 0) that has one of `mask`: added to a
    stretch's ones below its last lane, any lane of the mask carries to the last."""
    last = (steps >> 1) | (1 << 31)
    return (((mask & ~last) + ~last) | mask) & last


def _count_unsorted(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """Distinct keys in any order."""
    count = f.variable("i64", 0)
    at = _stored(f, "32xi64", keys)
    distance = keys - f.splat(f.load("i64", at, f.first_lane(mask).to("i64") * 8))
    far = Native(f, f.b.icmp_unsigned(">=", (distance + (1 << 15)).v, f.const("32xi64", 1 << 16).v)).to("i32") & mask
    with f.if_else(far.eq(0)) as (near, other):
        with near:
            count.set(f.count_bits(leaders(f, distance.to("32xi16"), mask)).to("i64"))
        with other:
            count.set(_count_scattered(f, keys, mask))
    return count.get()


def _count_scattered(f: NativeFunction, keys: Native, mask: Native) -> Native:
    """Distinct keys, whatever they are: dropped into 64 buckets, and whoever finds its own there is counted with it."""
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


def _dropped_in(f: NativeFunction, keys: Native, places: Native, lanes: Native, bits: int) -> Native:
    """Every lane stores its key at its place; the lanes that find their own key there afterwards."""
    pointers = Native(f, f.b.inttoptr(places.v, ir.VectorType(ir.PointerType(), 32)))
    mask, size, kind = lanes.to("32xi1"), f.const("i32", bits // 8), f"32xi{bits}"
    f.intrinsic(f"llvm.masked.scatter.v32i{bits}.v32p0", "void", keys, pointers, size, mask)
    back = f.intrinsic(f"llvm.masked.gather.v32i{bits}.v32p0", kind, pointers, size, mask, f.const(kind, 0))
    return Native(f, f.b.icmp_unsigned("==", back.v, keys.v)).to("i32") & lanes


def _stored(f: NativeFunction, kind: str, vector: Native) -> Native:
    """A vector in memory, to take single elements from."""
    slot = f.variable(kind, vector)
    slot.set(vector)
    return Native(f, slot.slot)


def _build_atomics(f: NativeFunction, size: int) -> None:
    """rules.reduction_sectors, and in the upper 32 bits the most lanes on any one address: so often an atomic is made in turn.

    Each tag bank takes a line at a time, and of the lanes at one place in a line (of its bank, whatever the line) the lowest.
    """
    addresses, mask = f.args
    banks = f.const("32xi64", 0)
    for half, chosen in enumerate(_TAG_MASKS):
        ones = f.intrinsic("llvm.ctpop.v32i64", "32xi64", addresses & chosen)
        banks = banks | ((ones & 1) << half)
    bank_of = banks.to("32xi8")
    lanes_of_bank = [equal_to(f, bank_of, f.const("32xi8", bank)) for bank in range(4)]
    sector_of = ((addresses >> 5) & 3).to("32xi8")
    lanes_of_sector = [equal_to(f, sector_of, f.const("32xi8", sector)) for sector in range(4)]
    lines = (addresses >> 7).to("32xi32")  # no device has memory for two lines of one such number
    places = (((addresses & 127) // size) | (banks << 8)).to("32xi16")
    rows = f.variable("32xi32")
    for lane, row in rows_of_equals(f, places, "32xi16"):
        f.store(row, Native(f, rows.slot), 4 * lane)
    most = f.const("i32", 0)
    for lane, row in rows_of_equals(f, lines, "32xi32"):
        together = f.count_bits(row & f.load("i32", Native(f, rows.slot), 4 * lane) & mask)
        together = ((mask >> lane) & 1).ne(0).select(together, f.const("i32", 0))
        most = (together > most).select(together, most)
    earlier = rows.get() & Native(f, ir.Constant(ir.VectorType(I32, 32), [ir.Constant(I32, (1 << lane) - 1) for lane in range(32)]))
    at = _stored(f, "32xi32", lines)
    waiting, total = f.variable("i32", mask), f.variable("i32", 0)
    waiting.set(mask)
    total.set(0)
    with f.loop():
        now = waiting.get()
        f.break_if(now.eq(0))
        blocked = ~equal_to(f, earlier & f.splat(now), f.const("32xi32", 0))
        gone, count = f.const("i32", 0), f.const("i32", 0)
        for lanes in lanes_of_bank:
            queue = now & lanes
            first = f.intrinsic("llvm.cttz.i32", "i32", queue, f.const("i1", 0)) & 31  # where nobody waits, nobody goes
            going = equal_to(f, lines, f.splat(f.load("i32", at, first.to("i64") * 4))) & queue & ~blocked
            for sector in lanes_of_sector:
                count = count + (going & sector).ne(0).to("i32")
            gone = gone | going
        total.set(total.get() + count)
        waiting.set(now & ~gone)
    f.ret((most.to("i64") << 32) | total.get().to("i64"))


_BUILDERS = {
    "sectors": _build_sectors,
    "atomics": _build_atomics,
    "words": _build_words,
    "shared_load": bank_counters.build_load,
    "shared_store": bank_counters.build_store,
    "shared_atomic": bank_counters.build_atomic,
}
