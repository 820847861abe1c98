"""What the race detector remembers: the layout of its shadow cells, and how native code reaches them.

Each 4-byte word of shared and global memory has a cell that remembers the last write and the last read of it: block, thread, time,
instruction, bytes, plain or not. A word whose bytes belong to different threads is split: then each of its bytes has a cell of its own,
which `race_bytes.py` keeps.

    write, read   63..38 block, 37..36 whose the bytes are, 35..26 thread, 25..0 time             (8 bytes each)
    meta          0..15 instruction, 16..19 bytes, 20 atomic, 21 volatile or relaxed,
                  22..23 (of several unordered readers, or of several atomics) what `other` is    (4 bytes each)
    other         of several unordered readers or atomics, what is needed beside the last one     (4 bytes)

Whose the bytes are: all of one thread; or each byte, or each pair of bytes, of the next thread, as when neighbouring threads access
neighbouring bytes. The fourth value is a mark that no thread's own cell can have: of a write, that the word is split; of a read, that there
are several readers.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import BLOCK, RACE, SPACES, WARP, WORKER

SITE_BITS, TIME_BITS, THREAD_BITS, BLOCK_BITS = 16, 26, 10, 26
ATOMIC, VOLATILE = 1 << 20, 1 << 21
ALL_BYTES = 15 << SITE_BITS
TIME_MASK = (1 << TIME_BITS) - 1
THREAD_MASK = (1 << THREAD_BITS) - 1
PATTERN_SHIFT = TIME_BITS + THREAD_BITS
BLOCK_SHIFT = PATTERN_SHIFT + 2
ONE_THREAD, NEXT_THREADS, PAIRS_OF_BYTES, MARK = range(4)
SEVERAL_ATOMICS = PAIRS_OF_BYTES  # of a write with a tag in its meta: no access is of its owner, so that each looks at the tag
M64 = (1 << 64) - 1
IDENTITY = M64 ^ TIME_MASK  # all of a cell but its time

# What `other` of several readers is: thread and instruction of another one of the block; of another block; the first of a list of all.
TAG_SHIFT, TAG_MASK = 22, 3 << 22
OTHER_THREAD, OTHER_BLOCK, LISTED = (tag << TAG_SHIFT for tag in (1, 2, 3))
OTHER_BLOCK_BITS = 22

# How an access is: bits of an argument that goes with it.
WRITES, VALUES_KNOWN, OF_BYTES = 1, 2, 4
SIZE_SHIFT = 8

# Planes of words, with the bytes of each cell.
PLANES = {"writes": 8, "reads": 8, "write_meta": 4, "read_meta": 4, "other": 4}


class Cells:
    """The cells of the words of one space. Those of all lanes are asked for with a vector of the words' numbers, one with its number."""

    of_bytes = False
    step = 4  # bytes of memory that a cell stands for

    def __init__(self, f: NativeFunction, worker: Native, block: Native, space: Native) -> None:
        self.f = f
        shared = space.eq(SPACES.index("shared"))
        self.bases = {name: shared.select(f.get(BLOCK, block, f"shared_{name}"), f.get(WORKER, worker, f"race_{name}")) for name in PLANES}

    def at(self, name: str, index: Native) -> Native:
        """Places of all lanes, or of one."""
        return places(self.f, self.bases[name], index, PLANES[name])

    def get(self, name: str, index: Native) -> Native:
        """Of one cell."""
        return self.f.load(f"i{PLANES[name] * 8}", self.at(name, index))

    def put(self, name: str, index: Native, value: Native | int) -> None:
        kind = f"i{PLANES[name] * 8}"
        self.f.store(value if isinstance(value, Native) else self.f.const(kind, value), self.at(name, index))

    def put_read(self, index: Native, cell: Native, meta: Native, other: Native | None = None) -> None:
        self.put("reads", index, cell)
        self.put("read_meta", index, meta)
        if other is not None:
            self.put("other", index, other)

    def forget_read(self, index: Native) -> None:
        self.put("reads", index, 0)

    def gather(self, name: str, index: Native, lanes: Native) -> Native:
        return gather(self.f, self.at(name, index), PLANES[name] * 8, lanes)

    def scatter(self, name: str, index: Native, value: Native | int, lanes: Native) -> None:
        """Where lanes share a place the highest one's value stays."""
        value = value if isinstance(value, Native) else self.f.const(f"32xi{PLANES[name] * 8}", value)
        scatter(self.f, self.at(name, index), value, lanes)

    def leave_write(self, index: Native, cell: Native, meta: Native, lanes: Native) -> None:
        self.scatter("writes", index, cell, lanes)
        self.scatter("write_meta", index, meta, lanes)

    def leave_read(self, index: Native, cell: Native, meta: Native, lanes: Native, other: Native | None = None) -> None:
        if other is not None:
            self.scatter("other", index, other, lanes)
        self.scatter("read_meta", index, meta, lanes)
        self.scatter("reads", index, cell, lanes)

    def forget_reads(self, index: Native, lanes: Native) -> None:
        self.scatter("reads", index, 0, lanes)


