"""Compaction: elements that are kept, side by side."""

import numpy as np

from gridstride.gallery.model import Action, Arrays, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, given, randint

BLOCK = 256
ITEMS = 4096


def problem(size: Size, *, ordered: bool = False) -> Problem:
    """About half of the numbers are positive. Behind what is kept the output stays zero."""
    (n,) = size

    def kept(arrays: Arrays) -> Arrays:
        positive = arrays["in"][arrays["in"] > 0]
        return {"count": np.asarray(len(positive)), "out": np.concatenate([positive, np.zeros(n - len(positive), np.int32)])}

    arrays = {"in": randint(n, low=-1000, high=1001, seed=41), "out": given(np.zeros(n), "i32"), "count": empty(dtype="i32")}
    return Problem(arrays, kept, unordered=frozenset() if ordered else frozenset({"out"}))


def one(kernel: str, items: int, size: Size) -> list[Action]:
    return [Fill("count"), Launch(kernel, cdiv(size[0], items), BLOCK, ("in", "out", "count", *size))]


def ordered(size: Size) -> list[Action]:
    blocks = cdiv(size[0], ITEMS)
    return [
        Launch("compact_counts", blocks, BLOCK, ("in", "counts", *size)),
        Launch("compact_offsets", 1, BLOCK, ("counts", "count", blocks)),
        Launch("compact_ordered", blocks, BLOCK, ("in", "counts", "out", *size)),
    ]


LADDER = Ladder(
    name="compaction",
    title="Compaction: keep some, side by side",
    about="Each element that is kept needs a place. Asking one counter for each is right and slow; lanes that ask together, warps that ask together, and at last a scan, which also keeps the order.",
    source="compaction.cu",
    problem=problem,
    steps=(
        Step("atomic", "An atomic for each element that is kept, all on one counter (the machine compiler may let one lane ask for its warp).", lambda size: one("compact_atomic", BLOCK, size)),
        Step("warp", "A ballot numbers the lanes, one lane asks for all: a sixteenth of the atomics where every other element is kept.", lambda size: one("compact_warp", BLOCK, size), ("atomic_operations", "votes")),
        Step("block", "One atomic for 4,096 elements, and sixteen loads a thread under way.", lambda size: one("compact_block", ITEMS, size), ("atomic_operations", "blocks")),
        Step("ordered", "Counts, their scan, then the elements to their places: no atomic, the input's order, at the price of reading it twice.", ordered,
             ("atomic_operations", "launches", "load_sectors"), lambda size: {"counts": empty(cdiv(size[0], ITEMS), dtype="i32")}, problem=lambda size: problem(size, ordered=True)),
    ),
    columns=("launches", "blocks", "load_requests", "load_sectors", "store_requests", "store_sectors", "atomic_operations", "votes", "warp_instructions"),
    awkward=((1,), (31,), (32,), (33,), (257,), (1009,), (4097,), (20_011,)),
    shown=(1 << 18,),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 6 * size[0],
)  # fmt: skip
