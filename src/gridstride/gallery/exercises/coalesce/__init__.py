"""Sums of rows whose threads read side by side."""

import numpy as np

from gridstride.gallery.grading import Goal, Lab
from gridstride.gallery.model import Arrays, Launch, Problem, Size, Step, cdiv, empty, uniform


def problem(size: Size) -> Problem:
    height, width = size

    def sums(arrays: Arrays) -> Arrays:
        return {"out": arrays["in"].sum(axis=1, dtype=np.float64)}

    return Problem({"in": uniform(height, width), "out": empty(height)}, sums, tolerance=width * width * 2.0**-24)


def launches(size: Size) -> list[Launch]:
    # 32 threads for each row, to be used as you like
    return [Launch("row_sums", cdiv(32 * size[0], 256), 256, ("in", "out", *size))]


LAB = Lab(
    "coalesce",
    "Row sums: let a warp read side by side",
    """The kernel sums the rows of a matrix with a thread for each row. It is right, and slow: at every step of its loop the lanes of a warp read addresses that lie a whole row apart,
so each of the 32 reads brings a sector of 32 bytes for the 4 that it uses.

Change the kernel so that the lanes of a warp read neighbouring elements. The launch has 32 threads for each row.""",
    (
        "Which threads read at the same moment? Neighbouring threads should read neighbouring columns of one row.",
        "Give each row to a warp: lane 0 reads columns 0, 32, 64, …, lane 1 reads 1, 33, 65, …; then 32 partial sums have to become one.",
        "__shfl_down_sync(0xffffffff, sum, 16), then 8, 4, 2, 1: after five steps lane 0 has the sum.",
    ),
    Step("row_sums", "", launches),
    problem,
    (
        Goal("sectors_per_load", "<=", 4, "which threads read at the same moment? Neighbouring lanes should read neighbouring columns of one row"),
        Goal("load_requests", "=", 96 * 8, "every element is to be loaded once: 256 floats are 8 requests of 32 lanes for each row"),
        Goal("shared_accesses", "=", 0, "the lanes of a warp can exchange values without shared memory"),
        Goal("store_requests", "<=", 96, "one lane of each warp writes the sum of its row"),
    ),
    awkward=((1, 1), (1, 31), (7, 32), (33, 33), (5, 257)),
    shown=(96, 256),
)
