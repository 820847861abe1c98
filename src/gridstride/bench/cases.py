"""The launches the benchmark runs: each kernel of the truth set at a size where its time can be measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridstride.runtime.initial import DTYPES, Initial
from gridstride.runtime.request import Argument, Buffer, LaunchRequest, Scalar

Array = NDArray[Any]


def contents(argument: Argument) -> Array | None:
    """The host array of a buffer as a launch finds it; None for a scalar. Depends on nothing but the argument."""
    return argument.initial.build(argument.dtype, argument.count) if isinstance(argument, Buffer) else None


def read_first(argument: Argument) -> bool:
    """Whether the kernel reads what it then overwrites, so that every repetition must start from fresh contents."""
    return isinstance(argument, Buffer) and argument.out and argument.initial.kind != "poison"


def threads(case: LaunchRequest) -> int:
    return math.prod(case.grid) * math.prod(case.block)


def buffer_bytes(case: LaunchRequest) -> int:
    """Size of all buffers together."""
    return sum(argument.count * argument.dtype.itemsize for argument in case.arguments if isinstance(argument, Buffer))


def _dim(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _i32(value: int) -> Scalar:
    return Scalar(np.int32(value))


def _random(dtype: str, count: int, seed: int, low: float = 0.0, high: float = 1.0, out: bool = False) -> Buffer:
    kind = DTYPES[dtype].kind
    return Buffer(DTYPES[dtype], (count,), Initial("uniform" if kind == "f" else "randint", (low, high, seed)), out)


def _result(dtype: str, count: int, zeros: bool = False) -> Buffer:
    return Buffer(DTYPES[dtype], (count,), Initial("zeros" if zeros else "poison"), out=True)


def _blocks(count: int, block: int = 256) -> int:
    return -(-count // block)


def saxpy_case(n: int) -> LaunchRequest:
    """The kernel everyone is compared on: one thread per element, 256 threads a block."""
    arguments = (Scalar(np.float32(2.0)), _random("f32", n, 1), _random("f32", n, 2, out=True), _i32(n))
    return LaunchRequest("saxpy", "saxpy", (_blocks(n), 1, 1), (256, 1, 1), 0, arguments)


def scaled_cases(divide: int = 1) -> list[LaunchRequest]:
    """Launches of the truth set's kernels, large enough to run 50 ms or more in the simulator.

    Only the spinning lock is missing: it measures waiting, and has no counterpart in a sequential program. `divide` makes each
    launch that many times smaller (for a quick look; the figures then say little).
    """
    cases: list[LaunchRequest] = []

    def add(kernel: str, grid: Sequence[int], block: Sequence[int], *arguments: Argument, shared: int = 0) -> None:
        cases.append(LaunchRequest(kernel, kernel, _dim(grid), _dim(block), shared, arguments))

    def flat(kernel: str, n: int, *arguments: Argument) -> None:
        add(kernel, (_blocks(n),), (256,), *arguments)

    def side(full: int, multiple: int) -> int:
        """Edge of a square whose area shrinks with `divide`, a multiple of the tile."""
        return max(multiple, round(full / math.sqrt(divide)) // multiple * multiple)

    def cubic_side(full: int) -> int:
        """Edge for work that grows with its cube."""
        return max(16, round(full / math.cbrt(divide)) // 16 * 16)

    def many(full: int) -> int:
        """A number of elements that shrinks with `divide`, a multiple of 1,024."""
        return max(1024, full // divide // 1024 * 1024)

    n = many(32 << 20)
    two, y = (_random("f32", n, 1), _random("f32", n, 2)), _random("f32", n, 2, out=True)
    flat("vec_add", n, *two, _result("f32", n), _i32(n))
    add("saxpy_gridstride", (1056,), (256,), Scalar(np.float32(2.0)), two[0], y, _i32(n))
    flat("saxpy_vec4", n // 4, Scalar(np.float32(2.0)), two[0], y, _i32(n // 4))
    flat("soa_field", n, *two, _result("f32", n), _i32(n))
    flat("broadcast_read", n, two[0], _result("f32", n), _i32(n))
    flat("const_broadcast", n, two[0], _result("f32", n), _i32(n), _i32(7))
    flat("const_divergent", n, two[0], _result("f32", n), _i32(n))
    add("partial_block", (_blocks(n, 100),), (100,), two[0], _result("f32", n), _i32(n))
    add("dyn_shared", (n // 256,), (256,), two[0], _result("f32", n), shared=1024)
    m = many(14 << 20)
    flat("strided_read", m, _random("f32", 3 * m + 64, 3), _result("f32", m), _i32(m), _i32(3), _i32(1))
    records = many(12 << 20)
    flat("aos_field", records, _random("f32", 8 * records, 4), _result("f32", records), _i32(records))
    flat("daxpy", m, Scalar(np.float64(1.5)), _random("f64", m, 29), _random("f64", m, 30, out=True), _i32(m))
    flat("hash64", m, _random("u64", m, 31, 0, 1 << 62), _result("u64", m), _i32(m))
    flat("shared_f64", m, _random("f64", m, 19), _result("f64", m))
    add("shared_f128", (n // 1024,), (256,), _random("f32", n, 19), _result("f32", n))
    b = many(64 << 20)
    flat("shared_bytes", b, _random("u8", b, 20, 0, 256), _result("u8", b))
    s = many(8 << 20)
    flat("shared_stride", s, _random("f32", 2048, 21), _result("f32", s), _i32(33))
    flat("shared_atomic", m, _random("i32", m, 22, 0, 1000), _result("i32", 32, zeros=True), _i32(m))
    flat("ballot_compact", m, _random("i32", m, 23, -5, 6), _result("i32", m, zeros=True), _result("i32", 1, zeros=True), _i32(m))
    flat("reduce_atomic", n, _random("i32", n, 8, 0, 10), _result("i32", 1, zeros=True), _i32(n))
    for kernel in ("reduce_tree", "reduce_interleaved", "reduce_strided"):
        flat(kernel, m, _random("f32", m, 7), _result("f32", m // 256), _i32(m))
    add("reduce_full", (1056,), (256,), _random("f32", 2 * n, 7), _result("f32", 1056), _i32(2 * n))
    add("dot_double_atomic", (1056,), (256,), *two, _result("f64", 1, zeros=True), _i32(n))
    add("scan_blelloch", (m // 512,), (256,), _random("i32", m, 9, 0, 10), _result("i32", m))
    q = many(4 << 20)
    add("bitonic_block", (q // 512,), (256,), _random("i32", q, 26, 0, 100000, out=True))
    flat("hist_global", b, _random("u8", b, 10, 0, 256), _result("i32", 256, zeros=True), _i32(b))
    add("hist_private", (1056,), (256,), _random("u8", b, 10, 0, 256), _result("i32", 256, zeros=True), _i32(b))

    w, h = side(4096, 32) + 13, side(4096, 32) - 7  # edges that fill no block, as in life
    for kernel in ("transpose_naive", "transpose_tile", "transpose_pad"):
        add(kernel, (_blocks(w, 32), _blocks(h, 32)), (32, 8), _random("f32", w * h, 6), _result("f32", w * h), _i32(w), _i32(h))
    for kernel in ("blur_h", "blur_v", "sobel"):
        image = _random("f32", w * h, 16, 0, 255)
        add(kernel, (_blocks(w, 32), _blocks(h, 8)), (32, 8), image, _result("f32", w * h), _i32(w), _i32(h))
    flat("rgb_to_gray", w * h, _random("u8", 3 * w * h, 15, 0, 256), _result("f32", w * h), _i32(w * h))
    oh, ow = h - 2, w - 2
    image, weights = _random("f32", w * h, 13), _random("f32", 9, 14)
    tiles = (_blocks(ow, 16), _blocks(oh, 16))
    add("conv2d_naive", tiles, (16, 16), image, _i32(h), _i32(w), weights, _i32(3), _i32(3), _result("f32", oh * ow), _i32(oh), _i32(ow))
    add("conv2d_tiled", tiles, (18, 18), image, _i32(h), _i32(w), weights, _result("f32", oh * ow), _i32(oh), _i32(ow))
    pixels = side(2048, 32)
    add("mandelbrot", (pixels // 32, pixels // 8), (32, 8), _result("u8", pixels**2), _i32(pixels), _i32(pixels), _i32(200))
    d = max(16, 256 // divide)
    volume = (_random("f32", d * 250 * 300, 25), _result("f32", d * 250 * 300))
    add("volume3d", (_blocks(300, 16), _blocks(250, 4), _blocks(d, 4)), (16, 4, 4), *volume, _i32(d), _i32(250), _i32(300))

    k = cubic_side(720)  # no power of two: columns of one fall on few sets of a cache, and the C++ loops would crawl
    matrices = (_random("f32", k * k, 11, -1, 1), _random("f32", k * k, 12, -1, 1), _result("f32", k * k), _i32(k))
    for kernel in ("sgemm_naive", "sgemm_swapped", "sgemm_tiled"):
        add(kernel, (k // 16, k // 16), (16, 16), *matrices)
    add("sgemm_regtile", (k // 16, k // 16), (8, 8), *matrices)
    bodies = side(8192, 128)
    add("nbody_tile", (bodies // 128,), (128,), _random("f32", 4 * bodies, 27, -1, 1), _result("f32", 3 * bodies), _i32(bodies))

    for kernel in ("branch_parity", "branch_block", "loop_triangle"):
        flat(kernel, n, _random("f32", n, 17), _result("f32", n), _i32(n))
    flat("collatz", q, _result("i32", q), _i32(q))
    flat("local_array", q, _random("i32", 8 * q, 18, 0, 1000), _result("i32", q), _i32(q))
    flat("math_mix", q, _random("f32", q, 32, 0.01, 8), _result("f32", q), _i32(q))
    flat("int_divmod", n, _random("i32", n, 33, -(1 << 31), (1 << 31) - 1), _result("i32", n), _i32(n), _i32(-13))
    return cases
