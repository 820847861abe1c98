"""Sums of segments of any length: how many lanes a segment is worth."""

import numpy as np

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, given, randint

BLOCK = 256


def problem(size: Size) -> Problem:
    """Segments of 0 to 63 elements, 32 in the mean; the numbers are whole, so that sums are exact."""
    (segments,) = size
    lengths = np.random.default_rng(27).integers(0, 64, segments)
    starts = np.concatenate([[0], np.cumsum(lengths)])

    def sums(arrays: Arrays) -> Arrays:
        padded = np.concatenate([[0], np.cumsum(arrays["x"], dtype=np.float64)])
        return {"out": padded[starts[1:]] - padded[starts[:-1]]}

    count = max(1, int(starts[-1]))
    return Problem({"x": randint(count, low=-8, high=9, seed=28, dtype="f32"), "starts": given(starts, "i32"), "out": empty(segments)}, sums)


def step(name: str, lanes: int, claim: str, *moves: str) -> Step:
    def launches(size: Size) -> list[Launch]:
        return [Launch(f"segments_{name}", cdiv(size[0] * lanes, BLOCK), BLOCK, ("x", "starts", "out", *size))]

    return Step(f"{name}-each", claim, launches, moves)


LADDER = Ladder(
    name="segmented-sum",
    title="Segmented sum: rows of any length",
    about="The sums of many short pieces, as the rows of a sparse matrix have them. How many lanes is a segment worth? As many as make its reads a sector or more, and not many more than it has elements.",
    source="segmented_sum.cu",
    problem=problem,
    steps=(
        step("thread", 1, "A lane a segment: the lanes of a warp are far apart and end at different times."),
        step("warp", 32, "A warp a segment: its reads are side by side, but segments of 32 elements in the mean leave half the lanes idle.", "sectors_per_load", "lanes_per_instruction"),
        step("group", 8, "Eight lanes a segment: still a sector for each read, and few idle lanes.", "lanes_per_instruction", "warp_instructions"),
    ),
    columns=("load_requests", "load_sectors", "sectors_per_load", "shuffles", "divergent_branches", "lanes_per_instruction", "warp_instructions"),
    awkward=((1,), (2,), (7,), (31,), (33,), (257,), (1009,)),
    shown=(10_000,),
    covers=("out",),
    large=(1 << 21,),
    modelled=(1 << 18,),
    bytes=lambda size: 4 * 32 * size[0],
)  # fmt: skip
