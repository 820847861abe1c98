"""Detection of data races, as native code: a shadow cell for each 4-byte word of shared and global memory.

A cell remembers the last write and one read (or that there were several): block, thread, time, instruction, bytes,
plain or not. Time is a counter of the block's synchronisations. Two accesses of which one writes are ordered if they
are of one thread, or if the second thread's warp knows of the first: for each pair of warps of a block there is the
time up to which one knows the other's accesses; barriers raise it, whole or named. Within a warp, lanes know of each
other up to the last __syncwarp that named both. Between blocks nothing is known but what fences carry, and that is
kept by `machine/happens_before.py`.

What is looked at never depends on which access happened to come first, so one run suffices for its inputs.

    cell    63..36 block + 1, 35..26 thread, 25..0 time          (write plane, read plane: 8 bytes a word each)
    meta    0..15 instruction, 16..19 bytes, 20 not plain (atomic), 21 volatile or relaxed, 22 several readers,
            23 readers of several blocks                          (4 bytes a word each)
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_order import build_arrive, build_begin, build_exit, build_release, build_warp_sync
from gridstride.lower.records import BLOCK, FINDING, FINDINGS_LIMIT, RACE, SPACES, WARP, WORKER

SITE_BITS, TIME_BITS, THREAD_BITS = 16, 26, 10
ATOMIC, VOLATILE, MULTIPLE, BLOCKS = 1 << 20, 1 << 21, 1 << 22, 1 << 23
READ, WRITE = 0, 1
TIME_MASK = (1 << TIME_BITS) - 1
BLOCK_SHIFT = TIME_BITS + THREAD_BITS
WRITE_WRITE, READ_WRITE, WRITE_READ, ATOMIC_PLAIN, SAME_VALUE, UNORDERED_VOLATILE = range(6)
_M64 = (1 << 64) - 1


def build_races() -> ir.Module:
    """`race_access`, `race_warp_sync`, `race_arrive`, `race_release`, `race_begin`, `race_exit`."""
    module = ir.Module("races")
    note = _note(module)
    judge = _judge(module, note)
    _access(module, judge, note)
    build_warp_sync(module)
    build_arrive(module)
    build_release(module)
    build_begin(module)
    build_exit(module)
    return module


def _note(module: ir.Module) -> ir.Function:
    """note_finding(worker, block, kind|severity|detail (see records.finding_code), site, other site, thread, other cell, address): count a finding."""
    f = NativeFunction(module, "note_finding", "void", ["ptr", "ptr", "i32", "i32", "i32", "i32", "i64", "i64"], attributes=("noinline",))
    worker, block, what, site, other_site, thread, other, address = f.args
    count = f.get(WORKER, worker, "finding_count")
    table = f.get(WORKER, worker, "findings")
    other_thread = ((other >> TIME_BITS) & ((1 << THREAD_BITS) - 1)).to("i32")

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


def _number(f: NativeFunction, worker: Native, block: Native) -> Native:
    """A block's number among all that the shadow has seen; never 0."""
    return f.get(BLOCK, block, "linear") + f.get(WORKER, worker, "first_block")


