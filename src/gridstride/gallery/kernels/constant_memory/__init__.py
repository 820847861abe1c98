"""Constant memory: a broadcast where lanes agree, one pass a word where they do not."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, uniform

BLOCK = 256
TABLE = np.array(
    [1, 0.5, 0.25, 2, -1, 3, -0.5, 4, 1.5, 2.5, -2, 0.125, 0.75, 1.25, -3, 5, 6, -4, 7, 8, 0, 9, -5, -0.25, 10, 11, -6, 12, -7, 13, 14, 15], np.float32
)
Index = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]


def problem_with(index: Index) -> Callable[[Size], Problem]:
    def problem(size: Size) -> Problem:
        (n,) = size

        def scaled(arrays: Arrays) -> Arrays:
            return {"y": arrays["x"] * TABLE[index(np.arange(n))]}

        return Problem({"x": uniform(n, seed=13), "y": empty(n)}, scaled)

    return problem


by_lane = problem_with(lambda i: i % 32)


def step(name: str, claim: str, problem: Callable[[Size], Problem] | None = None, *, moves: tuple[str, ...] = ("constant_words_per_load",)) -> Step:
    def launches(size: Size) -> list[Launch]:
        return [Launch(f"constant_{name}", cdiv(size[0], BLOCK), BLOCK, ("x", "y", *size))]

    return Step(name, claim, launches, moves, problem=problem)


LADDER = Ladder(
    name="constant-memory",
    title="Constant memory: broadcast or queue",
    about="""Constants lie in a space of 64 KB with a cache of its own. It is made for one use: all lanes of a warp read the same word, which then costs no more than a register. Lanes that
read different words wait for each other, word by word.""",
    source="constant_memory.cu",
    problem=by_lane,
    steps=(
        step("broadcast", "All lanes read one word: 1 pass.", problem_with(lambda i: i // BLOCK % 32)),
        step("pairs", "Two lanes a word: 16 passes for every read.", problem_with(lambda i: i % 32 // 2)),
        step("divergent", "A word for each lane: 32 passes for every read."),
        step("shared", "Copied to shared memory once a block, the same table is read in one pass.", moves=("constant_words", "shared_load_wavefronts")),
    ),
    columns=("constant_loads", "constant_words", "constant_words_per_load", "shared_loads", "shared_load_wavefronts", "load_sectors"),
    awkward=((1,), (31,), (32,), (33,), (255,), (257,), (1009,)),
    shown=(100_000,),
    covers=("y",),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 8 * size[0],
)
