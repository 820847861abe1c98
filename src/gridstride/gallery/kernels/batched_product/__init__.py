"""Many small matrix products: a block, or a warp, for each."""

import numpy as np

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint

SIDE = 16


def problem(size: Size) -> Problem:
    """Whole numbers from -4 to 4: exact in any order."""
    (batch,) = size

    def products(arrays: Arrays) -> Arrays:
        return {"C": np.matmul(arrays["A"], arrays["B"])}

    a, b = (randint(batch, SIDE, SIDE, low=-4, high=5, seed=seed, dtype="f32") for seed in (46, 47))
    return Problem({"A": a, "B": b, "C": empty(batch, SIDE, SIDE)}, products)


def step(name: str, matrices_of_block: int, claim: str, *moves: str) -> Step:
    def launches(size: Size) -> list[Launch]:
        return [Launch(f"batched_{name.replace('-', '_')}", cdiv(size[0], matrices_of_block), 256, ("A", "B", "C", *size))]

    return Step(name, claim, launches, moves)


LADDER = Ladder(
    name="batched-product",
    title="Batched matrix product: many of 16 × 16",
    about="Physics, graphics and machine learning multiply small matrices by the million. Each is too small to fill a multiprocessor, and all together they are bound by memory: 8,192 FLOPs over 3 KB, 2.7 FLOPs a byte.",
    source="batched_product.cu",
    problem=problem,
    steps=(
        step("per-output", 1, "A thread an output, a block a matrix: sixteen requests for each operand, answered by L1."),
        step("shared", 1, "Both matrices in shared memory: each value is loaded once, but two shared loads feed one multiply-add.", "load_requests", "load_sectors", "shared_loads"),
        step("warp", 8, "A warp a matrix, eight outputs a lane, vectors everywhere: six shared loads of 16 bytes feed 32 multiply-adds, and no barrier is left.",
             "load_requests", "sectors_per_load", "shared_loads", "barriers", "warp_instructions"),
    ),
    columns=("load_requests", "load_sectors", "sectors_per_load", "shared_loads", "shared_wavefronts", "barriers", "flops_per_shared_pass", "sector_intensity", "warp_instructions"),
    awkward=((1,), (2,), (7,), (8,), (9,), (31,), (67,)),
    shown=(1_000,),
    covers=("C",),
    large=(200_000,),
    modelled=(20_000,),
    bytes=lambda size: 3 * 1024 * size[0],
    flops=lambda size: 2 * SIDE**3 * size[0],
)  # fmt: skip
