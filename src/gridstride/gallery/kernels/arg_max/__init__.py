"""The place of the largest element: a reduction of pairs."""

import numpy as np

from gridstride.gallery.kernels.reduction import BLOCK, blocks_for
from gridstride.gallery.model import Action, Arrays, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint


def problem(size: Size) -> Problem:
    """Few different values, so that the largest comes often and its first place matters."""

    def place(arrays: Arrays) -> Arrays:
        return {"out": np.asarray(np.argmax(arrays["x"]))}

    return Problem({"x": randint(*size, low=-1000, high=1000, seed=22, dtype="f32"), "out": empty(dtype="i32")}, place)


def packed(size: Size) -> Problem:
    """The same, with value and place as one number."""

    def key(arrays: Arrays) -> Arrays:
        x = arrays["x"]
        index = int(np.argmax(x))
        bits = int((x[index] + np.float32(0)).view(np.uint32))
        ordered = ~bits & 0xFFFFFFFF if bits >> 31 else bits | 0x80000000
        return {"out": np.array(ordered << 32 | ~index & 0xFFFFFFFF, np.uint64)}

    return Problem({"x": problem(size).arrays["x"], "out": empty(dtype="u64")}, key)


def two(kernel: str, blocks: int, size: Size) -> list[Action]:
    return [Launch(kernel, blocks, BLOCK, ("x", "partial", *size)), Launch(f"{kernel}_partials", 1, BLOCK, ("partial", "out", blocks))]


LADDER = Ladder(
    name="arg-max",
    title="Arg-max: where the largest is",
    about="""A reduction whose values are pairs: the largest value so far and its place. Of equal values the first place wins, as in NumPy; with that rule the order of comparisons does not matter,
and the result is the same in every run.""",
    source="arg_max.cu",
    problem=problem,
    steps=(
        Step(
            "tree",
            "Pairs in shared memory: twice the words of a sum, in two arrays without conflicts.",
            lambda size: two("argmax_tree", cdiv(size[0], BLOCK), size),
            scratch=lambda size: {"partial": empty(cdiv(size[0], BLOCK), 2)},
        ),
        Step(
            "shuffle",
            "Many elements a thread, then pairs by shuffles: two shuffles a round, one barrier a block.",
            lambda size: two("argmax_shuffle", blocks_for(size[0]), size),
            ("barriers", "shared_wavefronts", "shuffles", "warp_instructions"),
            scratch=lambda size: {"partial": empty(blocks_for(size[0]), 2)},
        ),
        Step(
            "packed",
            "Value and place in one unsigned number of 64 bits whose order is that of the pairs: vector loads, and one atomicMax a block ends it in one launch.",
            lambda size: [Fill("out"), Launch("argmax_packed", blocks_for(size[0], 1024), BLOCK, ("x", "out", *size))],
            ("launches", "load_requests", "global_atomics"),
            problem=packed,
        ),
    ),
    columns=("launches", "load_requests", "sectors_per_load", "global_atomics", "shared_wavefronts", "bank_conflicts", "barriers", "shuffles", "warp_instructions"),
    awkward=((1,), (31,), (32,), (33,), (255,), (257,), (1009,), (65_537,)),
    shown=(1_000_000,),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 4 * size[0],
)
