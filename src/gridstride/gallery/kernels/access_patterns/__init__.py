"""What accesses to global memory cost: strides, offsets, vectors, layouts."""

from collections.abc import Callable

import numpy as np

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint, uniform

BLOCK = 256


def strided(stride: int, offset: int, name: str, claim: str) -> Step:
    def problem(size: Size) -> Problem:
        (n,) = size

        def picked(arrays: Arrays) -> Arrays:
            return {"y": arrays["x"][offset::stride][:n]}

        return Problem({"x": uniform(n * stride + offset, seed=3), "y": empty(n)}, picked)

    def launches(size: Size) -> list[Launch]:
        return [Launch("strided", cdiv(size[0], BLOCK), BLOCK, ("x", "y", *size, stride, offset))]

    return Step(name, claim, launches, ("sectors_per_load", "load_sectors", "load_efficiency"), problem=problem, large=(1 << 25 if stride < 32 else 1 << 23,))


def copied(size: Size) -> Problem:
    height, width = size

    def same(arrays: Arrays) -> Arrays:
        return {"out": arrays["image"]}

    return Problem({"image": uniform(height, width, seed=5), "out": empty(height, width)}, same)


def broadcast(size: Size) -> Problem:
    (n,) = size

    def repeated(arrays: Arrays) -> Arrays:
        return {"y": np.repeat(arrays["x"], BLOCK)[:n]}

    return Problem({"x": uniform(cdiv(n, BLOCK), seed=6), "y": empty(n)}, repeated)


def records(size: Size) -> Problem:
    (n,) = size

    def added(arrays: Arrays) -> Arrays:
        return {"out": arrays["records"][:, 1] + arrays["records"][:, 2]}

    return Problem({"records": uniform(n, 8, seed=7), "out": empty(n)}, added)


def fields(size: Size) -> Problem:
    (n,) = size

    def added(arrays: Arrays) -> Arrays:
        return {"out": arrays["rate"] + arrays["spread"]}

    return Problem({"rate": uniform(n, seed=8), "spread": uniform(n, seed=9), "out": empty(n)}, added)


def pixels(size: Size) -> Problem:
    (n,) = size

    def grey(arrays: Arrays) -> Arrays:
        return {"grey": arrays["rgb"].astype(np.float64) @ np.array([0.299, 0.587, 0.114])}

    # three weights and three operations, each rounded by at most half a unit in the last place of 256
    return Problem({"rgb": randint(n, 3, high=256, seed=10, dtype="u8"), "grey": empty(n)}, grey, tolerance=6 * 2.0**-17)


VECTOR_SIZES = ((1, 4), (31, 4), (33, 36), (5, 132), (67, 20))


def vectors(kernel: str, down: bool, claim: str) -> Step:
    def launches(size: Size) -> list[Launch]:
        height, width = size
        along, across = (height, width // 4) if down else (width // 4, height)
        return [Launch(kernel, (cdiv(along, 32), cdiv(across, 8)), (32, 8), ("image", "out", height, width // 4))]

    return Step(
        kernel.replace("_", "-"), claim, launches, ("sectors_per_load", "sectors_per_store"), problem=copied, awkward=VECTOR_SIZES, shown=(256, 1024), large=(8192, 8192)
    )


def simple(kernel: str, arrays: tuple[str, ...], problem: Callable[[Size], Problem], claim: str, *moves: str) -> Step:
    def launches(size: Size) -> list[Launch]:
        return [Launch(kernel, cdiv(size[0], BLOCK), BLOCK, (*arrays, *size))]

    return Step(kernel.replace("_", "-"), claim, launches, moves, problem=problem)


LADDER = Ladder(
    name="access-patterns",
    title="Access patterns: what 32 addresses cost",
    about="""Global memory is moved in sectors of 32 bytes. A warp's request costs as many as its lanes touch, whatever they use of them: neighbours share, strangers do not.

These steps are no ladder to the top but a chart: the same work with other addresses. The stride is 4 bytes for neighbouring floats and 32 for records of eight, and so is the price.""",
    source="access_patterns.cu",
    problem=broadcast,
    steps=(
        strided(1, 0, "stride-1", "Neighbours: 128 bytes are 4 sectors, all used."),
        strided(2, 0, "stride-2", "Every other element: 8 sectors, half of each carried for nothing."),
        strided(4, 0, "stride-4", "Every fourth: 16 sectors, a quarter used."),
        strided(8, 0, "stride-8", "Every eighth: a sector for each lane, 32, an eighth used."),
        strided(32, 0, "stride-32", "Every thirty-second: 32 sectors again, since a lane cannot touch more than one."),
        strided(1, 1, "offset-1", "Neighbours that begin one element late: 5 sectors."),
        simple("broadcast", ("x", "y"), broadcast, "All lanes at one address: 1 sector.", "sectors_per_load", "load_sectors", "load_efficiency"),
        vectors("vector_row", False, "Vectors of 16 bytes along the row: 16 sectors for 512 bytes, all used."),
        vectors("vector_column", True, "The same vectors down the column of an image 1,024 wide: 32 sectors, half used, on both sides."),
        simple("aos", ("records", "out"), records, "One field of records of 32 bytes: 32 sectors for 128 bytes, an eighth used.", "sectors_per_load", "load_sectors", "load_efficiency"),
        simple("soa", ("rate", "spread", "out"), fields, "The fields in arrays of their own: 4 sectors, all used.", "sectors_per_load", "load_sectors", "load_efficiency"),
        simple("pixels", ("rgb", "grey"), pixels, "Packed pixels byte by byte: three requests of 3 sectors each over the same 96 bytes.", "load_requests", "load_sectors"),
        simple(
            "pixels_staged",
            ("rgb", "grey"),
            pixels,
            "The bytes as words, then shared memory: a quarter of the requests, and each sector once.",
            "load_requests",
            "load_sectors",
            "load_efficiency",
        ),
    ),
    columns=("load_requests", "load_sectors", "sectors_per_load", "load_efficiency", "store_sectors", "sectors_per_store"),
    awkward=((1,), (31,), (32,), (33,), (255,), (257,), (1009,)),
    shown=(65_536,),
    large=(1 << 25,),
    modelled=(1 << 22,),
)
