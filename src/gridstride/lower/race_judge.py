"""Native code that decides about two accesses: whether anything orders them, whether it matters, and what is noted down."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import (
    ATOMIC,
    BLOCK_SHIFT,
    OF_BYTES,
    SITE_BITS,
    THREAD_MASK,
    TIME_BITS,
    TIME_MASK,
    VALUES_KNOWN,
    VOLATILE,
    WRITES,
    block_number,
    owned_by,
    owner,
)
from gridstride.lower.records import BLOCK, FINDING, FINDINGS_LIMIT, RACE, SPACES, WARP, WORKER

WRITE_WRITE, READ_WRITE, WRITE_READ, ATOMIC_PLAIN, SAME_VALUE, UNORDERED_VOLATILE = range(6)
WARNING = 1 << 4


def build_note(module: ir.Module) -> ir.Function:
    """note_finding(worker, block, kind|severity|detail (see records.finding_code), site, other site, thread, other cell, address): count a finding."""
    f = NativeFunction(module, "note_finding", "void", ["ptr", "ptr", "i32", "i32", "i32", "i32", "i64", "i64"], attributes=("noinline",))
    worker, block, what, site, other_site, thread, other, address = f.args
    count = f.get(WORKER, worker, "finding_count")
    table = f.get(WORKER, worker, "findings")
    other_thread = ((other >> TIME_BITS) & THREAD_MASK).to("i32")

    def describe(entry: Native) -> None:
        f.put(FINDING, entry, "thread", thread)
        f.put(FINDING, entry, "block", f.get(BLOCK, block, "linear"))
        f.put(FINDING, entry, "other_block", (other >> BLOCK_SHIFT) - f.get(WORKER, worker, "first_block"))
        f.put(FINDING, entry, "other_thread", other_thread)
        f.put(FINDING, entry, "address", address)

    with f.count_to(count) as k:
        entry = table + k * FINDING.size
        same = f.get(FINDING, entry, "what").eq(what) & f.get(FINDING, entry, "site").eq(site) & f.get(FINDING, entry, "other_site").eq(other_site)
        with f.if_(same):
            f.add_to(FINDING, entry, "count", 1)
            # two threads of different warps are the better example: what orders them orders those of one warp too
            kept_within = (f.get(FINDING, entry, "thread") >> 5).eq(f.get(FINDING, entry, "other_thread") >> 5)
            with f.if_(other.ne(0) & kept_within & (thread >> 5).ne(other_thread >> 5)):
                describe(entry)
            f.ret()
            f.b.position_at_end(f.block("dead"))
    with f.if_(count < FINDINGS_LIMIT):
        entry = table + count * FINDING.size
        f.put(FINDING, entry, "what", what)
        f.put(FINDING, entry, "site", site)
        f.put(FINDING, entry, "other_site", other_site)
        describe(entry)
        f.put(FINDING, entry, "count", 1)
        f.put(WORKER, worker, "finding_count", count + 1)
    f.ret()
    return f.function


def build_known(module: ir.Module) -> ir.Function:
    """race_known(worker, block, warp, lane, cell) -> whether the access of a cell (of one thread of this block) comes before what the lane
    does now by program order, barriers or __syncwarp."""
    f = NativeFunction(module, "race_known", "i32", ["ptr", "ptr", "ptr", "i32", "i64"])
    worker, block, warp, lane, cell = f.args
    race, index = f.get(BLOCK, block, "race"), f.get(WARP, warp, "index")
    other = ((cell >> TIME_BITS) & THREAD_MASK).to("i32")
    time = (cell & TIME_MASK).to("i32")
    other_warp, other_lane = other >> 5, other & 31
    f.ret_if((cell >> BLOCK_SHIFT).ne(block_number(f, worker, block)), 0)
    f.ret_if(other.eq(index * 32 + lane), 1)
    known = f.variable("i32", f.load("i32", race, ((index * 32 + other_warp) * 4).to("i64") + RACE.offset("known")))
    with f.if_(other_warp.eq(index)):
        whole = f.get(RACE, race, "together", index.to("i64"))
        pair = f.load("i32", race, ((index * 1024 + lane * 32 + other_lane) * 4).to("i64") + RACE.offset("lanes"))
        known.set((whole > pair).select(whole, pair))
    f.ret((time <= known.get()).to("i32"))
    return f.function


def build_ordered(module: ir.Module, known: ir.Function) -> ir.Function:
    """race_ordered(…): the same for a thread of any block, by fences too."""
    f = NativeFunction(module, "race_ordered", "i32", ["ptr", "ptr", "ptr", "i32", "i64"], attributes=("noinline",))
    worker, block, warp, lane, cell = f.args
    f.ret_if(f.call(known, worker, block, warp, lane, cell).ne(0), 1)
    f.ret_if(f.get(WORKER, worker, "fences").eq(0), 0)  # only kernels that have any ask the host what they carry
    f.ret(f.call_pointer(f.get(WORKER, worker, "order_callback"), "i32", worker, block, warp, lane, cell))
    return f.function


def build_value(module: ir.Module) -> ir.Function:
    """race_value(worker, lane, address) -> the byte that the lane's store writes there"""
    f = NativeFunction(module, "race_value", "i32", ["ptr", "i32", "i64"])
    worker, lane, address = f.args
    offset = (address - f.get(WORKER, worker, "race_addresses", lane.to("i64"))).to("i32")
    word = f.get(WORKER, worker, "race_values", ((offset >> 2) * 32 + lane).to("i64"))
    f.ret((word >> ((offset & 3) * 8)) & 255)
    return f.function


