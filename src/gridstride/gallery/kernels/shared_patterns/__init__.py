"""Passes over the banks of shared memory, by pattern and width."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gridstride.gallery.model import Arrays, Data, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint, uniform

Places = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.int64]]


def step(name: str, kernel: str, table: Data, places: Places, claim: str) -> Step:
    """A warp a block reads the table; lane and block say at which place."""

    def problem(size: Size) -> Problem:
        (n,) = size

        def picked(arrays: Arrays) -> Arrays:
            i = np.arange(n)
            return {"y": arrays["x"][places(i % 32, i // 32)]}

        return Problem({"x": table, "y": empty(n, *table.shape[1:], dtype=table.dtype)}, picked)

    def launches(size: Size) -> list[Launch]:
        return [Launch(kernel, cdiv(size[0], 32), 32, ("x", "y", *size))]

    return Step(name, claim, launches, ("shared_load_wavefronts", "bank_conflicts"), problem=problem)


def column(pitch: int, claim: str) -> Step:
    return step(f"column-{pitch}", f"column_{pitch}", uniform(32 * pitch, seed=11), lambda lane, block: lane * pitch + block % 31, claim)


def nothing(size: Size) -> Problem:
    raise NotImplementedError("every step has a problem of its own")


LADDER = Ladder(
    name="shared-patterns",
    title="Shared memory: passes over the banks",
    about="""Shared memory has 32 banks of 4 bytes: word w lies in bank w mod 32, and a bank gives one word a pass. A warp's access takes as many passes as the busiest bank has distinct words;
the same word for many lanes is one. Accesses of 8 bytes are made by half a warp at a time, of 16 by a quarter.

A chart rather than a ladder. Pitch 32: a row is 1 pass, a column 32; 33: 1 and 1; 64: 1 and 32; 31: 1 and 1.""",
    source="shared_patterns.cu",
    problem=nothing,
    steps=(
        step("row", "row_32", uniform(32 * 32, seed=11), lambda lane, block: block % 31 * 32 + lane, "Along a row: 32 banks, 1 pass."),
        column(32, "Down a column of rows of 32 words: one bank, 32 passes, of which 31 are conflicts."),
        column(33, "Rows of 33 words: each row begins a bank further, 1 pass."),
        column(64, "Rows of 64 words: a multiple of 32 again, 32 passes."),
        column(31, "Rows of 31 words: any odd pitch goes through all banks, 1 pass."),
        step("one-word", "one_word", uniform(32, seed=11), lambda lane, block: block % 32, "One word for all lanes is a broadcast: 1 pass."),
        step("double", "wide_double", uniform(32, seed=12, dtype="f64"), lambda lane, block: (lane + block) % 32,
             "8 bytes a lane: 2 passes for 256 bytes are as few as there can be, so no conflict."),
        step("float4", "wide_float4", uniform(32, 4, seed=12), lambda lane, block: (lane + block) % 32, "16 bytes a lane: 4 passes for 512 bytes."),
        step("float4-strided", "strided_float4", uniform(64, 4, seed=12), lambda lane, block: 2 * lane,
             "Every other vector: the lanes of a quarter warp meet in half the banks, 8 passes where 4 would do."),
        step("bytes", "narrow_bytes", randint(32, high=256, seed=12, dtype="u8"), lambda lane, block: (lane + block) % 32,
             "A byte a lane: 8 words, 1 pass."),
    ),
    columns=("shared_loads", "shared_load_wavefronts", "bank_conflicts", "shared_stores"),
    awkward=((1,), (31,), (32,), (33,), (65,), (997,)),
    shown=(3_200,),
    large=(1 << 22,),
)  # fmt: skip
