"""The sum of an array: from one thread to the speed of memory, and to the last bit."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from gridstride.gallery.model import Action, Arrays, Data, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, given, randint, uniform

BLOCK = 256
RESIDENT = 1056


def whole(size: Size) -> Problem:
    """Whole numbers from -8 to 8: their sums are whole as well and far below 2^24, so any order gives the same bits."""

    def total(arrays: Arrays) -> Arrays:
        return {"out": np.asarray(arrays["x"].sum(dtype=np.float64))}

    return Problem({"x": randint(*size, low=-8, high=9, seed=20, dtype="f32"), "out": empty()}, total)


def real(size: Size) -> Problem:
    """Numbers from 0 to 1, and a sum that may be off by its last rounding only (2^-24), and by what is of second order (n 2^-48)."""

    def total(arrays: Arrays) -> Arrays:
        return {"out": np.asarray(math.fsum(arrays["x"]))}

    def tolerance(arrays: Arrays) -> float:
        return float(arrays["x"].sum(dtype=np.float64) * (2.0**-24 + size[0] * 2.0**-48))

    return Problem({"x": uniform(*size, low=0, seed=21), "out": empty()}, total, tolerance)


def levels(n: int) -> list[int]:
    """How many partial sums each launch of a tree leaves: the last leaves one."""
    found = [cdiv(n, BLOCK)]
    while found[-1] > 1:
        found.append(cdiv(found[-1], BLOCK))
    return found


def tree(kernel: str) -> Callable[[Size], Sequence[Action]]:
    def launches(size: Size) -> list[Action]:
        counts = [size[0], *levels(size[0])]
        names = ["x", *(f"partial{k}" for k in range(len(counts) - 2)), "out"]
        return [Launch(kernel, blocks, BLOCK, (names[k], names[k + 1], counts[k])) for k, blocks in enumerate(counts[1:])]

    return launches


def tree_scratch(size: Size) -> dict[str, Data]:
    return {f"partial{k}": empty(count) for k, count in enumerate(levels(size[0])[:-1])}


def blocks_for(n: int, elements: int = BLOCK) -> int:
    """As many blocks as the device holds, but no more than there is work for."""
    return min(RESIDENT, cdiv(n, elements))


def twice(kernel: str, elements: int = BLOCK) -> Callable[[Size], Sequence[Action]]:
    """A launch that fills the device, and one block over its partial sums."""

    def launches(size: Size) -> list[Action]:
        blocks = blocks_for(size[0], elements)
        return [Launch(kernel, blocks, BLOCK, ("x", "partial", *size)), Launch(kernel, 1, BLOCK, ("partial", "out", blocks))]

    return launches


def partial(size: Size) -> dict[str, Data]:
    return {"partial": empty(blocks_for(size[0]))}


LADDER = Ladder(
    name="reduction",
    title="Reduction: the sum of an array",
    about="""Addition has one result, and a GPU has a hundred thousand threads: they must agree. Each rung takes one obstacle away: dependence, contention, idle lanes, bank conflicts, barriers,
launches, narrow loads. At the top what is left is the time of reading the array once.

A tree over 3 1 4 1 5 9 2 6 leaves 8, 14, 31 in its first element; eight lanes with 1 to 8 hold 6 8 10 12, then 16 20, then 36.

Floating-point addition is not associative. The inputs here are whole numbers, whose sums are exact in any order; `kahan` sums numbers that are not.""",
    source="reduction.cu",
    problem=whole,
    steps=(
        Step(
            "one-thread", "One thread: n additions, each waiting for a load.", lambda size: [Launch("sum_one_thread", 1, 1, ("x", "out", *size))], large=(1 << 20,)
        ),
        Step(
            "atomic",
            "All threads at once, each with an atomic: the loads are coalesced, but n additions queue at one address.",
            lambda size: [Fill("out"), Launch("sum_atomic", cdiv(size[0], BLOCK), BLOCK, ("x", "out", *size))],
            ("global_atomics", "load_requests"),
            large=(1 << 24,),
        ),
        Step(
            "interleaved",
            "A tree in the shared memory of each block: no atomics; but the threads that work lie apart, so that all warps run every round with ever fewer lanes.",
            tree("sum_interleaved"),
            ("global_atomics", "launches", "lanes_per_instruction"),
            scratch=tree_scratch,
        ),
        Step(
            "strided",
            "Neighbouring threads work, so whole warps drop out; but their words lie 2, 4, 8 … apart and meet in the same banks.",
            tree("sum_strided"),
            ("divergent_branches", "bank_conflicts"),
            scratch=tree_scratch,
        ),
        Step(
            "sequential",
            "Halves are added: neighbouring threads and neighbouring words, full warps without conflicts.",
            tree("sum_sequential"),
            ("bank_conflicts", "shared_wavefronts"),
            scratch=tree_scratch,
        ),
        Step(
            "coarsened",
            "Each thread first sums many elements in a register, so the tree with its barriers runs once for thousands of elements, not for 256.",
            twice("sum_coarsened"),
            ("barriers", "shared_wavefronts", "launches", "warp_instructions"),
            scratch=partial,
        ),
        Step(
            "shuffle",
            "Lanes hand registers to each other: one barrier instead of eight, hardly any shared memory.",
            twice("sum_shuffle"),
            ("barriers", "shared_wavefronts", "shuffles"),
            scratch=partial,
        ),
        Step(
            "full",
            "Vectors of 16 bytes and four loads under way keep the memory busy; an atomic a block saves the second launch.",
            lambda size: [Fill("out"), Launch("sum_full", blocks_for(size[0], 4096), BLOCK, ("x", "out", *size))],
            ("load_requests", "sectors_per_load", "launches", "global_atomics", "warp_instructions"),
        ),
        Step(
            "cub",
            "CUB's BlockReduce over 16 elements a thread: what the library makes of the same idea, in two launches.",
            twice("sum_cub", 4096),
            scratch=partial,
            source="cub.cu",
        ),
        Step(
            "deterministic",
            "The last block to finish adds up the partial sums in their order: one launch, and the same bits in every run.",
            lambda size: [Launch("sum_deterministic", blocks_for(size[0], 4096), BLOCK, ("x", "partial", "ticket", "out", *size))],
            scratch=lambda size: {**partial(size), "ticket": given(np.zeros(()), "u32")},
        ),
        Step(
            "kahan",
            "Each addition keeps what rounding takes from it: the error is that of one rounding, whatever n; many times the arithmetic, hidden behind memory.",
            lambda size: [
                Launch("sum_kahan", blocks_for(size[0], 4096), BLOCK, ("x", "pairs", *size)),
                Launch("sum_kahan_partials", 1, BLOCK, ("pairs", "out", blocks_for(size[0], 4096))),
            ],
            ("flops",),
            scratch=lambda size: {"pairs": empty(blocks_for(size[0], 4096), 2)},
            problem=real,
        ),
    ),
    columns=(
        "launches", "load_requests", "sectors_per_load", "global_atomics", "shared_wavefronts", "bank_conflicts", "barriers", "shuffles", "divergent_branches",
        "lanes_per_instruction", "flops", "warp_instructions",
    ),
    awkward=((1,), (31,), (32,), (33,), (255,), (257,), (1009,), (65_537,)),
    shown=(1_000_000,),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 4 * size[0],
    flops=lambda size: size[0],
)  # fmt: skip
