"""The dot product: fusing, vectors, precision."""

import numpy as np

from gridstride.gallery.kernels.reduction import BLOCK, blocks_for
from gridstride.gallery.model import Action, Arrays, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint, uniform


def whole(size: Size) -> Problem:
    """Whole numbers from -4 to 4: exact in any order."""

    def dot(arrays: Arrays) -> Arrays:
        return {"out": np.dot(arrays["x"].astype(np.float64), arrays["y"].astype(np.float64))}

    x, y = (randint(*size, low=-4, high=5, seed=seed, dtype="f32") for seed in (23, 24))
    return Problem({"x": x, "y": y, "out": empty()}, dot)


def real(size: Size) -> Problem:
    """Any numbers; n additions of products up to 1, each off by 2^-53 of a sum that is at most n."""

    def dot(arrays: Arrays) -> Arrays:
        return {"out": np.dot(arrays["x"].astype(np.longdouble), arrays["y"].astype(np.longdouble))}

    return Problem({"x": uniform(*size, seed=25), "y": uniform(*size, seed=26), "out": empty(dtype="f64")}, dot, size[0] ** 2 * 2.0**-53)


def one(kernel: str, elements: int, size: Size) -> list[Action]:
    return [Fill("out"), Launch(kernel, blocks_for(size[0], elements), BLOCK, ("x", "y", "out", *size))]


LADDER = Ladder(
    name="dot-product",
    title="Dot product",
    about="A map and a reduction. Two kernels are the obvious way and write what nobody needs; one kernel keeps the products in registers. The intensity is a quarter of a FLOP a byte: memory-bound.",
    source="dot_product.cu",
    problem=whole,
    steps=(
        Step(
            "two-kernels",
            "Products to memory, then their sum: 16 bytes an element where 8 would do.",
            lambda size: [
                Launch("dot_multiply", cdiv(size[0], BLOCK), BLOCK, ("x", "y", "products", *size)),
                Fill("out"),
                Launch("dot_sum", blocks_for(size[0]), BLOCK, ("products", "out", *size)),
            ],
            scratch=lambda size: {"products": empty(*size)},
        ),
        Step("fused", "The product never leaves its register: half the traffic, one launch.", lambda size: one("dot_fused", BLOCK, size), ("launches", "load_sectors", "store_sectors", "sector_intensity")),
        Step("float4", "Vectors, and four loads under way: a quarter of the requests.", lambda size: one("dot_float4", 2048, size), ("load_requests", "sectors_per_load", "warp_instructions")),
        Step("double", "Summed in double precision, at the same traffic: the error of the sum is gone, and the time is still memory's.", lambda size: one("dot_double", 1024, size), problem=real),
    ),
    columns=("launches", "load_requests", "load_sectors", "sectors_per_load", "store_sectors", "global_atomics", "flops", "sector_intensity", "warp_instructions"),
    awkward=((1,), (31,), (32,), (33,), (255,), (257,), (1009,), (65_537,)),
    shown=(1_000_000,),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 8 * size[0],
    flops=lambda size: 2 * size[0],
)  # fmt: skip
