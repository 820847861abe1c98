"""Saxpy: grid-stride loops, vectors, and slices that no vector fits."""

from functools import partial

import numpy as np

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, uniform

ALPHA = np.float32(2.5)
BLOCK = 256
RESIDENT = 1056


def problem(size: Size, first: int = 0) -> Problem:
    (n,) = size

    def saxpy(arrays: Arrays) -> Arrays:
        x, y = (arrays[name].astype(np.float64) for name in "xy")
        y[first:] += float(ALPHA) * x[first:]
        return {"y": y}

    # fused, so rounded once: half a unit in the last place of numbers up to 4
    return Problem({"x": uniform(n, seed=3), "y": uniform(n, seed=4)}, saxpy, tolerance=2.0**-23)


def launch(kernel: str, threads: int, *arguments: int, most: int = 1 << 30) -> list[Launch]:
    return [Launch(kernel, min(most, max(1, cdiv(threads, BLOCK))), BLOCK, (ALPHA, "x", "y", *arguments))]


LADDER = Ladder(
    name="saxpy",
    title="Saxpy: y = a x + y",
    about="""The first routine of every linear algebra library, and memory-bound like vector addition: two FLOPs for 12 bytes.

What is to be learnt is how to walk and in which steps: a grid-stride loop separates the launch from the size; vectors of 16 bytes need an aligned start and leave a tail; and a slice that begins anywhere has a head too.""",
    source="saxpy.cu",
    problem=problem,
    steps=(
        Step(
            "plain",
            "A thread for each element: coalesced, 4 sectors a request.",
            lambda size: launch("saxpy_plain", size[0], 0, *size),
        ),
        Step(
            "grid-stride",
            "As many threads as the device holds: the index arithmetic and the start of a block are paid once, not for every element.",
            lambda size: launch("saxpy_grid_stride", size[0], 0, *size, most=RESIDENT),
            ("blocks",),
        ),
        Step(
            "float4",
            "Vectors: a quarter of the requests for the same sectors, and the last one to three elements by themselves.",
            lambda size: launch("saxpy_float4", size[0] // 4, *size),
            ("load_requests", "store_requests", "sectors_per_load", "warp_instructions"),
        ),
        Step(
            "slice",
            "The plain kernel on elements 1 to n: every warp straddles a sector, 5 sectors instead of 4, a quarter more traffic to L1 (L2 and DRAM give most of it back).",
            lambda size: launch("saxpy_plain", size[0] - 1, 1, *size),
            ("load_sectors", "sectors_per_load", "store_sectors"),
            section="slice",
            problem=partial(problem, first=1),
            covers=(),
            awkward=((2,), (5,), (31,), (33,), (34,), (257,), (1009,)),
        ),
        Step(
            "peeled",
            "Three elements one by one, then aligned vectors, then the rest: 17 sectors for 512 bytes instead of 20.",
            lambda size: launch("saxpy_peeled", max(3, (size[0] - 1) // 4), 1, *size),
            ("load_requests", "load_sectors", "sectors_per_load"),
            problem=partial(problem, first=1),
            covers=(),
            awkward=((2,), (3,), (4,), (5,), (31,), (33,), (34,), (257,), (1009,)),
        ),
    ),
    columns=("blocks", "load_requests", "load_sectors", "sectors_per_load", "store_requests", "store_sectors", "warp_instructions"),
    awkward=((1,), (3,), (31,), (32,), (33,), (255,), (257,), (1009,)),
    shown=(1_000_003,),
    covers=("y",),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 12 * size[0],
    flops=lambda size: 2 * size[0],
)
