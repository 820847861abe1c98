"""Matrix transposition: coalescing on both sides, bank conflicts, padding, swizzling, vectors."""

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, uniform


def problem(size: Size) -> Problem:
    height, width = size

    def transposed(arrays: Arrays) -> Arrays:
        return {"out": arrays["in"].T}

    return Problem({"in": uniform(height, width, seed=6), "out": empty(width, height)}, transposed)


def step(name: str, block: tuple[int, int], claim: str, *moves: str, tile: tuple[int, int] = (32, 32)) -> Step:
    def launches(size: Size) -> list[Launch]:
        height, width = size
        return [Launch(f"transpose_{name}", (cdiv(width, tile[0]), cdiv(height, tile[1])), block, ("in", "out", height, width))]

    return Step(name, claim, launches, moves)


LADDER = Ladder(
    name="transpose",
    title="Matrix transposition",
    about="""Rows become columns: whatever runs along a row on one side runs down a column on the other, and one of both costs 32 sectors a request. The way out is a tile in shared memory,
where a column costs nothing, once its words lie in different banks.

Word w of shared memory lies in bank w mod 32. With rows of 32 words a column is one bank, 32 passes; with 33 it is 32 banks, one pass.""",
    source="transpose.cu",
    problem=problem,
    steps=(
        step("naive", (32, 8), "Coalesced reads, and writes down a column: 32 sectors a request, of which each lane fills an eighth.", tile=(32, 8)),
        step("tile", (32, 32), "A tile in shared memory lets both sides run along rows, 4 sectors each; but reading its columns takes 32 passes over one bank.",
             "sectors_per_store", "store_sectors", "bank_conflicts"),
        step("padded", (32, 32), "One word of padding a row: the words of a column lie in 32 banks, one pass.", "bank_conflicts", "shared_wavefronts"),
        step("swizzled", (32, 32), "Column c of row r at place c xor r: as free of conflicts as padding, and no word is wasted.", "bank_conflicts"),
        step("rows", (32, 8), "A quarter of the threads, four elements each: four loads are under way before the first is waited for, and a barrier holds up 8 warps, not 32.",
             "barriers", "warp_instructions"),
        step("vector", (16, 16), "Vectors on both sides and in shared memory, squares of 4 × 4 turned in registers: a quarter of all accesses.",
             "load_requests", "store_requests", "shared_accesses", "warp_instructions", tile=(64, 64)),
    ),
    columns=("load_requests", "sectors_per_load", "store_requests", "sectors_per_store", "store_sectors", "shared_accesses", "shared_wavefronts", "bank_conflicts", "barriers", "warp_instructions"),
    awkward=((1, 1), (1, 31), (32, 32), (33, 31), (65, 67), (64, 128), (127, 61), (68, 132)),
    shown=(512, 1024),
    covers=("out",),
    large=(8192, 8192),
    modelled=(4096, 4096),
    bytes=lambda size: 8 * size[0] * size[1],
)  # fmt: skip