def _judge(module: ir.Module, note: ir.Function) -> ir.Function:
    """judge(worker, block, warp, site, lane, cell, meta, bytes|flags, now access is a write, earlier one was, address,
    space, same value): decide about one earlier access that is not plainly ordered before this one."""
    f = NativeFunction(
        module, "judge", "void", ["ptr", "ptr", "ptr", "i32", "i32", "i64", "i32", "i32", "i32", "i32", "i64", "i32", "i32"], attributes=("noinline",)
    )
    worker, block, warp, site, lane, cell, meta, mine, writes, wrote, address, space, same_value = f.args
    race = f.get(BLOCK, block, "race")
    index = f.get(WARP, warp, "index")
    thread = index * 32 + lane
    other_thread = ((cell >> TIME_BITS) & ((1 << THREAD_BITS) - 1)).to("i32")
    time = (cell & TIME_MASK).to("i32")
    several = (meta & MULTIPLE).ne(0)
    same_block = (cell >> BLOCK_SHIFT).eq(_number(f, worker, block))
    # other bytes of the same word do not conflict
    f.ret_if((meta & mine & (15 << SITE_BITS)).eq(0))
    both_atomic = (meta & mine & ATOMIC).ne(0)
    both_loose = ((meta & (ATOMIC | VOLATILE)).ne(0)) & ((mine & (ATOMIC | VOLATILE)).ne(0))
    f.ret_if(both_atomic)
    f.ret_if(both_loose & (space.ne(SPACES.index("shared"))))
    own = same_block & other_thread.eq(thread) & ~several
    f.ret_if(own)
    other_warp, other_lane = other_thread >> 5, other_thread & 31
    with f.if_(same_block):
        own_row = race + (index * 128 + RACE.offset("known")).to("i64")
        with f.if_else(several) as (many, one):
            with many:
                # of several readers only the latest time is kept; where named barriers part the block that is not enough to tell
                row = f.load("32xi32", own_row)
                most = f.intrinsic("llvm.vector.reduce.umax.v32i32", "i32", row)
                least = f.get(RACE, race, "floor", index.to("i64"))
                limit = f.get(WORKER, worker, "named_barriers").ne(0).select(most, least)
                f.ret_if(time <= limit)
            with one:
                known = f.variable("i32", f.load("i32", own_row, (other_warp * 4).to("i64")))
                with f.if_(other_warp.eq(index)):
                    whole = f.get(RACE, race, "together", index.to("i64"))
                    pair = f.load("i32", race, ((index * 1024 + lane * 32 + other_lane) * 4).to("i64") + RACE.offset("lanes"))
                    known.set((whole > pair).select(whole, pair))
                f.ret_if(time <= known.get())
    with f.if_(f.get(WORKER, worker, "fences").ne(0)):  # only kernels that have any ask the host what they carry
        f.ret_if(several)
        answer = f.call_pointer(f.get(WORKER, worker, "order_callback"), "i32", worker, block, warp, lane, cell)
        f.ret_if(answer.ne(0))
    kind = space.eq(SPACES.index("shared")).select(f.const("i32", 0), f.const("i32", 1))
    mixed = ((meta | mine) & ATOMIC).ne(0)
    base = writes.ne(0).select(wrote.ne(0).select(f.const("i32", WRITE_WRITE), f.const("i32", READ_WRITE)), f.const("i32", WRITE_READ))
    plain_pair = ((meta | mine) & (ATOMIC | VOLATILE)).eq(0)
    same = (writes & wrote & same_value).ne(0) & plain_pair
    detail = both_loose.select(f.const("i32", UNORDERED_VOLATILE), same.select(f.const("i32", SAME_VALUE), mixed.select(f.const("i32", ATOMIC_PLAIN), base)))
    warning = (both_loose | same).to("i32")
    f.call(note, worker, block, kind | (warning << 4) | (detail << 8), site, meta & 0xFFFF, thread, cell, address)
    f.ret()
    return f.function


