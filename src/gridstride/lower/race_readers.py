"""Several readers of one cell that nothing orders: all that a later write has to be held against.

Where the block meets as a whole only (`races_exact` off), two readers speak for all: of the last one and one of another warp, any writer is of
another warp than at least one; of two in different blocks, any writer is in another block than at least one. The vector code of
`race_access.py` keeps those. Kernels with named barriers, fences or barriers of parts of a warp keep a list of all, in an area of the
block (shared memory) or of the launch (global memory), and pay for it.

    entry    0 next, 4 lanes, 8 cell (of the first lane), 16 meta         (32 bytes; the first one: 0 next unused, 4 first free, 8 limit)
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_bytes import CellsOf
from gridstride.lower.race_cells import (
    ATOMIC,
    BLOCK_SHIFT,
    IDENTITY,
    LISTED,
    M64,
    MARK,
    OTHER_BLOCK,
    OTHER_BLOCK_BITS,
    PATTERN_SHIFT,
    TAG_MASK,
    THREAD_MASK,
    TIME_BITS,
    TIME_MASK,
    VOLATILE,
    Now,
    is_marked,
    owned_by,
    thread_of,
)
from gridstride.lower.records import BLOCK, SPACES, WORKER

ENTRY = 32
BLOCK_ENTRIES, LAUNCH_ENTRIES = 1 << 12, 1 << 22  # only those used take memory; without room the oldest reader is forgotten
MOST_OF_ONE_CELL = 256
_NEXT, _LANES, _CELL, _META = 0, 4, 8, 16
_UNUSED, _FREE, _LIMIT = 0, 4, 8


def clear_list_area(f: NativeFunction, area: Native) -> None:
    for offset, value in ((_UNUSED, 1), (_FREE, 0), (_LIMIT, BLOCK_ENTRIES)):
        f.store(f.const("i32", value), area, offset)


def _area(f: NativeFunction, worker: Native, block: Native, space: Native) -> Native:
    return space.eq(SPACES.index("shared")).select(f.get(BLOCK, block, "shared_lists"), f.get(WORKER, worker, "race_lists"))


def _entry(area: Native, number: Native) -> Native:
    return area + number.to("i64") * ENTRY


def build_take(module: ir.Module) -> ir.Function:
    """race_take(area) -> number of a free entry, 0 without one"""
    f = NativeFunction(module, "race_take", "i32", ["ptr"])
    (area,) = f.args
    free = f.load("i32", area, _FREE)
    with f.if_(free.ne(0)):
        f.store(f.load("i32", _entry(area, free), _NEXT), area, _FREE)
        f.ret(free)
        f.b.position_at_end(f.block("dead"))
    unused = f.load("i32", area, _UNUSED)
    f.ret_if(unused >= f.load("i32", area, _LIMIT), 0)
    f.store(unused + 1, area, _UNUSED)
    f.ret(unused)
    return f.function


def _give_back(f: NativeFunction, area: Native, number: Native) -> None:
    f.store(f.load("i32", area, _FREE), _entry(area, number), _NEXT)
    f.store(number, area, _FREE)


def _lane_bit(f: NativeFunction, cell: Native) -> Native:
    return f.const("i32", 1) << (thread_of(cell).to("i32") & 31)


def build_add_reader(module: ir.Module, known: ir.Function, take: ir.Function, cells_of: CellsOf) -> ir.Function:
    """race_add_reader(worker, block, warp, lanes, me, mine, index, space): lanes of the warp read one cell beside others;
    `me` is the cell of the first of them."""
    f = NativeFunction(module, f"race_add_reader_{cells_of.name}", "void", ["ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i32"], attributes=("noinline",))
    worker, block, warp, lanes, me, mine, index, space = f.args
    cells = cells_of(f, worker, block, space)
    now = Now(f, worker, block, warp, space)
    area = _area(f, worker, block, space)
    old, old_meta = cells.get("reads", index), cells.get("read_meta", index)
    head = f.variable("i32", 0)
    head.set(0)
    with f.if_(now.recent(old)):
        listed = is_marked(old) & (old_meta & TAG_MASK).eq(LISTED)
        with f.if_else(listed) as (several, one):
            with several:
                head.set(cells.get("other", index))
            with one:
                number = f.call(take, area)
                with f.if_(number.ne(0)):
                    entry = _entry(area, number)
                    single = owned_by(old, thread_of(old))
                    f.store(f.const("i32", 0), entry, _NEXT)
                    f.store(_lane_bit(f, single), entry, _LANES)
                    f.store(single, entry, _CELL)
                    f.store(old_meta & (0xFFFFFFFF ^ TAG_MASK), entry, _META)
                    head.set(number)
    first = f.first_lane(lanes)
    before, at, count, found = (f.variable("i32", 0) for _ in range(4))
    for variable in (before, count, found):
        variable.set(0)
    at.set(head.get())
    warp_part = M64 ^ (31 << TIME_BITS)
    with f.loop():
        number = at.get()
        f.break_if(number.eq(0))
        entry = _entry(area, number)
        at.set(f.load("i32", entry, _NEXT))
        cell, meta = f.load("i64", entry, _CELL), f.load("i32", entry, _META)
        same = (cell & warp_part).eq(me & warp_part) & meta.eq(mine)
        gone = f.variable("i32", 0)
        gone.set((count.get() >= MOST_OF_ONE_CELL).to("i32"))
        with f.if_(same):
            f.store(f.load("i32", entry, _LANES) | lanes, entry, _LANES)
            found.set(1)
        with f.if_(~same & now.near(cell) & meta.eq(mine)):  # what comes before a reader of the same kind is covered by it
            left = f.variable("i32", 0)
            left.set(0)
            with f.each_lane(f.load("i32", entry, _LANES)) as lane:
                thread = (thread_of(cell) & (THREAD_MASK ^ 31)) | lane.to("i64")
                left.set(left.get() | f.call(known, worker, block, warp, first, owned_by(cell, thread)).eq(0).to("i32"))
            gone.set(gone.get() | left.get().eq(0).to("i32"))
        with f.if_else(gone.get().ne(0)) as (drop, keep):
            with drop:
                with f.if_else(before.get().eq(0)) as (front, inner):
                    with front:
                        head.set(at.get())
                    with inner:
                        f.store(at.get(), _entry(area, before.get()), _NEXT)
                _give_back(f, area, number)
            with keep:
                before.set(number)
                count.set(count.get() + 1)
    with f.if_(found.get().eq(0) & (head.get().ne(0) | f.count_bits(lanes).ne(1))):
        number = f.call(take, area)
        with f.if_(number.ne(0)):
            entry = _entry(area, number)
            f.store(head.get(), entry, _NEXT)
            f.store(lanes, entry, _LANES)
            f.store(me, entry, _CELL)
            f.store(mine, entry, _META)
            head.set(number)
    with f.if_else(head.get().eq(0)) as (alone, many):
        with alone:
            cells.put_read(index, me, mine)
        with many:
            cells.put_read(index, (me & IDENTITY) | (MARK << PATTERN_SHIFT) | TIME_MASK, mine | LISTED, head.get())
    f.ret()
    return f.function


def other_reader(f: NativeFunction, worker: Native, cell: Native, meta: Native, other: Native) -> tuple[Native, Native]:
    """Cell and meta of the second of two readers, from what `other` says of it."""
    in_block = owned_by(cell, (other >> 16).to("i64") & THREAD_MASK)
    flags = (other >> 6) & (ATOMIC | VOLATILE)
    in_block_meta = (meta & (15 << 16)) | flags | (other & 0xFFFF)
    first = f.get(WORKER, worker, "first_block")
    low = (other >> THREAD_MASK.bit_length()).to("i64")
    number = (first & (M64 ^ ((1 << OTHER_BLOCK_BITS) - 1))) | low
    number = (number < first).select(number + (1 << OTHER_BLOCK_BITS), number)
    elsewhere = (number << BLOCK_SHIFT) | ((other & THREAD_MASK).to("i64") << TIME_BITS) | TIME_MASK
    of_block = (meta & TAG_MASK).eq(OTHER_BLOCK)
    plain = meta & (0xFFFFFFFF ^ TAG_MASK)
    return of_block.select(elsewhere, in_block), of_block.select(plain, in_block_meta)


def describe_thread(cell: Native, meta: Native) -> Native:
    """What `other` says of a reader of the same block."""
    return (thread_of(cell).to(_like(cell)) << 16) | ((meta & (ATOMIC | VOLATILE)) << 6) | (meta & 0xFFFF)


def describe_block(cell: Native) -> Native:
    """What `other` says of a reader of another block."""
    low = (cell >> BLOCK_SHIFT) & ((1 << OTHER_BLOCK_BITS) - 1)
    return (low.to(_like(cell)) << THREAD_MASK.bit_length()) | thread_of(cell).to(_like(cell))


def _like(cell: Native) -> str:
    return "32xi32" if isinstance(cell.v.type, ir.VectorType) else "i32"


def build_judge_readers(module: ir.Module, judge: ir.Function, cells_of: CellsOf) -> ir.Function:
    """race_judge_readers(worker, block, warp, site, me, mine, index, how, address, space): a write meets what has been read in a cell;
    a list ends here."""
    kinds = ["ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i32", "i64", "i32"]
    f = NativeFunction(module, f"race_judge_readers_{cells_of.name}", "void", kinds, attributes=("noinline",))
    worker, block, warp, site, me, mine, index, how, address, space = f.args
    cells = cells_of(f, worker, block, space)
    now = Now(f, worker, block, warp, space)
    cell, meta = cells.get("reads", index), cells.get("read_meta", index)
    reader = f.const("i32", 0)

    def decide(cell: Native, meta: Native) -> Native:
        return f.call(judge, worker, block, warp, site, me, mine, cell, meta, how, reader, address, space).ne(0)

    with f.if_(~is_marked(cell)):
        decide(cell, meta)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    with f.if_((meta & TAG_MASK).ne(LISTED)):
        last, last_meta = owned_by(cell, thread_of(cell)), meta & (0xFFFFFFFF ^ TAG_MASK)
        other, other_meta = other_reader(f, worker, cell, meta, cells.get("other", index))
        # of readers in two blocks the one in another block than the writer's is meant
        swap = (meta & TAG_MASK).eq(OTHER_BLOCK) & now.near(cell)
        f.ret_if(decide(swap.select(other, last), swap.select(other_meta, last_meta)))
        with f.if_(~swap):
            decide(other, other_meta)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    area = _area(f, worker, block, space)
    at, told = f.variable("i32", cells.get("other", index)), f.variable("i32", 0)
    told.set(0)
    at.set(cells.get("other", index))
    with f.loop():
        number = at.get()
        f.break_if(number.eq(0))
        entry = _entry(area, number)
        at.set(f.load("i32", entry, _NEXT))
        base = f.load("i64", entry, _CELL)
        with f.each_lane(f.load("i32", entry, _LANES)) as lane, f.if_(told.get().eq(0)):
            thread = (thread_of(base) & (THREAD_MASK ^ 31)) | lane.to("i64")
            told.set(decide(owned_by(base, thread), f.load("i32", entry, _META)).to("i32"))
        _give_back(f, area, number)
    cells.forget_read(index)
    f.ret()
    return f.function


def build_judge_write(module: ir.Module, judge: ir.Function) -> ir.Function:
    """race_judge_write(worker, block, warp, site, me, mine, cell, meta, word, how, space): an access meets the last write of a word, and where
    that is the last of several atomics another one of them too (see `race_update._Update._leave_atomic`)."""
    kinds = ["ptr", "ptr", "ptr", "i32", "i64", "i32", "i64", "i32", "i64", "i32", "i32"]
    f = NativeFunction(module, "race_judge_write", "void", kinds, attributes=("noinline",))
    worker, block, warp, site, me, mine, cell, meta, word, how, space = f.args
    now = Now(f, worker, block, warp, space)

    def decide(cell: Native, meta: Native) -> Native:
        return f.call(judge, worker, block, warp, site, me, mine, cell, meta, how, f.const("i32", 1), word * 4, space).ne(0)

    with f.if_((meta & TAG_MASK).eq(0)):
        decide(cell, meta)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    other, other_meta = other_reader(f, worker, cell, meta, CellsOf(None)(f, worker, block, space).get("other", word))
    last, last_meta = owned_by(cell, thread_of(cell)), meta & (0xFFFFFFFF ^ TAG_MASK)
    # of atomics in two blocks the one in another block than the access is meant
    swap = (meta & TAG_MASK).eq(OTHER_BLOCK) & now.near(cell)
    f.ret_if(decide(swap.select(other, last), swap.select(other_meta, last_meta)))
    with f.if_((meta & TAG_MASK).ne(OTHER_BLOCK) & (mine & (ATOMIC | VOLATILE)).eq(0)):
        decide(other, other_meta)
    f.ret()
    return f.function


def newest_of(f: NativeFunction, worker: Native, block: Native, space: Native, number: Native) -> tuple[Native, Native]:
    """Cell and meta of the first reader of a list."""
    entry = _entry(_area(f, worker, block, space), number)
    return f.load("i64", entry, _CELL), f.load("i32", entry, _META)
