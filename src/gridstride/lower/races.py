"""Detection of data races, as native code: each access of a warp is held against the shadow cells of what it touches.

Time is a counter of the block's synchronisations. Two accesses of which one writes are ordered if they are of one thread, or if the second
thread's warp knows of the first: for each pair of warps of a block there is the time up to which one knows the other's accesses; barriers
raise it, whole or named (`race_order.py`). Within a warp, lanes know of each other up to the last __syncwarp that named both. Between blocks
nothing is known but what fences carry, and that is kept by `machine/happens_before.py`.

What is looked at never depends on which access happened to come first, so one run suffices for its inputs.

Here is how an access comes in: lanes that access neighbouring words or bytes are the usual case and are held against cells that lie side by
side; all else goes to `race_update.py` cell by cell. `race_cells.py` has what a cell is, `race_judge.py` the verdict.
"""

from __future__ import annotations

from itertools import pairwise

from llvmlite import ir

from gridstride.lower.coverage import build_cover
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_bytes import CellsOf, build_number
from gridstride.lower.race_cells import (
    ALL_BYTES,
    ATOMIC,
    MARK,
    NEXT_THREADS,
    OF_BYTES,
    OTHER_BLOCK,
    OTHER_THREAD,
    PAIRS_OF_BYTES,
    PATTERN_SHIFT,
    SITE_BITS,
    SIZE_SHIFT,
    TAG_MASK,
    THREAD_MASK,
    TIME_MASK,
    VALUES_KNOWN,
    VOLATILE,
    WRITES,
    Cells,
    Now,
    is_marked,
    pattern,
)
from gridstride.lower.race_judge import build_judge, build_known, build_note, build_ordered, build_same_instruction, build_value
from gridstride.lower.race_order import build_arrive, build_begin, build_exit, build_release, build_warp_sync
from gridstride.lower.race_readers import build_add_reader, build_judge_readers, build_judge_write, build_take, describe_thread
from gridstride.lower.race_update import build_split_cells, build_split_word, build_update
from gridstride.lower.records import WORKER

_COMMON = ["ptr", "ptr", "ptr", "i32"]


def build_races() -> ir.Module:
    """`race_access`, `race_warp_sync`, `race_arrive`, `race_release`, `race_begin`, `race_exit`, `note_finding`; and `cover_write`, which notes too."""
    module = ir.Module("races")
    note, value = build_note(module), build_value(module)
    known = build_known(module)
    judge = build_judge(module, note, build_ordered(module, known), value)
    functions = {"judge": judge, "judge_write": build_judge_write(module, judge), "same_instruction": build_same_instruction(module, note, value)}
    of_words, of_bytes = CellsOf(None), CellsOf(build_number(module))
    take = build_take(module)
    for cells_of in (of_bytes, of_words):
        functions[f"judge_readers_{cells_of.name}"] = build_judge_readers(module, judge, cells_of)
        functions[f"add_reader_{cells_of.name}"] = build_add_reader(module, known, take, cells_of)
    functions["update_bytes"] = build_update(module, functions, of_bytes)
    functions["split_word"] = build_split_word(module, of_bytes)
    functions["split_cells"] = build_split_cells(module, functions["update_bytes"])
    functions["update"] = build_update(module, functions, of_words)
    functions["line"] = _build_line(module, functions["update"])
    functions["broadcast"] = _build_broadcast(module, functions["update"])
    functions["repeated"] = _build_repeated(module, functions["update"])
    _build_access(module, functions)
    build_cover(module, note)
    for build in (build_warp_sync, build_arrive, build_release, build_begin, build_exit):
        build(module)
    return module