def _access(module: ir.Module, judge: ir.Function, note: ir.Function) -> None:
    """race_access(worker, block, warp, site, addresses, lanes, values, bytes|flags, write, space, cell index shift…)

    addresses: of one word of every lane's access, host addresses or shared offsets. `how`: bit 0 writes, bit 1 the
    values are known (a plain store of a whole word), bits 8…: bytes of the access within its word, flags ATOMIC and
    VOLATILE at their places.
    """
    f = NativeFunction(module, "race_access", "void", ["ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi32", "i32", "i32"])
    worker, block, warp, site, addresses, mask, values, how, space = f.args
    race = f.get(BLOCK, block, "race")
    index = f.get(WARP, warp, "index")
    now = f.get(RACE, race, "event")
    shared = space.eq(SPACES.index("shared"))
    writes = how & 1
    flags = how & (ATOMIC | VOLATILE)
    number = _number(f, worker, block)
    oldest = f.get(WORKER, worker, "first_block") << BLOCK_SHIFT  # cells below it are of earlier launches
    threads = (f.lanes("i64") + f.splat((index * 32).to("i64"))) << TIME_BITS
    me = f.splat((number << BLOCK_SHIFT) | now.to("i64")) | threads
    words = addresses >> 2
    planes = [shared.select(f.get(BLOCK, block, f"shared_{n}"), f.get(WORKER, worker, f"race_{n}")) for n in ("writes", "reads", "write_meta", "read_meta")]
    lanes = mask.to("32xi1")
    line_words = f.splat(f.element(addresses, 0)) + (f.lanes("i64") << 2)
    broken = Native(f, f.b.icmp_unsigned("!=", addresses.v, line_words.v)).to("i32")
    size_now = (how >> 8) & 7
    with f.if_((broken | ~mask).eq(0) & size_now.eq(4) & (flags & ATOMIC).eq(0)):
        _line(f, addresses, planes, me, oldest, writes, flags, site)

    def cells(plane: Native, size: int) -> Native:
        return f.splat(plane.to("i64")) + words * size

    def gather(places: Native, bits: int) -> Native:
        pointers = Native(f, f.b.inttoptr(places.v, ir.VectorType(ir.PointerType(), 32)))
        kind = f"32xi{bits}"
        return f.intrinsic(f"llvm.masked.gather.v32i{bits}.v32p0", kind, pointers, f.const("i32", bits // 8), lanes, f.const(kind, 0))

    def scatter(value: Native, places: Native, bits: int, only: Native | None = None) -> None:
        pointers = Native(f, f.b.inttoptr(places.v, ir.VectorType(ir.PointerType(), 32)))
        f.intrinsic(f"llvm.masked.scatter.v32i{bits}.v32p0", "void", value, pointers, f.const("i32", bits // 8), lanes if only is None else only.to("32xi1"))

    size = ((how >> 8) & 7).to("i64")
    covered = f.splat((f.const("i64", 1) << size) - 1) << (addresses & 3)
    mine = (covered.to("32xi32") << SITE_BITS) | f.splat(flags | (site & 0xFFFF))
    place_w, place_r = cells(planes[0], 8), cells(planes[1], 8)
    place_wm, place_rm = cells(planes[2], 4), cells(planes[3], 4)
    floor = f.splat(f.get(RACE, race, "floor", index.to("i64")).to("i64"))
    identity = _M64 ^ TIME_MASK

    def suspicious(cell: Native) -> Native:
        """Lanes of which the earlier access is neither their own nor plainly ordered before this one."""
        other = Native(f, f.b.icmp_unsigned("!=", (cell & identity).v, (me & identity).v))
        there = Native(f, f.b.icmp_unsigned(">=", cell.v, f.splat(oldest).v))
        near = Native(f, f.b.icmp_unsigned("==", (cell >> BLOCK_SHIFT).v, f.splat(number).v))
        known = Native(f, f.b.icmp_unsigned("<=", (cell & TIME_MASK).v, floor.v))
        stale = Native(f, f.b.and_(f.b.not_(near.v), f.splat(shared).v))  # of a block that ran here before
        return Native(f, f.b.and_(f.b.and_(f.b.and_(other.v, there.v), f.b.not_(f.b.and_(near.v, known.v))), f.b.not_(stale.v))).to("i32") & mask

    written = gather(place_w, 64)
    doubtful = f.variable("i32", 0)
    doubtful.set(suspicious(written))
    with f.if_(flags.ne(0) & doubtful.get().ne(0)):  # atomics meet atomics all the time
        meta = gather(place_wm, 32)
        loose = Native(f, f.b.icmp_unsigned("!=", (meta & (ATOMIC | VOLATILE)).v, f.const("32xi32", 0).v)).to("i32")
        doubtful.set(doubtful.get() & ~(shared.select(f.const("i32", 0), loose) | ((flags & ATOMIC).ne(0)).select(loose, f.const("i32", 0))))
    with f.if_(doubtful.get().ne(0)):
        meta = gather(place_wm, 32)
        cell_slot, meta_slot = f.variable("32xi64", written), f.variable("32xi32", meta)
        mine_slot, address_slot, value_slot = f.variable("32xi32", mine), f.variable("32xi64", addresses), f.variable("32xi32", values)
        for slot, value in ((cell_slot, written), (meta_slot, meta), (mine_slot, mine), (address_slot, addresses), (value_slot, values)):
            slot.set(value)
        with f.each_lane(doubtful.get()) as lane:
            at8, at4 = lane.to("i64") * 8, lane.to("i64") * 4
            address = f.load("i64", Native(f, address_slot.slot), at8)
            same = f.variable("i32", 0)
            same.set(0)
            with f.if_((how & 2).ne(0)):
                host = shared.select(f.get(BLOCK, block, "shared").to("i64") + address, address)
                same.set(f.load("i32", (host & (_M64 ^ 3)).to("ptr")).eq(f.load("i32", Native(f, value_slot.slot), at4)).to("i32"))
            f.call(
                judge, worker, block, warp, site, lane, f.load("i64", Native(f, cell_slot.slot), at8), f.load("i32", Native(f, meta_slot.slot), at4),
                f.load("i32", Native(f, mine_slot.slot), at4), writes, f.const("i32", 1), address, space, same.get(),
            )  # fmt: skip
    with f.if_else(writes.ne(0)) as (write, read):
        with write:
            readers = gather(place_r, 64)
            read_meta = gather(place_rm, 32)
            doubt = suspicious(readers)
            many = Native(f, f.b.icmp_unsigned("!=", (read_meta & MULTIPLE).v, f.const("32xi32", 0).v)).to("i32")
            fresh = Native(f, f.b.icmp_unsigned(">", (readers & TIME_MASK).v, floor.v)).to("i32") & mask
            near = Native(f, f.b.icmp_unsigned("==", (readers >> BLOCK_SHIFT).v, f.splat(number).v)).to("i32")
            recent = Native(f, f.b.icmp_unsigned(">=", readers.v, f.splat(oldest).v)).to("i32")
            doubt = doubt | (many & recent & ((fresh & near) | (~near & shared.select(f.const("i32", 0), mask))))
            with f.if_(doubt.ne(0)):
                cell_slot, meta_slot = f.variable("32xi64", readers), f.variable("32xi32", read_meta)
                mine_slot, address_slot = f.variable("32xi32", mine), f.variable("32xi64", addresses)
                for slot, value in ((cell_slot, readers), (meta_slot, read_meta), (mine_slot, mine), (address_slot, addresses)):
                    slot.set(value)
                with f.each_lane(doubt) as lane:
                    at8, at4 = lane.to("i64") * 8, lane.to("i64") * 4
                    f.call(
                        judge, worker, block, warp, site, lane, f.load("i64", Native(f, cell_slot.slot), at8), f.load("i32", Native(f, meta_slot.slot), at4),
                        f.load("i32", Native(f, mine_slot.slot), at4), f.const("i32", 1), f.const("i32", 0), f.load("i64", Native(f, address_slot.slot), at8), space,
                        f.const("i32", 0),
                    )  # fmt: skip
            scatter(me, place_w, 64)
            scatter(mine, place_wm, 32)
            scatter(f.const("32xi64", 0), place_r, 64)
            scatter(f.const("32xi32", 0), place_rm, 32)
            with f.if_((flags & ATOMIC).eq(0)):
                _same_instruction(f, worker, block, warp, site, mask, addresses, values, mine, me, gather(place_w, 64), gather(place_wm, 32), how, space, note)
        with read:
            readers = gather(place_r, 64)
            read_meta = gather(place_rm, 32)
            apart = suspicious(readers).to("32xi1")
            near = Native(f, f.b.icmp_unsigned("==", (readers >> BLOCK_SHIFT).v, f.splat(number).v))
            together = f.const("32xi32", MULTIPLE) | near.select(f.const("32xi32", 0), f.const("32xi32", BLOCKS))
            # a further reader beside others keeps the mark that there were several
            old = Native(f, f.b.icmp_unsigned("<", readers.v, f.splat(oldest).v))
            kept = read_meta & (MULTIPLE | BLOCKS)
            kept = Native(f, f.b.select(old.v, f.const("32xi32", 0).v, kept.v))
            current = Native(f, f.b.icmp_unsigned(">", (readers & TIME_MASK).v, floor.v))
            kept = Native(f, f.b.select(f.b.or_(current.v, f.b.not_(near.v)), kept.v, f.const("32xi32", 0).v))
            bytes_before = Native(f, f.b.select(apart.v, (read_meta & (15 << SITE_BITS)).v, f.const("32xi32", 0).v))
            marks = Native(f, f.b.select(apart.v, together.v, f.const("32xi32", 0).v))
            scatter(me, place_r, 64)
            scatter(mine | marks | kept | bytes_before, place_rm, 32)
            back = gather(place_r, 64)
            lost = Native(f, f.b.icmp_unsigned("!=", back.v, me.v)).to("i32") & mask
            with f.if_(lost.ne(0)):  # lanes of this warp that read one word together
                scatter(mine | MULTIPLE, place_rm, 32, lost)
    f.ret()


def _line(
    f: NativeFunction, addresses: Native, planes: list[Native], me: Native, oldest: Native, writes: Native, flags: Native, site: Native
) -> None:
    """All lanes, neighbouring words, and nobody else has been here in this launch: the usual case of global memory.
    Returns from the function if so."""
    first = f.element(addresses, 0) >> 2
    place_w, place_r = planes[0] + first * 8, planes[1] + first * 8
    identity = _M64 ^ TIME_MASK

    def foreign(cell: Native) -> Native:
        other = Native(f, f.b.icmp_unsigned("!=", (cell & identity).v, (me & identity).v))
        return Native(f, f.b.and_(other.v, f.b.icmp_unsigned(">=", cell.v, f.splat(oldest).v)))

    strangers = f.variable("i32", 0)
    strangers.set(foreign(f.load("32xi64", place_w, align=8)).to("i32"))
    strangers.set(strangers.get() | foreign(f.load("32xi64", place_r, align=8)).to("i32"))
    with f.if_(strangers.get().eq(0)):
        meta = f.splat((f.const("i32", 15 << SITE_BITS)) | flags | (site & 0xFFFF))
        with f.if_else(writes.ne(0)) as (write, read):
            with write:
                f.store(me, place_w, align=8)
                f.store(meta, planes[2] + first * 4, align=4)
                f.store(f.const("32xi64", 0), place_r, align=8)
            with read:
                f.store(me, place_r, align=8)
                f.store(meta, planes[3] + first * 4, align=4)
        f.ret()
        f.b.position_at_end(f.block("dead"))


def _same_instruction(
    f: NativeFunction, worker: Native, block: Native, warp: Native, site: Native, mask: Native, addresses: Native, values: Native,
    mine: Native, me: Native, back: Native, back_meta: Native, how: Native, space: Native, note: ir.Function,
) -> None:  # fmt: skip
    """Lanes that write overlapping bytes of one word in the same instruction."""
    lost = Native(f, f.b.icmp_unsigned("!=", back.v, me.v)).to("i32") & mask
    overlapping = Native(f, f.b.icmp_unsigned("!=", (mine & back_meta & (15 << SITE_BITS)).v, f.const("32xi32", 0).v)).to("i32")
    lost = lost & overlapping
    with f.if_(lost.ne(0)):
        back_slot, value_slot, address_slot = f.variable("32xi64", back), f.variable("32xi32", values), f.variable("32xi64", addresses)
        for slot, value in ((back_slot, back), (value_slot, values), (address_slot, addresses)):
            slot.set(value)
        base = f.get(WARP, warp, "index") * 32
        shared = space.eq(SPACES.index("shared"))
        kind = shared.select(f.const("i32", 0), f.const("i32", 1))
        with f.each_lane(lost) as lane:
            winner = f.load("i64", Native(f, back_slot.slot), lane.to("i64") * 8)
            other_lane = (winner >> TIME_BITS) & 31
            known = (how & 2).ne(0)
            equal = f.load("i32", Native(f, value_slot.slot), lane.to("i64") * 4).eq(f.load("i32", Native(f, value_slot.slot), other_lane * 4)) & known
            loose = (how & VOLATILE).ne(0)
            mark = equal.select(f.const("i32", 1 << 4 | SAME_VALUE << 8), f.const("i32", WRITE_WRITE << 8))
            f.call(note, worker, block, kind | loose.select(f.const("i32", 1 << 4 | UNORDERED_VOLATILE << 8), mark), site, site & 0xFFFF, base + lane, winner, f.load("i64", Native(f, address_slot.slot), lane.to("i64") * 8))