def places(f: NativeFunction, base: Native, index: Native, size: int) -> Native:
    """Of elements of `size` bytes: of all lanes, or of one."""
    if isinstance(index.v.type, ir.VectorType):
        return f.splat(base.to("i64")) + index * size
    return base + index * size


def gather(f: NativeFunction, at: Native, bits: int, lanes: Native) -> Native:
    pointers = Native(f, f.b.inttoptr(at.v, ir.VectorType(ir.PointerType(), 32)))
    kind = f"32xi{bits}"
    return f.intrinsic(f"llvm.masked.gather.v32i{bits}.v32p0", kind, pointers, f.const("i32", bits // 8), lanes.to("32xi1"), f.const(kind, 0))


def scatter(f: NativeFunction, at: Native, value: Native, lanes: Native) -> None:
    pointers = Native(f, f.b.inttoptr(at.v, ir.VectorType(ir.PointerType(), 32)))
    bits = value.v.type.element.width
    f.intrinsic(f"llvm.masked.scatter.v32i{bits}.v32p0", "void", value, pointers, f.const("i32", bits // 8), lanes.to("32xi1"))


class Now:
    """The warp that accesses, and which of the cells that it meets are news to it. Cells may be of one lane or of all."""

    def __init__(self, f: NativeFunction, worker: Native, block: Native, warp: Native, space: Native) -> None:
        self.f = f
        self.race = f.get(BLOCK, block, "race")
        self.index = f.get(WARP, warp, "index")
        self.shared = space.eq(SPACES.index("shared"))
        self.number = block_number(f, worker, block)
        self.oldest = f.get(WORKER, worker, "first_block") << BLOCK_SHIFT  # cells below it are of earlier launches
        time = f.get(RACE, self.race, "event")
        self.time = (time < TIME_MASK - 1).select(time, TIME_MASK - 1).to("i64")
        self.floor = f.get(RACE, self.race, "floor", self.index.to("i64")).to("i64")
        self.together = f.get(RACE, self.race, "together", self.index.to("i64")).to("i64")
        self.exact = f.get(WORKER, worker, "races_exact").ne(0)

    def _fit(self, value: Native, like: Native) -> Native:
        return self.f.splat(value) if isinstance(like.v.type, ir.VectorType) else value

    def cell(self, threads: Native) -> Native:
        """Of threads (i64), each the owner of all that it accesses."""
        mine = (self.number << BLOCK_SHIFT) | self.time
        return self._fit(mine, threads) | (threads << TIME_BITS)

    def near(self, cell: Native) -> Native:
        """Of this block."""
        return (cell >> BLOCK_SHIFT).eq(self._fit(self.number, cell))

    def recent(self, cell: Native) -> Native:
        """Of this launch, and in shared memory of this block: others that ran here before are past."""
        there = cell >= self._fit(self.oldest, cell)
        return there & (self.near(cell) | ~self._fit(self.shared, cell))

    def past(self, cell: Native) -> Native:
        """Of this block, and known to all lanes of the warp."""
        return self.near(cell) & ((cell & TIME_MASK) <= self._fit(self.floor, cell))

    def news(self, cell: Native, me: Native) -> Native:
        """Neither of the same owner nor plainly ordered before what the warp does now."""
        return (cell & IDENTITY).ne(me & IDENTITY) & self.recent(cell) & ~self.past(cell)

    def of_warp(self, cell: Native) -> Native:
        return self.near(cell) & ((cell >> (TIME_BITS + 5)) & 31).eq(self._fit(self.index.to("i64"), cell))


def block_number(f: NativeFunction, worker: Native, block: Native) -> Native:
    """A block's number among all that the shadow has seen."""
    return (f.get(BLOCK, block, "linear") + f.get(WORKER, worker, "first_block")) & ((1 << BLOCK_BITS) - 1)


def pattern(cell: Native) -> Native:
    return (cell >> PATTERN_SHIFT) & 3


def is_marked(cell: Native) -> Native:
    return pattern(cell).eq(MARK)


def thread_of(cell: Native) -> Native:
    return (cell >> TIME_BITS) & THREAD_MASK


def owner(cell: Native, byte: Native | int) -> Native:
    """Thread (i64) of one byte of a cell; the byte as i64."""
    f = cell.f
    number = byte if isinstance(byte, Native) else f.const("i64", byte)
    kind = pattern(cell)
    step = kind.eq(NEXT_THREADS).select(number, kind.eq(PAIRS_OF_BYTES).select(number >> 1, 0))
    return (thread_of(cell) + step) & THREAD_MASK


def owned_by(cell: Native, thread: Native) -> Native:
    """The same cell as one of a single thread (i64)."""
    keep = M64 ^ (THREAD_MASK << TIME_BITS) ^ (3 << PATTERN_SHIFT)
    return (cell & keep) | (thread << TIME_BITS)
