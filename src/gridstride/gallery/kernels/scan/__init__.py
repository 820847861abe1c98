"""Prefix sums: of a warp, a block, an array; in one pass."""

from collections.abc import Callable, Sequence

import numpy as np

from gridstride.gallery.model import Action, Arrays, Data, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint

BLOCK = 256
TILE = 4096


def problem(size: Size) -> Problem:
    def scanned(arrays: Arrays) -> Arrays:
        x = arrays["in"]
        return {"out": np.cumsum(x, dtype=np.int64) - x}

    return Problem({"in": randint(*size, low=-5, high=10, seed=40), "out": empty(*size, dtype="i32")}, scanned)


def levels(n: int, items: int) -> list[int]:
    """Blocks of each level: of the array, of their sums, of the sums' sums, … The last is one."""
    found = [cdiv(n, items)]
    while found[-1] > 1:
        found.append(cdiv(found[-1], items))
    return found


def scratch(items: int) -> Callable[[Size], dict[str, Data]]:
    """Of each level the blocks' sums, and what stands before each block."""

    def arrays(size: Size) -> dict[str, Data]:
        counts = levels(size[0], items)
        return {f"{name}{k}": empty(count, dtype="i32") for k, count in enumerate(counts) for name in ("sums", "offsets")}

    return arrays


def scans(kernel: str, items: int, source: str, target: str, n: int, level: int = 0) -> list[Action]:
    """Blocks by themselves, their sums in the same way, and these added to the blocks."""
    blocks = cdiv(n, items)
    found: list[Action] = [Launch(kernel, blocks, BLOCK, (source, target, f"sums{level}", n))]
    if blocks > 1:
        found += scans(kernel, items, f"sums{level}", f"offsets{level}", blocks, level + 1)
        found.append(Launch("scan_add", blocks, BLOCK, (target, f"offsets{level}", n, items)))
    return found


def by_blocks(name: str, items: int, claim: str, *moves: str) -> Step:
    kernel = f"scan_{name.replace('-', '_')}"
    return Step(name, claim, lambda size: scans(kernel, items, "in", "out", size[0]), moves, scratch(items))


def three_passes(size: Size) -> Sequence[Action]:
    (n,) = size
    blocks = cdiv(n, TILE)
    return [
        Launch("scan_sums", blocks, BLOCK, ("in", "sums0", n)),
        *scans("scan_block", TILE, "sums0", "offsets0", blocks, 1),
        Launch("scan_with_offsets", blocks, BLOCK, ("in", "offsets0", "out", n)),
    ]


LADDER = Ladder(
    name="scan",
    title="Scan: prefix sums",
    about="""Every element gets the sum of all before it: the primitive behind compaction, sorting, and sparse matrices. It looks sequential and is not: trees and shuffles make it in log n rounds.

Over a whole array the question is the traffic. Blocks scanned by themselves and corrected afterwards move 4 n numbers; summing first and scanning once 3 n; the single pass with look-back, in which each tile
waits only for what the tiles before it have to tell, 2 n, as little as a copy.""",
    source="scan.cu",
    problem=problem,
    steps=(
        by_blocks("hillis-steele", 256, "Each round adds what lies 1, 2, 4, … before: simple, but all 256 threads add in all eight rounds, 2,048 additions for 256 elements."),
        by_blocks("blelloch", 512, "Up and down a tree: two additions an element instead of eight; but its strides of 2, 4, 8, … words meet in the same banks.", "bank_conflicts", "launches"),
        by_blocks("conflict-free", 512, "A word of padding every 32 spreads the tree's nodes over the banks.", "bank_conflicts", "shared_wavefronts"),
        by_blocks("shuffle", 256, "Warps scan in registers by five shuffles, and one barrier joins eight warps.", "barriers", "shared_wavefronts", "shuffles"),
        by_blocks("block", TILE, "Sixteen elements a thread in four vectors: blocks sixteen times as large, so that two levels of launches are one.",
                  "launches", "blocks", "load_requests", "barriers", "warp_instructions"),
        Step("three-pass", "Sums first, then the scan with its offsets: the output is written once, 3 n instead of 4 n.", three_passes,
             ("load_sectors", "store_sectors"), lambda size: {**scratch(TILE)(size), "sums1": empty(cdiv(cdiv(size[0], TILE), TILE), dtype="i32"), "sums2": empty(1, dtype="i32")}),
        Step(
            "look-back",
            "One launch, each element read once and written once: a tile tells its sum as soon as it has it, and looks back over the tiles before it until one knows the rest.",
            lambda size: [
                Fill("state"), Fill("ticket"), Launch("scan_lookback", cdiv(size[0], TILE), BLOCK, ("in", "out", "state", "ticket", *size)),
            ],
            ("launches", "load_sectors", "store_sectors"),
            lambda size: {"state": empty(cdiv(size[0], TILE), dtype="u64"), "ticket": empty(dtype="u32")},
        ),
    ),
    columns=("launches", "blocks", "load_requests", "load_sectors", "store_sectors", "shared_wavefronts", "bank_conflicts", "barriers", "shuffles", "warp_instructions"),
    awkward=((1,), (4,), (31,), (33,), (511,), (513,), (4097,), (10_007,), (70_001,)),
    shown=(1 << 18,),
    covers=("out",),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 8 * size[0],
)  # fmt: skip