def build_judge(module: ir.Module, note: ir.Function, ordered: ir.Function, value: ir.Function) -> ir.Function:
    """race_judge(worker, block, warp, site, me, mine, cell, meta, how, whether the earlier one was a write, address, space) -> 1 if it was told

    Decides about one earlier access (`cell`, `meta`) that is not plainly ordered before this one (`me`, `mine`: its cell and meta), byte by byte."""
    kinds = ["ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i32", "i32", "i32", "i64", "i32"]
    f = NativeFunction(module, "race_judge", "i32", kinds, attributes=("noinline",))
    worker, block, warp, site, me, mine, cell, meta, how, wrote, address, space = f.args
    shared = space.eq(SPACES.index("shared"))
    loose = ATOMIC | VOLATILE
    f.ret_if((meta & mine & ATOMIC).ne(0), 0)
    both_loose = (meta & loose).ne(0) & (mine & loose).ne(0)
    f.ret_if(both_loose & ~shared, 0)
    plain_writes = wrote.ne(0) & (how & WRITES).ne(0) & ((meta | mine) & loose).eq(0)
    host = shared.select(f.get(BLOCK, block, "shared").to("i64"), f.const("i64", 0)) + address
    found, same = f.variable("i32", 0), f.variable("i32", 0)
    mine_at, other_at, place = f.variable("i64", 0), f.variable("i64", 0), f.variable("i64", 0)
    found.set(0)
    same.set((plain_writes & (how & VALUES_KNOWN).ne(0)).to("i32"))
    overlap = (meta & mine) >> SITE_BITS
    with f.count_to(f.const("i64", 4)) as k, f.if_(((overlap >> k.to("i32")) & 1).ne(0)):
        mine_now, other_now = owner(me, k), owned_by(cell, owner(cell, k))
        lane = mine_now.to("i32") & 31
        # where all bytes are of one thread each, what is said of the first holds for the others
        known = found.get().ne(0) & mine_now.eq(mine_at.get()) & other_now.eq(other_at.get())
        apart = f.variable("i32", known.to("i32"))
        with f.if_(~known):
            apart.set(f.call(ordered, worker, block, warp, lane, other_now).eq(0).to("i32"))
        with f.if_(apart.get().ne(0)):
            equal = f.variable("i32", same.get())
            with f.if_(same.get().ne(0)):
                there = f.load("i8", (host + k).to("ptr")).to("i32")
                equal.set(there.eq(f.call(value, worker, lane, address + k)).to("i32"))
            with f.if_(found.get().eq(0) | (equal.get() < same.get())):  # a byte that differs is the one to tell of
                mine_at.set(mine_now)
                other_at.set(other_now)
                place.set(address + k)
            found.set(1)
            same.set(equal.get())
    f.ret_if(found.get().eq(0), 0)
    kind = shared.select(f.const("i32", 0), f.const("i32", 1))
    mixed = ((meta | mine) & ATOMIC).ne(0)
    base = (how & WRITES).ne(0).select(wrote.ne(0).select(f.const("i32", WRITE_WRITE), f.const("i32", READ_WRITE)), f.const("i32", WRITE_READ))
    alike = same.get().ne(0)
    detail = both_loose.select(f.const("i32", UNORDERED_VOLATILE), alike.select(f.const("i32", SAME_VALUE), mixed.select(f.const("i32", ATOMIC_PLAIN), base)))
    warning = (both_loose | alike).select(f.const("i32", WARNING), f.const("i32", 0))
    f.call(note, worker, block, kind | warning | (detail << 8), site, meta & 0xFFFF, mine_at.get().to("i32"), other_at.get(), place.get())
    f.ret(1)
    return f.function


def build_same_instruction(module: ir.Module, note: ir.Function, value: ir.Function) -> ir.Function:
    """race_same_instruction(worker, block, site, lane, winner, address, how, space): two lanes have written a cell in one instruction."""
    f = NativeFunction(module, "race_same_instruction", "void", ["ptr", "ptr", "i32", "i64", "i64", "i64", "i32", "i32"], attributes=("noinline",))
    worker, block, site, me, winner, address, how, space = f.args
    f.ret_if((how & VOLATILE).ne(0) & space.ne(SPACES.index("shared")))
    lanes = [owner(cell, 0).to("i32") & 31 for cell in (me, winner)]
    same = f.variable("i32", 0)
    place = f.variable("i64", address)
    same.set((how & VALUES_KNOWN) >> 1)
    place.set(address)
    with f.if_(same.get().ne(0)):
        size = (how & OF_BYTES).ne(0).select(f.const("i64", 1), f.const("i64", 4))
        with f.count_to(size) as k:
            mine, theirs = (f.call(value, worker, lane, address + k) for lane in lanes)
            with f.if_(mine.ne(theirs) & same.get().ne(0)):
                same.set(0)
                place.set(address + k)
    kind = space.eq(SPACES.index("shared")).select(f.const("i32", 0), f.const("i32", 1))
    loose = (how & VOLATILE).ne(0)
    mark = same.get().ne(0).select(f.const("i32", WARNING | SAME_VALUE << 8), f.const("i32", WRITE_WRITE << 8))
    mark = loose.select(f.const("i32", WARNING | UNORDERED_VOLATILE << 8), mark)
    f.call(note, worker, block, kind | mark, site, site & 0xFFFF, owner(me, 0).to("i32"), winner, place.get())
    f.ret()
    return f.function
