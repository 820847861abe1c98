"""Native code that holds one access of a warp against the cells that it meets, and leaves it there."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_bytes import ByteCells, CellsOf
from gridstride.lower.race_cells import (
    ALL_BYTES,
    ATOMIC,
    LISTED,
    M64,
    MARK,
    OF_BYTES,
    OTHER_BLOCK,
    OTHER_THREAD,
    PATTERN_SHIFT,
    SEVERAL_ATOMICS,
    SITE_BITS,
    TAG_MASK,
    TIME_MASK,
    VOLATILE,
    WRITES,
    Cells,
    Now,
    is_marked,
    owned_by,
    owner,
    pattern,
    thread_of,
)
from gridstride.lower.race_readers import describe_block, describe_thread, newest_of

_MARKED = MARK << PATTERN_SHIFT
_UNTAGGED = 0xFFFFFFFF ^ TAG_MASK


def _mask(bits: Native) -> Native:
    """A vector of conditions as the bits of an i32."""
    return bits.to("i32")


class _Slots:
    """Vectors put down where single lanes of them can be read."""

    def __init__(self, f: NativeFunction, **vectors: Native) -> None:
        self.f = f
        self.slots = {}
        for name, value in vectors.items():
            variable = f.variable(f"32x{value.v.type.element}", value)
            self.slots[name] = (Native(f, variable.slot), str(value.v.type.element))

    def get(self, name: str, lane: Native) -> Native:
        slot, kind = self.slots[name]
        return self.f.load(kind, slot, lane.to("i64") * (int(kind[1:]) // 8))


def build_split_word(module: ir.Module, cells_of: CellsOf) -> ir.Function:
    """race_split_word(worker, block, warp, word, space): from now on each byte of the word has a cell of its own."""
    f = NativeFunction(module, "race_split_word", "void", ["ptr", "ptr", "ptr", "i64", "i32"], attributes=("noinline",))
    worker, block, warp, word, space = f.args
    cells, now = Cells(f, worker, block, space), Now(f, worker, block, warp, space)
    bytes_ = cells_of(f, worker, block, space)
    assert isinstance(bytes_, ByteCells)
    written, read = cells.get("writes", word), cells.get("reads", word)
    f.ret_if(now.recent(written) & is_marked(written))
    write_meta, other = cells.get("write_meta", word), cells.get("other", word)
    read_meta = f.variable("i32", cells.get("read_meta", word))
    reader = f.variable("i64", read)
    read_meta.set(cells.get("read_meta", word))
    written = (write_meta & TAG_MASK).ne(0).select(owned_by(written, thread_of(written)), written)  # of several atomics the last one is kept
    with f.if_(now.recent(read) & is_marked(read) & (read_meta.get() & TAG_MASK).eq(LISTED)):
        newest, meta = newest_of(f, worker, block, space, other)  # of a list only one is kept here
        reader.set(newest)
        read_meta.set(meta)
    with f.count_to(f.const("i64", 4)) as k:

        def of_byte(cell: Native, meta: Native, k: Native = k) -> tuple[Native, Native]:
            has = now.recent(cell) & ((meta >> (k.to("i32") + SITE_BITS)) & 1).ne(0)
            return has.select(cell, f.const("i64", 0)), (meta & (0xFFFFFFFF ^ ALL_BYTES)) | 1 << SITE_BITS

        address = word * 4 + k
        several = is_marked(reader.get())
        single = several.select(reader.get(), owned_by(reader.get(), owner(reader.get(), k)))
        write = of_byte(owned_by(written, owner(written, k)), write_meta & _UNTAGGED)
        bytes_.put(address, write, (*of_byte(single, read_meta.get()), other))
    cells.put("writes", word, now.cell(f.const("i64", 0)) | _MARKED | TIME_MASK)
    with f.if_(read.ne(0)):  # what is not there takes no memory
        cells.put("reads", word, 0)
    f.ret()
    return f.function


def build_split_cells(module: ir.Module, update_bytes: ir.Function) -> ir.Function:
    """race_split_cells(worker, block, warp, site, words, lanes, me, mine, how, space): an access to words that are split, byte by byte."""
    kinds = ["ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi64", "32xi32", "i32", "i32"]
    f = NativeFunction(module, "race_split_cells", "void", kinds, attributes=("noinline",))
    worker, block, warp, site, words, lanes, me, mine, how, space = f.args
    with f.count_to(f.const("i32", 4)) as k:
        byte = f.splat(k)
        has = _mask(((mine >> (byte + SITE_BITS)) & 1).ne(0)) & lanes
        with f.if_(has.ne(0)):
            owners = owner(me, f.splat(k.to("i64")))
            of_byte = (mine & (0xFFFFFFFF ^ ALL_BYTES)) | 1 << SITE_BITS
            f.call(update_bytes, worker, block, warp, site, (words << 2) + f.splat(k.to("i64")), has, owned_by(me, owners), of_byte, how | OF_BYTES, space)
    # what is written as a whole is whole again
    whole = _mask((mine & ALL_BYTES).eq(ALL_BYTES)) & lanes
    with f.if_((how & WRITES).ne(0) & whole.ne(0)):
        cells = Cells(f, worker, block, space)
        cells.leave_write(words, me, mine, whole)
        cells.forget_reads(words, whole)
    f.ret()
    return f.function


class _Update:
    """race_update_…(worker, block, warp, site, index, lanes, me, mine, how, space): an access by `lanes`, each to the cell of its index.

    me, mine: the cell and meta that each lane leaves. how: see race_cells. Where lanes share a cell it is one that they use whole."""

    def __init__(self, module: ir.Module, functions: dict[str, ir.Function], cells_of: CellsOf) -> None:
        kinds = ["ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi64", "32xi32", "i32", "i32"]
        self.f = f = NativeFunction(module, f"race_update_{cells_of.name}", "void", kinds, attributes=("noinline",))
        self.worker, self.block, self.warp, self.site, self.index, given, self.me, self.mine, self.how, self.space = f.args
        self.functions, self.name = functions, cells_of.name
        self.cells = cells_of(f, self.worker, self.block, self.space)
        self.now = Now(f, self.worker, self.block, self.warp, self.space)
        self.flags = self.how & (ATOMIC | VOLATILE)
        self.lanes = f.variable("i32", given)
        self.lanes.set(given)
        written = self.cells.gather("writes", self.index, given)
        doubtful = f.variable("i32", 0)
        doubtful.set(_mask(self.now.news(written, self.me)) & given)
        with f.if_(doubtful.get().ne(0)):
            if not self.cells.of_bytes:
                split = _mask(is_marked(written)) & doubtful.get()
                with f.if_(split.ne(0)):
                    self._apart(split)
                    f.ret_if(self.lanes.get().eq(0))
                    doubtful.set(doubtful.get() & ~split)
            self._judge_writes(written, doubtful.get())
        with f.if_else((self.how & WRITES).ne(0)) as (write, read):
            with write:
                self._write(written)
            with read:
                self._read()
        f.ret()

    def _common(self) -> tuple[Native, Native, Native, Native]:
        return self.worker, self.block, self.warp, self.site

    def _apart(self, lanes: Native) -> None:
        """Lanes whose words are split go their own way."""
        f = self.f
        f.call(self.functions["split_cells"], *self._common(), self.index, lanes, self.me, self.mine, self.how, self.space)
        self.lanes.set(self.lanes.get() & ~lanes)

    def _split(self, lanes: Native) -> None:
        """Words of which the bytes now belong to different threads."""
        f = self.f
        slots = _Slots(f, index=self.index)
        with f.each_lane(lanes) as lane:
            f.call(self.functions["split_word"], self.worker, self.block, self.warp, slots.get("index", lane), self.space)
        self._apart(lanes)

    def _judge_writes(self, written: Native, doubtful: Native) -> None:
        """Of earlier writes, those that are news. Atomics meet atomics all the time, and that is no race."""
        f = self.f
        left = f.variable("i32", doubtful)
        meta = self.cells.gather("write_meta", self.index, doubtful)
        with f.if_(self.flags.ne(0)):
            loose = _mask((meta & (ATOMIC | VOLATILE)).ne(0))
            minded = self.now.shared & (self.flags & ATOMIC).eq(0)
            left.set(left.get() & ~minded.select(f.const("i32", 0), loose))
        with f.if_(left.get().ne(0)):
            slots = _Slots(f, cell=written, meta=meta, me=self.me, mine=self.mine, index=self.index)
            with f.each_lane(left.get()) as lane:
                cell, earlier, me, mine = (slots.get(n, lane) for n in ("cell", "meta", "me", "mine"))
                index = slots.get("index", lane)
                if self.cells.of_bytes:
                    f.call(self.functions["judge"], *self._common(), me, mine, cell, earlier, self.how, f.const("i32", 1), index, self.space)
                else:
                    f.call(self.functions["judge_write"], *self._common(), me, mine, cell, earlier, index, self.how, self.space)

    def _merged(self, cell: Native, meta: Native, lanes: Native) -> tuple[Native, Native]:
        """Of accesses to part of a word: lanes that cannot share the cell with what is there, and the metas of those that can."""
        fits = (meta & ALL_BYTES & ~self.mine).eq(0) | ~self.now.recent(cell)
        alike = cell.eq(self.me) & ((meta ^ self.mine) & (ATOMIC | VOLATILE | TAG_MASK)).eq(0)
        clash = _mask(~fits & ~alike) & lanes
        merged = Native(self.f, self.f.b.select((alike & ~fits).v, (self.mine | (meta & ALL_BYTES)).v, self.mine.v))
        return clash, merged

    def _partial(self) -> Native:
        return _mask((self.mine & ALL_BYTES).ne(ALL_BYTES)) & self.lanes.get()

    # ---- writing ---------------------------------------------------------------------------------------------

    def _write(self, written: Native) -> None:
        f, cells = self.f, self.cells
        mine = f.variable("32xi32", self.mine)
        keep = f.variable("i32", 0)  # lanes that leave the reads of other bytes as they are
        if not cells.of_bytes:
            partial = self._partial()
            with f.if_(partial.ne(0)):
                clash, merged = self._merged(written, cells.gather("write_meta", self.index, partial), partial)
                with f.if_(clash.ne(0)):
                    self._split(clash)
                mine.set(merged)
                reads = cells.gather("reads", self.index, partial)
                others = cells.gather("read_meta", self.index, partial) & ALL_BYTES & ~self.mine
                keep.set(_mask(self.now.recent(reads) & others.ne(0)) & partial)
        lanes = self.lanes.get()
        f.ret_if(lanes.eq(0))
        readers = cells.gather("reads", self.index, lanes)
        doubt = _mask(self.now.news(readers, self.me)) & lanes
        with f.if_(doubt.ne(0)):
            slots = _Slots(f, me=self.me, mine=self.mine, index=self.index)
            with f.each_lane(doubt) as lane:
                index = slots.get("index", lane)
                arguments = (slots.get("me", lane), slots.get("mine", lane), index, self.how, index * self.cells.step, self.space)
                f.call(self.functions[f"judge_readers_{self.name}"], *self._common(), *arguments)
        gone = lanes & ~keep.get() & _mask(readers.ne(0))
        with f.if_(gone.ne(0)):
            cells.forget_reads(self.index, gone)
        if cells.of_bytes:
            cells.leave_write(self.index, self.me, mine.get(), lanes)
        else:
            with f.if_else((self.flags & ATOMIC).ne(0) & ~self.now.exact) as (atomic, other):
                with atomic:
                    self._leave_atomic(written, mine.get(), lanes)
                with other:
                    cells.leave_write(self.index, self.me, mine.get(), lanes)
        with f.if_((self.flags & ATOMIC).eq(0)):
            winners = cells.gather("writes", self.index, lanes)
            lost = _mask(winners.ne(self.me)) & lanes
            with f.if_(lost.ne(0)):
                slots = _Slots(f, me=self.me, winner=winners, index=self.index)
                with f.each_lane(lost) as lane:
                    address = slots.get("index", lane) * self.cells.step
                    same = self.functions["same_instruction"]
                    f.call(same, self.worker, self.block, self.site, slots.get("me", lane), slots.get("winner", lane), address, self.how, self.space)

    def _leave_atomic(self, written: Native, mine: Native, lanes: Native) -> None:
        """An atomic may follow others that nothing orders. Two are kept that speak for all: a plain access may be ordered behind the last one only."""
        f, cells, now = self.f, self.cells, self.now
        meta = cells.gather("write_meta", self.index, lanes)
        before = now.recent(written) & (meta & ATOMIC).ne(0) & (mine & ALL_BYTES).eq(ALL_BYTES)
        near, tag = now.near(written), meta & TAG_MASK
        # nothing has met since the one before
        open_ = near & ~now.past(written) & (~now.of_warp(written) | ((written & TIME_MASK) > f.splat(now.together)))
        same = thread_of(written).eq(thread_of(self.me))
        elsewhere, beside = before & ~near, before & open_ & ~same
        keeps_block = before & near & tag.eq(OTHER_BLOCK)
        keeps_thread = before & open_ & same & tag.eq(OTHER_THREAD)
        of_block, kept = elsewhere | keeps_block, keeps_block | keeps_thread
        tagged = of_block | keeps_thread | beside

        def choose(condition: Native, yes: Native, no: Native) -> Native:
            return Native(f, f.b.select(condition.v, yes.v, no.v))

        some = _mask(tagged) & lanes
        with f.if_(some.ne(0)):
            said = choose(elsewhere, describe_block(written), describe_thread(written, meta))
            assert isinstance(cells, Cells)
            cells.scatter("other", self.index, said, some & ~_mask(kept))
        cell = choose(of_block, self.me | TIME_MASK, self.me) | (SEVERAL_ATOMICS << PATTERN_SHIFT)
        tags = choose(of_block, f.const("32xi32", OTHER_BLOCK), f.const("32xi32", OTHER_THREAD))
        cells.leave_write(self.index, choose(tagged, cell, self.me), choose(tagged, mine | tags, mine), lanes)

    # ---- reading ---------------------------------------------------------------------------------------------

    def _read(self) -> None:
        f, cells, now = self.f, self.cells, self.now
        lanes = self.lanes.get()
        readers = cells.gather("reads", self.index, lanes)
        apart = f.variable("i32", 0)
        apart.set(_mask(now.news(readers, self.me)) & lanes)
        mine = f.variable("32xi32", self.mine)
        partial = f.const("i32", 0) if cells.of_bytes else self._partial()
        with f.if_((apart.get() | partial).ne(0)):
            meta = cells.gather("read_meta", self.index, lanes)
            if not cells.of_bytes:
                # a cell of several readers holds whole words only
                several = pattern(readers).ne(pattern(self.me)) & ~is_marked(readers)
                parts = _mask((meta & ALL_BYTES).ne(self.mine & ALL_BYTES) | several | pattern(self.me).ne(0))
                clash, merged = self._merged(readers, meta, partial)
                clash = clash | (parts & apart.get())
                mine.set(merged)
                with f.if_(clash.ne(0)):
                    self._split(clash)
                    apart.set(apart.get() & ~clash)
                    f.ret_if(self.lanes.get().eq(0))
            beside = apart.get()
            with f.if_(beside.ne(0)), f.if_else(now.exact) as (exact, whole):
                with exact:
                    self._list(beside)
                    self.lanes.set(self.lanes.get() & ~beside)
                with whole:
                    self._beside(readers, meta, beside)
        lanes = self.lanes.get() & ~apart.get()
        with f.if_(lanes.ne(0)):
            cells.leave_read(self.index, self.me, mine.get(), lanes)
        # lanes of this warp that read one cell together
        lanes = self.lanes.get()
        back = cells.gather("reads", self.index, lanes)
        unmarked = M64 ^ TIME_MASK ^ _MARKED
        lost = _mask((back & unmarked).ne(self.me & unmarked)) & lanes
        with f.if_(lost.ne(0)), f.if_else(now.exact) as (exact, whole):
            with exact:
                self._list(lost)
            with whole:
                single = lost & ~_mask(is_marked(back))
                with f.if_(single.ne(0)):
                    cells.leave_read(self.index, back | _MARKED, self.mine | OTHER_THREAD, single, describe_thread(self.me, self.mine))

    def _list(self, lanes: Native) -> None:
        """Lanes join the lists of readers of their cells, those of one cell together."""
        f = self.f
        slots = _Slots(f, index=self.index, me=self.me, mine=self.mine)
        left = f.variable("i32", lanes)
        with f.loop():
            rest = left.get()
            f.break_if(rest.eq(0))
            lane = f.first_lane(rest)
            index = slots.get("index", lane)
            group = _mask(self.index.eq(f.splat(index))) & rest
            left.set(rest & ~group)
            arguments = (group, slots.get("me", lane), slots.get("mine", lane), index, self.space)
            f.call(self.functions[f"add_reader_{self.name}"], self.worker, self.block, self.warp, *arguments)

    def _beside(self, readers: Native, meta: Native, lanes: Native) -> None:
        """Lanes that read beside others: of several unordered readers two are kept that speak for all."""
        f, cells, now = self.f, self.cells, self.now
        self.lanes.set(self.lanes.get() & ~(lanes & _mask(is_marked(readers) & (meta & TAG_MASK).eq(OTHER_BLOCK))))
        lanes = lanes & self.lanes.get()
        other = cells.gather("other", self.index, lanes)
        marked = is_marked(readers)
        near, same_warp = now.near(readers), now.of_warp(readers)
        within = same_warp & ((readers & TIME_MASK) <= f.splat(now.together))
        has_other = marked & (meta & TAG_MASK).eq(OTHER_THREAD)
        across = has_other & ((other >> 21) & 31).ne(f.splat(now.index))
        same_thread = thread_of(readers).eq(thread_of(self.me))
        keep = (same_warp & across) | (same_warp & has_other & same_thread & ~within)
        alone = same_warp & ~across & (within | (same_thread & ~has_other))

        def choose(condition: Native, yes: Native, no: Native) -> Native:
            return Native(f, f.b.select(condition.v, yes.v, no.v))

        described = choose(near, describe_thread(readers, meta), describe_block(readers))
        said = choose(keep, other, described)
        time = choose(near, self.me, self.me | TIME_MASK)
        cell = choose(alone, self.me, time | _MARKED)
        # of readers of which one is plain and one is not, none counts as plain between blocks
        flags = choose(near, f.const("32xi32", 0), meta & (ATOMIC | VOLATILE))
        tag = choose(near, f.const("32xi32", OTHER_THREAD), f.const("32xi32", OTHER_BLOCK))
        tagged = choose(alone, self.mine, self.mine | tag | flags)
        with f.if_(lanes.ne(0)):
            cells.leave_read(self.index, cell, tagged, lanes, said)


def build_update(module: ir.Module, functions: dict[str, ir.Function], cells_of: CellsOf) -> ir.Function:
    return _Update(module, functions, cells_of).f.function
