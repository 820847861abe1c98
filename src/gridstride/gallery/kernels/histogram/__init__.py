"""Histograms: contention, private copies, skewed data."""

import numpy as np

from gridstride.gallery.model import Action, Arrays, Fill, Ladder, Launch, Problem, Size, Step, cdiv, empty, given, randint

BLOCK = 256
RESIDENT = 1056


def counted(arrays: Arrays) -> Arrays:
    return {"bins": np.bincount(arrays["data"], minlength=256)}


def problem(size: Size) -> Problem:
    return Problem({"data": randint(*size, high=256, seed=42, dtype="u8"), "bins": empty(256, dtype="u32")}, counted)


def skewed(size: Size) -> Problem:
    """Nine bytes in ten are 200, the others anything."""
    generator = np.random.default_rng(43)
    data = np.where(generator.random(size[0], dtype=np.float32) < 0.9, 200, generator.integers(0, 256, size[0], dtype=np.uint8))
    return Problem({"data": given(data, "u8"), "bins": empty(256, dtype="u32")}, counted)


def launches(kernel: str, bytes_of_block: int, size: Size) -> list[Action]:
    return [Fill("bins"), Launch(f"histogram_{kernel}", min(RESIDENT, cdiv(size[0], bytes_of_block)), BLOCK, ("data", "bins", *size))]


LADDER = Ladder(
    name="histogram",
    title="Histogram of bytes",
    about="""Counting is cheap, agreeing on the counts is not. Atomics on one array in L2 queue; a copy for each block in shared memory, or for each warp, takes the queue apart, and only the sums meet.

How bad the queue is depends on the data, and not always as one thinks: where nine bytes in ten are equal, most lanes of a warp want one counter. In global memory they queue. In shared memory
an increment is an instruction of its own that counts equal lanes together, so that skewed data cost less than even ones; and a cleverer kernel, which adds runs, loses it.""",
    source="histogram.cu",
    problem=problem,
    steps=(
        Step("global", "An atomic in L2 for each byte.", lambda size: [Fill("bins"), Launch("histogram_global", cdiv(size[0], BLOCK), BLOCK, ("data", "bins", *size))], large=(1 << 24,)),
        Step(
            "global-skewed",
            "The same kernel on skewed data: the lanes of a warp meet at one address.",
            lambda size: [Fill("bins"), Launch("histogram_global", cdiv(size[0], BLOCK), BLOCK, ("data", "bins", *size))],
            ("atomic_sectors_all",),
            problem=skewed,
            large=(1 << 24,),
        ),
        Step("privatised", "A histogram in the shared memory of each block; only its bins go to L2.", lambda size: launches("privatised", 1024, size), ("global_atomics", "shared_atomics")),
        Step("per-warp", "A histogram for each warp: the eight warps of a block do not wait for each other. The warp's own conflicts remain.", lambda size: launches("per_warp", 1024, size), ("shared_wavefronts",)),
        Step("vector", "Sixteen bytes a load: a sixteenth of the loads for as many atomics.", lambda size: launches("vector", 16384, size), ("load_requests", "sectors_per_load")),
        Step("cub", "CUB's BlockHistogram with atomics in shared memory: one histogram a block, sixteen bytes a thread.", lambda size: launches("cub", 16384, size), source="cub.cu"),
        Step("skewed", "The kernel of vector on skewed data: as many atomics, in well under half the passes, since increments of one counter by several lanes are made together.",
             lambda size: launches("vector", 16384, size), ("shared_atomic_wavefronts",), problem=skewed),
        Step("runs", "Counting runs in registers looks clever and is worse: a sum is no increment, lanes with the same counter add one after the other, and lanes go apart.", lambda size: launches("runs", 16384, size), ("shared_atomics", "shared_atomic_wavefronts"), problem=skewed),
    ),
    columns=("blocks", "load_requests", "sectors_per_load", "global_atomics", "atomic_sectors_all", "shared_atomics", "shared_atomic_wavefronts", "shared_wavefronts", "warp_instructions"),
    awkward=((1,), (15,), (16,), (17,), (33,), (1009,), (4096,), (20_011,)),
    shown=(1 << 18,),
    large=(1 << 28,),
    modelled=(1 << 24,),
    bytes=lambda size: size[0],
)  # fmt: skip
