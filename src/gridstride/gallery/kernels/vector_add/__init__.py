"""Vector addition: the launch, the guard, coalescing, and wide accesses."""

from gridstride.gallery.model import Arrays, Ladder, Launch, Problem, Size, Step, cdiv, empty, uniform

BLOCK = 256
RESIDENT = 1056
"""Blocks of 256 threads that an H200 holds at once: 8 on each of 132 multiprocessors."""


def problem(size: Size) -> Problem:
    (n,) = size

    def add(arrays: Arrays) -> Arrays:
        return {"c": arrays["a"] + arrays["b"]}

    return Problem({"a": uniform(n, seed=1), "b": uniform(n, seed=2), "c": empty(n)}, add)


def launch(kernel: str, grid: int, block: int, size: Size) -> list[Launch]:
    return [Launch(kernel, grid, block, ("a", "b", "c", *size))]


LADDER = Ladder(
    name="vector-add",
    title="Vector addition",
    about="""The smallest kernel that computes anything: c = a + b. For every addition 12 bytes are moved, 1/12 FLOP a byte, so nothing but memory traffic matters: how many threads
ask for it at once, and in what pieces.

One million elements in blocks of 256 are 3,907 blocks, 1,000,192 threads: 192 have nothing to do, and in the last block the first 64 work. That is what the guard `if (i < n)` is for; rounding
the grid down instead would leave the last 64 elements unwritten, without any error.""",
    source="vector_add.cu",
    problem=problem,
    steps=(
        Step(
            "one-thread",
            "One thread does it all: every access moves a sector of 32 bytes for 4, and 1,000,000 times the whole device waits for one answer from memory.",
            lambda size: launch("add_one_thread", 1, 1, size),
            large=(1 << 20,),
        ),
        Step(
            "one-block",
            "A block of 256 threads takes neighbours together: 32 lanes share one request of 4 sectors, an eighth of the bytes; still one multiprocessor of 132.",
            lambda size: launch("add_one_block", 1, BLOCK, size),
            ("load_requests", "load_sectors", "sectors_per_load", "lanes_per_instruction"),
            large=(1 << 24,),
        ),
        Step(
            "thread-each",
            "3,907 blocks fill all multiprocessors: the same requests, but tens of thousands are under way at once.",
            lambda size: launch("add_thread_each", cdiv(size[0], BLOCK), BLOCK, size),
            ("blocks",),
        ),
        Step(
            "grid-stride",
            "As many blocks as the device holds, each thread taking several elements: blocks are started once, and any size fits the same grid.",
            lambda size: launch("add_grid_stride", min(RESIDENT, cdiv(size[0], BLOCK)), BLOCK, size),
            ("blocks",),
        ),
        Step(
            "float4",
            "Sixteen bytes an access: the same sectors in a quarter of the requests, so that fewer instructions keep the memory busy.",
            lambda size: launch("add_float4", max(1, cdiv(size[0] // 4, BLOCK)), BLOCK, size),
            ("load_requests", "sectors_per_load", "warp_instructions"),
        ),
    ),
    columns=("blocks", "load_requests", "load_sectors", "sectors_per_load", "store_sectors", "warp_instructions", "lanes_per_instruction"),
    awkward=((1,), (3,), (31,), (32,), (33,), (255,), (257,), (1009,)),
    shown=(1_000_000,),
    covers=("c",),
    large=(1 << 26,),
    modelled=(1 << 24,),
    bytes=lambda size: 12 * size[0],
    flops=lambda size: size[0],
)