def _build_line(module: ir.Module, update: ir.Function) -> ir.Function:
    """race_line(worker, block, warp, site, first word, lanes, me, mine, how, space): lane k accesses the word k after the first.

    Where the cells hold no news that is all there is to it: the usual case."""
    f = NativeFunction(module, "race_line", "void", [*_COMMON, "i64", "i32", "32xi64", "32xi32", "i32", "i32"], attributes=("noinline",))
    worker, block, warp, site, first, lanes, me, mine, how, space = f.args
    cells, now = Cells(f, worker, block, space), Now(f, worker, block, warp, space)
    chosen = lanes.to("32xi1")

    def load(name: str) -> Native:
        return f.intrinsic("llvm.masked.load.v32i64.p0", "32xi64", cells.at(name, first), f.const("i32", 8), chosen, f.const("32xi64", 0))

    def store(name: str, value: Native) -> None:
        bits = value.v.type.element.width
        f.intrinsic(f"llvm.masked.store.v32i{bits}.p0", "void", value, cells.at(name, first), f.const("i32", bits // 8), chosen)

    written, read = load("writes"), load("reads")
    strangers = f.variable("i32", (now.news(written, me) | now.news(read, me)).to("i32") & lanes)
    partial = (mine & ALL_BYTES).ne(ALL_BYTES).to("i32") & lanes
    with f.if_(partial.ne(0)):  # what is there of other bytes must stay
        strangers.set(strangers.get() | (partial & (now.recent(written) | now.recent(read)).to("i32")))
    with f.if_(strangers.get().eq(0)):
        with f.if_else((how & WRITES).ne(0)) as (write, only_read):
            with write:
                store("writes", me)
                store("write_meta", mine)
                with f.if_((read.ne(0).to("i32") & lanes).ne(0)):  # data that is only written takes no memory for reads
                    store("reads", f.const("32xi64", 0))
            with only_read:
                store("reads", me)
                store("read_meta", mine)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    f.call(update, worker, block, warp, site, f.splat(first) + f.lanes("i64"), lanes, me, mine, how, space)
    f.ret()
    return f.function


def _build_broadcast(module: ir.Module, update: ir.Function) -> ir.Function:
    """race_broadcast(worker, block, warp, site, word, lanes, me, mine, how, space): several lanes read one word; me: of each of them."""
    f = NativeFunction(module, "race_broadcast", "void", [*_COMMON, "i64", "i32", "32xi64", "i32", "i32", "i32"], attributes=("noinline",))
    worker, block, warp, site, word, lanes, me, mine, how, space = f.args
    cells, now = Cells(f, worker, block, space), Now(f, worker, block, warp, space)
    written, read = cells.get("writes", word), cells.get("reads", word)
    meta = cells.get("read_meta", word)
    first = now.cell((now.index * 32 + f.first_lane(lanes)).to("i64"))
    second = now.cell((now.index * 32 + f.first_lane(lanes & (lanes - 1))).to("i64"))

    def leave(other: Native) -> None:
        cells.put("reads", word, first | (MARK << PATTERN_SHIFT))
        cells.put("read_meta", word, mine | OTHER_THREAD)
        cells.put("other", word, other)
        f.ret()
        f.b.position_at_end(f.block("dead"))

    with f.if_(~now.exact & (~now.recent(written) | now.past(written))):
        with f.if_(~now.recent(read) | now.past(read)):
            leave(describe_thread(second, mine))
        several = is_marked(read)
        # nothing is new: two blocks have read it, or several lanes of this warp since the last synchronisation
        f.ret_if(several & (meta & TAG_MASK).eq(OTHER_BLOCK))
        f.ret_if(several & now.of_warp(read) & (read & TIME_MASK).eq(now.time) & (meta & VOLATILE).eq(mine & VOLATILE))
        whole = (several | pattern(read).eq(0)) & (meta & ALL_BYTES).eq(ALL_BYTES)
        with f.if_(now.near(read) & ~now.of_warp(read) & whole):
            leave(describe_thread(read, meta))
    f.call(update, worker, block, warp, site, f.splat(word), lanes, me, f.splat(mine), how, space)
    f.ret()
    return f.function


def _build_repeated(module: ir.Module, update: ir.Function) -> ir.Function:
    """race_repeated(worker, block, warp, site, first word, words, me, mine, how, space): the whole warp reads a row of 16 or 8 words, over and over, as
    in a tile of which lanes of several rows take the same row. What `_build_broadcast` does, for each word of the row."""
    f = NativeFunction(module, "race_repeated", "void", [*_COMMON, "i64", "i32", "32xi64", "i32", "i32", "i32"], attributes=("noinline",))
    worker, block, warp, site, first, words, me, mine, how, space = f.args
    cells, now = Cells(f, worker, block, space), Now(f, worker, block, warp, space)
    row = f.lanes("i32") < f.splat(words)

    def load(name: str, bits: int) -> Native:
        kind = f"32xi{bits}"
        return f.intrinsic(f"llvm.masked.load.v32i{bits}.p0", kind, cells.at(name, first), f.const("i32", bits // 8), row, f.const(kind, 0))

    def store(name: str, value: Native, lanes: Native) -> None:
        bits = value.v.type.element.width
        f.intrinsic(f"llvm.masked.store.v32i{bits}.p0", "void", value, cells.at(name, first), f.const("i32", bits // 8), lanes)

    written, read, meta = load("writes", 64), load("reads", 64), load("read_meta", 32)
    of_row = row.to("i32")
    fresh = ~now.recent(read) | now.past(read)
    several = is_marked(read)
    plain = ((meta ^ f.splat(mine)) & VOLATILE).eq(0)
    mine_now = now.of_warp(read) & (read & TIME_MASK).eq(f.splat(now.time)) & plain
    nothing_new = several & (mine_now | (meta & TAG_MASK).eq(OTHER_BLOCK)) & ~fresh
    whole = (several | pattern(read).eq(0)) & (meta & ALL_BYTES).eq(ALL_BYTES)
    beside = ~fresh & ~nothing_new & now.near(read) & ~now.of_warp(read) & whole
    usual = (~now.recent(written) | now.past(written)) & (fresh | nothing_new | beside)
    with f.if_(~now.exact & (usual.to("i32") & of_row).eq(of_row)):
        new = (fresh | beside) & row
        with f.if_(new.to("i32").ne(0)):
            second = now.cell((f.lanes("i32") + f.splat(now.index * 32 + words)).to("32xi64"))
            said = Native(f, f.b.select(fresh.v, describe_thread(second, f.splat(mine)).v, describe_thread(read, meta).v))
            store("reads", me | (MARK << PATTERN_SHIFT), new)
            store("read_meta", f.splat(mine | OTHER_THREAD), new)
            store("other", said, new)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    places = f.splat(first) + (f.lanes("i32") & f.splat(words - 1)).to("32xi64")
    f.call(update, worker, block, warp, site, places, f.const("i32", -1), me, f.splat(mine), how, space)
    f.ret()
    return f.function


def _rows(
    f: NativeFunction, functions: dict[str, ir.Function], common: tuple[Native, ...], addresses: Native, width: int, me: Native, own: Native, how: Native,
    space: Native,
) -> None:  # fmt: skip
    """A whole warp accesses a word a lane in rows of 16 or 8 lanes, as in blocks that are so wide: returns where that is so."""
    starts = Native(f, f.b.shuffle_vector(addresses.v, addresses.v, ir.Constant(ir.VectorType(ir.IntType(32), 32), [k - k % width for k in range(32)])))
    inside = addresses - starts
    everyone = f.const("i32", -1)
    reads = (how & WRITES).eq(0)
    lines = inside.eq((f.lanes("i64") & (width - 1)) * 4).to("i32").eq(everyone)
    points = inside.eq(0).to("i32").eq(everyone) & reads
    mine = own | ALL_BYTES
    rows = [(f.element(addresses, k) >> 2, ((1 << width) - 1) << k) for k in range(0, 32, width)]
    apart = f.const("i1", 1)
    for (earlier, _), (later, _) in pairwise(rows):
        apart = apart & (later >= earlier + width)
    with f.if_(lines & (apart | reads)):
        same = addresses - f.splat(f.element(addresses, 0)) - inside
        with f.if_else(reads & same.eq(0).to("i32").eq(everyone)) as (repeated, several):
            with repeated:
                f.call(functions["repeated"], *common, rows[0][0], f.const("i32", width), me, mine, how, space)
            with several:
                for k, (first, lanes) in enumerate(rows):
                    f.call(functions["line"], *common, first - k * width, f.const("i32", lanes), me, f.splat(mine), how, space)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    with f.if_(points):
        for place, lanes in rows:
            f.call(functions["broadcast"], *common, place, f.const("i32", lanes), me, mine, how, space)
        f.ret()
        f.b.position_at_end(f.block("dead"))


def _build_access(module: ir.Module, functions: dict[str, ir.Function]) -> None:
    """race_access(worker, block, warp, site, addresses, lanes, how, space)

    addresses: host addresses or shared offsets. `how`: see race_cells, with the bytes of each lane's access from bit 8 on and the flags
    ATOMIC and VOLATILE at their places; what a plain store writes is in the worker's record."""
    f = NativeFunction(module, "race_access", "void", [*_COMMON, "32xi64", "i32", "i32", "i32"])
    worker, block, warp, site, addresses, mask, how, space = f.args
    now = Now(f, worker, block, warp, space)
    with f.if_((how & VALUES_KNOWN).ne(0)):
        f.store(addresses, worker, WORKER.offset("race_addresses"), align=64)
    f.ret_if(mask.eq(0))
    size = (how >> SIZE_SHIFT) & 63
    narrow = size < 4
    own = (how & (ATOMIC | VOLATILE)) | (site & 0xFFFF)
    common = (worker, block, warp, site)
    threads = (f.lanes("i32") + f.splat(now.index * 32)).to("32xi64")
    starts = addresses - f.lanes("i64") * f.splat(size.to("i64"))
    leader = f.first_lane(mask)
    first = f.element(starts, leader)
    broken = starts.ne(f.splat(first)).to("i32") & mask
    words = size >> 2
    with f.if_(broken.eq(0)):
        with f.if_(narrow):
            _narrow_line(f, functions["line"], common, now, first, mask, size, own, how, space)
            f.ret()
            f.b.position_at_end(f.block("dead"))
        shift = f.intrinsic("llvm.cttz.i32", "i32", words, f.const("i1", 1))
        with f.count_to(words) as k:
            lane = (f.lanes("i32") + f.splat(k * 32)) >> f.splat(shift)
            active = ((f.splat(mask) >> lane) & 1).ne(0).to("i32")
            me = now.cell((lane + f.splat(now.index * 32)).to("32xi64"))
            with f.if_(active.ne(0)):
                f.call(functions["line"], *common, (first >> 2) + (k * 32).to("i64"), active, me, f.splat(own | ALL_BYTES), how, space)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    me = now.cell(threads)
    with f.if_(narrow):
        _scattered_bytes(f, functions, common, now, addresses, mask, size, me, own, how, space)
        f.ret()
        f.b.position_at_end(f.block("dead"))
    with f.if_((size.eq(4)) & mask.eq(f.const("i32", -1))):
        for width in (16, 8):
            _rows(f, functions, common, addresses, width, me, own, how, space)
    place = f.element(addresses, leader)
    shared_by_all = (addresses.ne(f.splat(place)).to("i32") & mask).eq(0) & (how & WRITES).eq(0)
    with f.count_to(words) as k, f.if_else(shared_by_all) as (broadcast, scattered):
        with broadcast:
            f.call(functions["broadcast"], *common, (place >> 2) + k.to("i64"), mask, me, own | ALL_BYTES, how, space)
        with scattered:
            f.call(functions["update"], *common, (addresses >> 2) + f.splat(k.to("i64")), mask, me, f.splat(own | ALL_BYTES), how, space)
    f.ret()


def _narrow_line(
    f: NativeFunction, line: ir.Function, common: tuple[Native, ...], now: Now, first: Native, mask: Native, size: Native, own: Native,
    how: Native, space: Native,
) -> None:  # fmt: skip
    """Lanes access neighbouring bytes, or pairs of them: a cell says that its bytes are of threads in a row."""
    of_one = size.eq(1)
    # the lane of each word's first byte; words at the ends may begin before the first lane, so all is shifted up by three
    ahead = (first & 3) // size.to("i64")
    lane = f.lanes("i64") * f.splat(of_one.select(f.const("i64", 4), f.const("i64", 2))) - f.splat(ahead) + 3
    shift = Native(f, f.b.select((lane < 63).v, lane.v, f.const("32xi64", 63).v))
    bits = (f.splat(mask.to("i64") << 3) >> shift).to("32xi32") & 15
    pairs = (bits & 1) * 3 | ((bits >> 1) & 1) * 12
    covered = Native(f, f.b.select(of_one.v, bits.v, pairs.v))
    kind = of_one.select(f.const("i64", NEXT_THREADS << PATTERN_SHIFT), f.const("i64", PAIRS_OF_BYTES << PATTERN_SHIFT))
    me = now.cell((lane - 3 + f.splat((now.index * 32).to("i64"))) & THREAD_MASK) | f.splat(kind)
    mine = (covered << SITE_BITS) | f.splat(own)
    f.call(line, *common, first >> 2, covered.ne(0).to("i32"), me, mine, how, space)


def _scattered_bytes(
    f: NativeFunction, functions: dict[str, ir.Function], common: tuple[Native, ...], now: Now, addresses: Native, mask: Native, size: Native,
    me: Native, own: Native, how: Native, space: Native,
) -> None:  # fmt: skip
    """Bytes here and there: the words that they are in are split, then each byte is a cell."""
    worker, block, warp, _ = common
    words = addresses >> 2
    cells = Cells(f, worker, block, space)
    written = cells.gather("writes", words, mask)
    unsplit = mask & ~(now.recent(written) & is_marked(written)).to("i32")
    with f.if_(unsplit.ne(0)):
        slot = f.variable("32xi64", words)
        with f.each_lane(unsplit) as lane:
            f.call(functions["split_word"], worker, block, warp, f.load("i64", Native(f, slot.slot), lane.to("i64") * 8), space)
    with f.count_to(size) as k:
        f.call(functions["update_bytes"], *common, addresses + f.splat(k.to("i64")), mask, me, f.splat(own | 1 << SITE_BITS), how | OF_BYTES, space)
