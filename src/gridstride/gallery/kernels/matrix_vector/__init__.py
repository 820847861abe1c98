"""The matrix-vector product: one read of the matrix."""

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint

BLOCK = 256


def problem(size: Size) -> Problem:
    """Whole numbers from -4 to 4: exact in any order."""
    m, n = size

    def product(arrays: Arrays) -> Arrays:
        return {"y": arrays["A"] @ arrays["x"]}

    a, x = (randint(*shape, low=-4, high=5, seed=seed, dtype="f32") for shape, seed in (((m, n), 44), ((n,), 45)))
    return Problem({"A": a, "x": x, "y": empty(m)}, product)


def step(name: str, kernel: str, threads_of_row: float, claim: str, *moves: str) -> Step:
    def launches(size: Size) -> list[Launch]:
        m, n = size
        warps_or_threads = cdiv(m, 4) * 32 if threads_of_row == 8 else int(m * threads_of_row)
        return [Launch(f"matvec_{kernel}", cdiv(warps_or_threads, BLOCK), BLOCK, ("A", "x", "y", m, n))]

    return Step(name, claim, launches, moves)


LADDER = Ladder(
    name="matrix-vector",
    title="Matrix-vector product",
    about="Half a FLOP a byte: the matrix is read once, and nothing can be kept. What matters is that warps read along rows, in wide pieces, and that the vector is not asked for more often than needed.",
    source="matrix_vector.cu",
    problem=problem,
    steps=(
        step("thread-row", "thread", 1, "A thread a row: lanes are a row apart, 32 sectors for each step."),
        step("warp-row", "warp", 32, "A warp a row: 4 sectors a request, and 32 times the threads to wait for memory together.", "sectors_per_load", "load_sectors"),
        step("warp-float4", "float4", 32, "Vectors: a quarter of the requests.", "load_requests", "sectors_per_load"),
        step("four-rows", "four_rows", 8, "Four rows a warp: the vector is loaded once for four rows, and four loads of the matrix are under way together.", "load_requests", "load_sectors"),
    ),
    columns=("load_requests", "load_sectors", "sectors_per_load", "shuffles", "flops", "warp_instructions"),
    awkward=((1, 1), (1, 31), (33, 32), (31, 33), (7, 132), (257, 36), (65, 127)),
    shown=(512, 1024),
    covers=("y",),
    large=(8192, 8192),
    modelled=(4096, 4096),
    bytes=lambda size: 4 * size[0] * size[1],
    flops=lambda size: 2 * size[0] * size[1],
)
