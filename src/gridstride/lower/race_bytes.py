"""The cells of single bytes, of words that are split.

Lanes of a warp that access bytes by one instruction leave the same cell but for the lane. So a byte holds no cell but a number of 4 bytes for
its last write and one for its last read, each a lane and the place of the rest in a table of records:

    number of a byte    31..6 which record, 5 it is a read, 4..0 lane; 0: nothing
    record              0 cell with lane 0, 8 meta, 12 `other`       (16 bytes; see race_cells)

The number of a read stands in the place for writes as long as there is no write to remember, so that most bytes need one place only.

The table is a ring: of a launch it holds the latest `RECORDS`. A byte whose record has gone counts as untouched, which can hide a race and
never makes one up.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import M64, TIME_BITS, Cells, gather, places, scatter
from gridstride.lower.records import BLOCK, SPACES, WORKER

RECORD = 16
RECORDS = 1 << 22
RECENT = 1 << 12  # numbers of records by a hash of what is in them, so that the same is kept once; they lie behind the records
_CELL, _META, _OTHER = 0, 8, 12
LANE_BITS, READ = 6, 32
_LAST = 1 << 32 - LANE_BITS  # so many records a launch; after them bytes are not followed any more
WITHOUT_LANE = M64 ^ (31 << TIME_BITS)


def build_number(module: ir.Module) -> ir.Function:
    """race_number(worker, cell, meta, other) -> the number by which a byte holds that cell"""
    f = NativeFunction(module, "race_number", "i32", ["ptr", "i64", "i32", "i32"], attributes=("noinline",))
    worker, cell, meta, other = f.args
    records = f.get(WORKER, worker, "race_records")
    lane = ((cell >> TIME_BITS) & 31).to("i32")
    rest = cell & WITHOUT_LANE
    mixed = (rest ^ (meta.to("i64") << 20) ^ (other.to("i64") << 7)) * 0x9E3779B97F4A7C15
    slot = records + ((mixed >> 52) * 4 + RECORDS * RECORD)
    known = f.load("i32", slot)
    next_ = f.get(WORKER, worker, "race_next")
    place = records + (known & (RECORDS - 1)).to("i64") * RECORD
    same = f.load("i64", place, _CELL).eq(rest) & f.load("i32", place, _META).eq(meta) & f.load("i32", place, _OTHER).eq(other)
    f.ret_if(same & (next_ - known - 1 < RECORDS), known << LANE_BITS | lane)
    f.ret_if(next_ >= _LAST, 0)
    place = records + (next_ & (RECORDS - 1)).to("i64") * RECORD
    f.store(rest, place, _CELL)
    f.store(meta, place, _META)
    f.store(other, place, _OTHER)
    f.store(next_, slot)
    f.put(WORKER, worker, "race_next", next_ + 1)
    f.ret(next_ << LANE_BITS | lane)
    return f.function


class CellsOf:
    """Makes the cells of words or of bytes: what native functions are built for, once for each."""

    def __init__(self, number: ir.Function | None) -> None:
        self.number = number
        self.name = "words" if number is None else "bytes"

    def __call__(self, f: NativeFunction, worker: Native, block: Native, space: Native) -> Cells | ByteCells:
        return Cells(f, worker, block, space) if self.number is None else ByteCells(f, worker, block, space, self.number)


class ByteCells:
    """Like `Cells`, of single bytes: an index is the address of one."""

    of_bytes = True
    step = 1

    def __init__(self, f: NativeFunction, worker: Native, block: Native, space: Native, number: ir.Function) -> None:
        self.f, self.worker, self.number = f, worker, number
        shared = space.eq(SPACES.index("shared"))
        self.bases = {
            name: shared.select(f.get(BLOCK, block, f"shared_byte_{name}"), f.get(WORKER, worker, f"race_byte_{name}")) for name in ("writes", "reads")
        }

    def _record(self, numbers: Native) -> tuple[Native, Native]:
        """Where the records of numbers are, and which of them are still there."""
        f = self.f
        ids = numbers >> LANE_BITS
        next_, table = f.get(WORKER, self.worker, "race_next"), f.get(WORKER, self.worker, "race_records")
        vector = isinstance(numbers.v.type, ir.VectorType)
        age = (f.splat(next_) if vector else next_) - ids
        places_ = places(f, table, (ids & (RECORDS - 1)).to("32xi64" if vector else "i64"), RECORD)
        return places_, numbers.ne(0) & (age <= RECORDS)

    def _held(self, plane: str, index: Native, lanes: Native | None) -> Native:
        at = places(self.f, self.bases[plane], index, 4)
        return self.f.load("i32", at) if lanes is None else gather(self.f, at, 32, lanes)

    def _numbers(self, plane: str, index: Native, lanes: Native | None = None) -> Native:
        first = self._held("writes", index, lanes)
        is_read = (first & READ).ne(0)
        nothing = self.f.const("i32" if lanes is None else "32xi32", 0)
        if plane == "writes":
            return is_read.select(nothing, first)
        return is_read.select(first, self._held("reads", index, lanes))

    @staticmethod
    def _of(name: str) -> tuple[str, int, int]:
        """Which number of a byte leads to it, where it is in a record, and its bits."""
        return {
            "writes": ("writes", _CELL, 64), "write_meta": ("writes", _META, 32),
            "reads": ("reads", _CELL, 64), "read_meta": ("reads", _META, 32), "other": ("reads", _OTHER, 32),
        }[name]  # fmt: skip

    def get(self, name: str, index: Native) -> Native:
        f = self.f
        plane, offset, bits = self._of(name)
        numbers = self._numbers(plane, index)
        place, there = self._record(numbers)
        value = f.load(f"i{bits}", place, offset)
        if offset == _CELL:
            value = value | ((numbers & 31).to("i64") << TIME_BITS)
        return there.select(value, f.const(f"i{bits}", 0))

    def gather(self, name: str, index: Native, lanes: Native) -> Native:
        f = self.f
        plane, offset, bits = self._of(name)
        numbers = self._numbers(plane, index, lanes)
        place, there = self._record(numbers)
        value = gather(f, place + offset, bits, there.to("i32") & lanes)
        if offset == _CELL:
            value = value | ((numbers & 31).to("32xi64") << TIME_BITS)
        return there.select(value, f.const(f"32xi{bits}", 0))

    def _leave(self, plane: str, index: Native, cell: Native, meta: Native, other: Native | None, lanes: Native) -> None:
        f = self.f
        other = f.const("32xi32", 0) if other is None else other
        leader = f.first_lane(lanes)
        first, first_meta, first_other = (f.element(v, leader) for v in (cell, meta, other))
        rest = first & WITHOUT_LANE
        differ = (cell & WITHOUT_LANE).ne(f.splat(rest)) | meta.ne(f.splat(first_meta)) | other.ne(f.splat(first_other))
        one = f.call(self.number, self.worker, rest, first_meta, first_other)
        numbers = f.variable("32xi32", one.ne(0).select(f.splat(one) | ((cell >> TIME_BITS) & 31).to("32xi32"), f.const("32xi32", 0)))
        numbers.set(one.ne(0).select(f.splat(one) | ((cell >> TIME_BITS) & 31).to("32xi32"), f.const("32xi32", 0)))
        more = differ.to("i32") & lanes
        with f.if_(more.ne(0)):
            slots = [f.variable(f"32x{v.v.type.element}", v) for v in (cell, meta, other)]
            with f.each_lane(more) as lane:
                at = lane.to("i64")
                values = [f.load(kind, Native(f, slot.slot), at * size) for slot, kind, size in zip(slots, ("i64", "i32", "i32"), (8, 4, 4), strict=True)]
                f.store(f.call(self.number, self.worker, *values), Native(f, numbers.slot), at * 4)
        if plane == "writes":
            scatter(f, places(f, self.bases["writes"], index, 4), numbers.get(), lanes)
            return
        held = self._held("writes", index, lanes)
        alone = (held.eq(0) | (held & READ).ne(0)).to("i32") & lanes
        there = numbers.get()
        scatter(f, places(f, self.bases["writes"], index, 4), there.ne(0).select(there | READ, there), alone)
        with f.if_((lanes & ~alone).ne(0)):
            scatter(f, places(f, self.bases["reads"], index, 4), there, lanes & ~alone)

    def leave_write(self, index: Native, cell: Native, meta: Native, lanes: Native) -> None:
        self._leave("writes", index, cell, meta, None, lanes)

    def leave_read(self, index: Native, cell: Native, meta: Native, lanes: Native, other: Native | None = None) -> None:
        self._leave("reads", index, cell, meta, other, lanes)

    def forget_reads(self, index: Native, lanes: Native) -> None:
        f, zero = self.f, self.f.const("32xi32", 0)
        scatter(f, places(f, self.bases["writes"], index, 4), zero, (self._held("writes", index, lanes) & READ).ne(0).to("i32") & lanes)
        left = self._held("reads", index, lanes).ne(0).to("i32") & lanes  # what is not there takes no memory
        with f.if_(left.ne(0)):
            scatter(f, places(f, self.bases["reads"], index, 4), zero, left)

    def put(self, index: Native, write: tuple[Native, Native], read: tuple[Native, Native, Native]) -> None:
        """What one byte holds, whatever it held: cell and meta of a write, those of a read and its `other`. A cell of 0 for nothing."""
        f = self.f
        f.store(self._number(*write, f.const("i32", 0)), places(f, self.bases["writes"], index, 4))
        self.forget_read(index)
        with f.if_(read[0].ne(0)):
            self.put_read(index, *read)

    def put_read(self, index: Native, cell: Native, meta: Native, other: Native | None = None) -> None:
        f = self.f
        number = self._number(cell, meta, f.const("i32", 0) if other is None else other)
        held = self._held("writes", index, None)
        with f.if_else(held.eq(0) | (held & READ).ne(0)) as (alone, beside):
            with alone:
                f.store(number.ne(0).select(number | READ, number), places(f, self.bases["writes"], index, 4))
            with beside:
                f.store(number, places(f, self.bases["reads"], index, 4))

    def forget_read(self, index: Native) -> None:
        f, zero = self.f, self.f.const("i32", 0)
        with f.if_((self._held("writes", index, None) & READ).ne(0)):
            f.store(zero, places(f, self.bases["writes"], index, 4))
        with f.if_(self._held("reads", index, None).ne(0)):
            f.store(zero, places(f, self.bases["reads"], index, 4))

    def _number(self, cell: Native, meta: Native, other: Native) -> Native:
        f = self.f
        number = f.variable("i32", 0)
        number.set(0)
        with f.if_(cell.ne(0)):
            number.set(f.call(self.number, self.worker, cell, meta, other))
        return number.get()
