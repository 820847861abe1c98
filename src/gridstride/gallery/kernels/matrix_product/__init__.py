"""The matrix product: how often a number is loaded, and by what."""

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, randint


def problem(size: Size) -> Problem:
    """Whole numbers from -4 to 4: sums of up to a million products are exact in any order."""
    m, n, k = size

    def product(arrays: Arrays) -> Arrays:
        return {"C": arrays["A"] @ arrays["B"]}

    a, b = (randint(*shape, low=-4, high=5, seed=seed, dtype="f32") for shape, seed in (((m, k), 30), ((k, n), 31)))
    return Problem({"A": a, "B": b, "C": empty(m, n)}, product)


def step(name: str, kernel: str, tile: tuple[int, int], block: int | tuple[int, int], claim: str, *moves: str, down: bool = False) -> Step:
    def launches(size: Size) -> list[Launch]:
        m, n, _ = size
        grid = (cdiv(m, tile[0]), cdiv(n, tile[1])) if down else (cdiv(n, tile[0]), cdiv(m, tile[1]))
        return [Launch(f"matmul_{kernel}", grid, block, ("A", "B", "C", *size))]

    return Step(name, claim, launches, moves)


LADDER = Ladder(
    name="matrix-product",
    title="Matrix product",
    about="""The product of two n × n matrices is 2 n³ FLOPs over 3 n² numbers: n/6 FLOP a byte, 683 at 4,096, far above what any memory asks for. Yet the plain kernel loads two numbers for each multiply-add.
Each rung loads a number less often: from DRAM once a tile, from shared memory once for several outputs held in registers, and sixteen bytes at a time.

With T × T outputs in registers 2 T loads feed T² multiply-adds: at T = 1 the loads are the work, at T = 8 the arithmetic is. What then remains is waiting, which a second pair of tiles hides.""",
    source="matrix_product.cu",
    problem=problem,
    steps=(
        step("swapped", "swapped", (32, 8), (32, 8), "Neighbouring threads in neighbouring rows: A and C cost 32 sectors a request.", down=True),
        step("naive", "naive", (32, 8), (32, 8), "Neighbouring threads along a row: one address of A for the warp, 4 sectors of B, 4 of C.", "load_sectors", "sectors_per_load", "store_sectors"),
        step("tiled", "tiled", (32, 32), (32, 32), "Tiles in shared memory: a number is loaded from global memory once for 32 outputs, a thirty-second of the requests.",
             "load_requests", "load_sectors", "shared_accesses", "sector_intensity"),
        step("registers-2x2", "registers2", (32, 32), (16, 16), "Four outputs a thread: four shared loads feed four multiply-adds, where two fed one.", "shared_accesses", "flops_per_shared_pass", "warp_instructions"),
        step("registers-4x4", "registers4", (64, 64), (16, 16), "Sixteen outputs a thread: eight loads feed sixteen multiply-adds, and larger tiles halve the global traffic again.",
             "load_sectors", "shared_accesses", "flops_per_shared_pass", "sector_intensity"),
        step("vector-8x8", "vector8", (128, 128), 256, "64 outputs a thread and vectors of 16 bytes on all ways: four shared loads feed 64 multiply-adds.",
             "load_requests", "load_sectors", "shared_accesses", "flops_per_shared_pass", "warp_instructions"),
        step("bounds", "bounds", (128, 128), 256, "The same kernel with __launch_bounds__(256, 2): the compiler knows that two blocks of 256 threads are to share a multiprocessor, and may use the 128 registers that this leaves to have more loads under way.",
             "registers"),
        step("double-buffered", "double", (128, 128), 256, "Two pairs of tiles: the next is on its way while this one is multiplied, and one barrier a tile is left of two.", "barriers"),
    ),
    columns=("load_requests", "load_sectors", "sectors_per_load", "store_sectors", "shared_accesses", "shared_wavefronts", "bank_conflicts", "barriers", "flops_per_shared_pass",
             "sector_intensity", "registers", "occupancy", "warp_instructions"),
    awkward=((1, 1, 1), (31, 33, 17), (64, 64, 64), (65, 67, 71), (33, 132, 36), (129, 130, 9)),
    shown=(256, 256, 256),
    covers=("C",),
    large=(4096, 4096, 4096),
    modelled=(1024, 1024, 1024),
    bytes=lambda size: 4 * (size[0] * size[2] + size[2] * size[1] + size[0] * size[1]),
    flops=lambda size: 2 * size[0] * size[1] * size[2],
)  # fmt: skip
