"""Native code that holds one access of a warp against the cells that it meets, and leaves it there."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
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


def build_split_word(module: ir.Module) -> ir.Function:
    """race_split_word(worker, block, warp, word, space): from now on each byte of the word has a cell of its own."""
    f = NativeFunction(module, "race_split_word", "void", ["ptr", "ptr", "ptr", "i64", "i32"], attributes=("noinline",))
    worker, block, warp, word, space = f.args
    cells, now = Cells(f, worker, block, space), Now(f, worker, block, warp, space)
    written, read = cells.get("writes", word), cells.get("reads", word)
    f.ret_if(now.recent(written) & is_marked(written))
    write_meta, other = cells.get("write_meta", word), cells.get("other", word)
    read_meta = f.variable("i32", cells.get("read_meta", word))
    reader = f.variable("i64", read)
    read_meta.set(cells.get("read_meta", word))
    with f.if_(now.recent(read) & is_marked(read) & (read_meta.get() & TAG_MASK).eq(LISTED)):
        newest, meta = newest_of(f, worker, block, space, other)  # of a list only one is kept here
        reader.set(newest)
        read_meta.set(meta)
    with f.count_to(f.const("i64", 4)) as k:
        address = word * 4 + k
        for plane, cell, meta in (("write", written, write_meta), ("read", reader.get(), read_meta.get())):
            has = now.recent(cell) & ((meta >> (k.to("i32") + SITE_BITS)) & 1).ne(0)
            several = is_marked(cell) if plane == "read" else f.const("i1", 0)
            single = several.select(cell, owned_by(cell, owner(cell, k)))
            f.store(has.select(single, f.const("i64", 0)), cells.byte(f"{plane}s", address))
            f.store((meta & (0xFFFFFFFF ^ ALL_BYTES)) | 1 << SITE_BITS, cells.byte(f"{plane}_meta", address))
        f.store(other, cells.byte("other", address))
    cells.put("writes", word, now.cell(f.const("i64", 0)) | _MARKED | TIME_MASK)
    cells.put("reads", word, 0)
    f.ret()
    return f.function


def build_split_cells(module: ir.Module, update: ir.Function) -> ir.Function:
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
            f.call(update, worker, block, warp, site, (words << 2) + f.splat(k.to("i64")), has, owned_by(me, owners), of_byte, how | OF_BYTES, space)
    # what is written as a whole is whole again
    whole = _mask((mine & ALL_BYTES).eq(ALL_BYTES)) & lanes
    with f.if_((how & WRITES).ne(0) & whole.ne(0)):
        cells = Cells(f, worker, block, space)
        cells.scatter("writes", words, me, whole)
        cells.scatter("write_meta", words, mine, whole)
        cells.scatter("reads", words, 0, whole)
    f.ret()
    return f.function


class _Update:
    """race_update(worker, block, warp, site, index, lanes, me, mine, how, space): an access by `lanes`, each to the cell of its index.

    me, mine: the cell and meta that each lane leaves. how: see race_cells. Where lanes share a cell it is one that they use whole."""

    def __init__(self, module: ir.Module, functions: dict[str, ir.Function]) -> None:
        kinds = ["ptr", "ptr", "ptr", "i32", "32xi64", "i32", "32xi64", "32xi32", "i32", "i32"]
        self.f = f = NativeFunction(module, "race_update", "void", kinds, attributes=("noinline",))
        self.worker, self.block, self.warp, self.site, self.index, given, self.me, self.mine, self.how, self.space = f.args
        self.functions = functions
        self.functions["update"] = f.function
        functions["split_cells"] = build_split_cells(module, f.function)
        self.of_bytes = (self.how & OF_BYTES).ne(0)
        self.cells = Cells(f, self.worker, self.block, self.space, self.of_bytes)
        self.now = Now(f, self.worker, self.block, self.warp, self.space)
        self.step = self.of_bytes.select(f.const("i64", 1), f.const("i64", 4))
        self.flags = self.how & (ATOMIC | VOLATILE)
        self.lanes = f.variable("i32", given)
        self.lanes.set(given)
        written = self.cells.gather("writes", self.index, given)
        doubtful = f.variable("i32", 0)
        doubtful.set(_mask(self.now.news(written, self.me)) & given)
        with f.if_(doubtful.get().ne(0)):
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
                address = slots.get("index", lane) * self.step
                f.call(self.functions["judge"], *self._common(), me, mine, cell, earlier, self.how, f.const("i32", 1), address, self.space)

    def _merged(self, cell: Native, meta: Native, lanes: Native) -> tuple[Native, Native]:
        """Of accesses to part of a word: lanes that cannot share the cell with what is there, and the metas of those that can."""
        fits = (meta & ALL_BYTES & ~self.mine).eq(0) | ~self.now.recent(cell)
        alike = cell.eq(self.me) & ((meta ^ self.mine) & (ATOMIC | VOLATILE | TAG_MASK)).eq(0)
        clash = _mask(~fits & ~alike) & lanes
        merged = Native(self.f, self.f.b.select((alike & ~fits).v, (self.mine | (meta & ALL_BYTES)).v, self.mine.v))
        return clash, merged

    def _partial(self) -> Native:
        return _mask((self.mine & ALL_BYTES).ne(ALL_BYTES)) & self.of_bytes.select(self.f.const("i32", 0), self.lanes.get())

    # ---- writing ---------------------------------------------------------------------------------------------

    def _write(self, written: Native) -> None:
        f, cells = self.f, self.cells
        mine = f.variable("32xi32", self.mine)
        keep = f.variable("i32", 0)  # lanes that leave the reads of other bytes as they are
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
                arguments = (slots.get("me", lane), slots.get("mine", lane), index, self.how, index * self.step, self.space)
                f.call(self.functions["judge_readers"], *self._common(), *arguments)
        cells.scatter("writes", self.index, self.me, lanes)
        cells.scatter("write_meta", self.index, mine.get(), lanes)
        cells.scatter("reads", self.index, 0, lanes & ~keep.get())
        with f.if_((self.flags & ATOMIC).eq(0)):
            winners = cells.gather("writes", self.index, lanes)
            lost = _mask(winners.ne(self.me)) & lanes
            with f.if_(lost.ne(0)):
                slots = _Slots(f, me=self.me, winner=winners, index=self.index)
                with f.each_lane(lost) as lane:
                    address = slots.get("index", lane) * self.step
                    same = self.functions["same_instruction"]
                    f.call(same, self.worker, self.block, self.site, slots.get("me", lane), slots.get("winner", lane), address, self.how, self.space)

    # ---- reading ---------------------------------------------------------------------------------------------

    def _read(self) -> None:
        f, cells, now = self.f, self.cells, self.now
        lanes = self.lanes.get()
        readers = cells.gather("reads", self.index, lanes)
        apart = f.variable("i32", 0)
        apart.set(_mask(now.news(readers, self.me)) & lanes)
        partial = self._partial()
        mine = f.variable("32xi32", self.mine)
        with f.if_((apart.get() | partial).ne(0)):
            meta = cells.gather("read_meta", self.index, lanes)
            # a cell of several readers holds whole words only
            parts = _mask((meta & ALL_BYTES).ne(self.mine & ALL_BYTES) | pattern(readers).ne(pattern(self.me)) & ~is_marked(readers) | pattern(self.me).ne(0))
            clash, merged = self._merged(readers, meta, partial)
            clash = clash | (self.of_bytes.select(f.const("i32", 0), parts) & apart.get())
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
            cells.scatter("reads", self.index, self.me, lanes)
            cells.scatter("read_meta", self.index, mine.get(), lanes)
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
                    cells.scatter("other", self.index, describe_thread(self.me, self.mine), single)
                    cells.scatter("read_meta", self.index, self.mine | OTHER_THREAD, single)
                    cells.scatter("reads", self.index, back | _MARKED, single)

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
            arguments = (group, slots.get("me", lane), slots.get("mine", lane), index, self.how, self.space)
            f.call(self.functions["add_reader"], self.worker, self.block, self.warp, *arguments)

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
        cells.scatter("other", self.index, said, lanes)
        cells.scatter("reads", self.index, cell, lanes)
        cells.scatter("read_meta", self.index, tagged, lanes)


def build_update(module: ir.Module, functions: dict[str, ir.Function]) -> ir.Function:
    functions["split_word"] = build_split_word(module)
    return _Update(module, functions).f.function
