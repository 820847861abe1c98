"""Each clause of a contract: a launch that breaks it, with the whole error and nothing run, and a launch that keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import ContractError, LaunchError, UsageError

SOURCE = """
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void copy(int n, const float* x, float* y) { int i = I; if (i < n) y[i] = x[i]; }
extern "C" __global__ void four(int n, const float* x, float* y) {
    for (int k = 0; k < 4; ++k) { int i = blockIdx.x * 4 * blockDim.x + k * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
}
extern "C" __global__ void stride(int n, const float* x, float* y) { for (int i = I; i < n; i += gridDim.x * blockDim.x) y[i] = x[i]; }
extern "C" __global__ void bare(int n, const float* x, float* y) { y[I] = x[I]; }
extern "C" __global__ void image(int width, int height, const float* x, float* y) {
    int c = I, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < width && r < height) y[r * width + c] = x[r * width + c];
}
extern "C" __global__ void reversed(int n, const float* x, float* y) {
    extern __shared__ float s[];
    int i = I, first = blockIdx.x * blockDim.x, last = min((int)blockDim.x, n - first) - 1;
    if (i < n) s[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = s[last - threadIdx.x];
}
extern "C" __global__ void inner(unsigned long long n, float a, const float* x, float* y) {  // y[i] = x[i] + x[i + 2]
    unsigned long long i = I; if (i < n) y[i] = a * (x[i] + x[i + 2]);
}
"""
N = 1000


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


@pytest.fixture
def arrays(module: gs.Module) -> tuple[gs.Array, gs.Array]:
    return module.device.array(np.arange(N, dtype=np.float32), name="x"), module.device.zeros(N, name="y")


def refused(kernel: gs.Kernel, launch: Callable[[gs.Kernel], object], y: gs.Array, clause: str) -> str:
    """The message of a launch that breaks a clause; it is a finding too, and nothing has run."""
    before = y.numpy()
    with gs.checking() as findings, pytest.raises(ContractError) as broken:
        launch(kernel)
    assert isinstance(broken.value, LaunchError) and (broken.value.code, broken.value.exit_status) == ("launch", 2)
    assert broken.value.clause == clause and broken.value.kernel == kernel.name
    assert str(broken.value) == f"{kernel.name} breaks its contract ({clause}): {broken.value.has}; {broken.value.do}"
    [found] = findings
    assert (found.kind, found.severity, found.message, found.advice) == ("launch-shape", "error", str(broken.value), broken.value.do)
    assert findings.receipt.launches == 0
    np.testing.assert_array_equal(y.numpy(), before)
    return str(broken.value)


def test_block(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["copy"].with_contract(gs.Contract(extent="n", block=256))
    assert refused(kernel, lambda k: k[8, 128](N, x, y), y, "block") == (
        "copy breaks its contract (block): it is launched with blocks of 128 threads, and the contract says 256; launch it with blocks of 256, or by "
        "copy.for_each(n)"
    )
    image = module["image"].with_contract(gs.Contract(block=(32, 8)))
    assert refused(image, lambda k: k[4, (8, 32)](25, 40, x, y), y, "block") == (
        "image breaks its contract (block): it is launched with blocks of 8 × 32 threads, and the contract says 32 × 8; launch it with blocks of 32 × 8"
    )
    kernel[4, 256](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_block_multiple_of(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["copy"].with_contract(gs.Contract(block_multiple_of=32))
    assert refused(kernel, lambda k: k[10, 100](N, x, y), y, "block_multiple_of") == (
        "copy breaks its contract (block_multiple_of): blocks of 100 threads are no multiple of 32; launch blocks of 96 or 128 threads"
    )
    assert "launch blocks of 32 threads" in refused(kernel, lambda k: k[200, 5](N, x, y), y, "block_multiple_of")
    kernel[11, 96](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_extent(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["copy"].with_contract(gs.Contract(extent="n"))
    assert refused(kernel, lambda k: k[N // 256, 256](N, x, y), y, "extent") == (
        "copy breaks its contract (extent): 3 blocks of 256 elements reach 768 of n = 1,000; launch 4 blocks, rounded up, or by copy.for_each(n)"
    )
    assert refused(kernel, lambda k: k[4, 256](-1, x, y), y, "extent") == (
        "copy breaks its contract (extent): n is -1, which is no number of elements; pass a whole number of at least 0"
    )
    image = module["image"].with_contract(gs.Contract(extent=("width", "height")))
    assert refused(image, lambda k: k[(1, 4), (32, 8)](25, 40, x, y), y, "extent") == (
        "image breaks its contract (extent): 4 blocks of 8 elements along y reach 32 of height = 40; launch 5 blocks along y, rounded up, or by "
        "image.for_each((width, height))"
    )
    fixed = module["copy"].with_contract(gs.Contract(extent=1000))
    assert "reach 256 of the 1,000 elements; launch 4 blocks" in refused(fixed, lambda k: k[1, 256](N, x, y), y, "extent")
    kernel[100, 256](N, x, y)  # more than needed: the kernel has a guard
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    image[(1, 5), (32, 8)](25, 40, x, y)


def test_an_index_that_would_wrap(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    blocks = 2**31 // 1000 + 1
    kernel = module["copy"].with_contract(gs.Contract(extent="n"))
    assert refused(kernel, lambda k: k[blocks, 1000](N, x, y), y, "extent") == (
        "copy breaks its contract (extent): 2,147,484 blocks of 1,000 elements reach 2,147,484,000, and an index with the 32 bits of n ends at "
        "2,147,483,647; launch 1 block"
    )


def test_nonempty(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["image"].with_contract(gs.Contract(extent=("width", "height"), nonempty=True))
    assert refused(kernel, lambda k: k[(1, 1), (32, 8)](5, 0, x, y), y, "nonempty") == (
        "image breaks its contract (nonempty): height is 0, and the kernel takes at least one element; leave this launch out"
    )
    kernel[(1, 5), (32, 8)](25, 40, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_elements_per_thread_and_tile(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["four"].with_contract(gs.Contract(extent="n", elements_per_thread=4))
    assert "3 blocks of 256 elements reach 768 of n = 1,000; launch 4 blocks" in refused(kernel, lambda k: k[3, 64](N, x, y), y, "extent")
    kernel[4, 64](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    tiled = module["four"].with_contract(gs.Contract(extent="n", block=64, tile=256))
    assert "3 blocks of 256 elements reach 768" in refused(tiled, lambda k: k[3, 64](N, x, y), y, "extent")
    tiled[4, 64](N, x, y)


def test_grid_stride(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["stride"].with_contract(gs.Contract(extent="n", grid_stride=True))
    kernel[2, 64](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    without = module["stride"].with_contract(gs.Contract(extent="n"))
    assert "2 blocks of 64 elements reach 128 of n = 1,000" in refused(without, lambda k: k[2, 64](N, x, y), y, "extent")


def test_guard(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["bare"].with_contract(gs.Contract(extent="n", guard=False))
    assert refused(kernel, lambda k: k[4, 256](N, x, y), y, "guard") == (
        "bare breaks its contract (guard): 4 blocks of 256 elements are 1,024, n = 1,000, and the kernel has no guard; pass a multiple of 256 and as many "
        "blocks, or give the kernel a guard"
    )
    kernel[10, 100](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_extents(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["inner"].with_contract(gs.Contract(extent="n", extents={"x": "n + 2"}, covers="y"))
    assert refused(kernel, lambda k: k[4, 256](N, 1.0, x, y), y, "extents") == (
        "inner breaks its contract (extents): `x` has 1,000 elements, and needs 1,002 (n + 2 = 1,002); pass an array of that size"
    )
    assert "`y` has 10 elements, and needs 998 (n = 998)" in refused(kernel, lambda k: k[4, 256](N - 2, 1.0, x, y[:10]), y, "extents")
    kernel[4, 256](N - 2, 1.0, x, y)
    np.testing.assert_array_equal(y.numpy()[: N - 2], x.numpy()[: N - 2] + x.numpy()[2:])
    image = module["image"].with_contract(gs.Contract(extent=("width", "height"), covers="y"))
    assert "needs 1,025 (width = 25 × height = 41)" in refused(image, lambda k: k[(1, 6), (32, 8)](25, 41, x, y), y, "extents")


def test_distinct(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["copy"].with_contract(gs.Contract(distinct=("x", "y")))
    assert refused(kernel, lambda k: k[1, 256](100, y[:100], y[90:]), y, "distinct") == (
        "copy breaks its contract (distinct): `x` and `y` have 40 bytes in common; pass arrays that do not overlap"
    )
    assert "have 4 bytes" not in refused(kernel, lambda k: k[4, 256](N, y, y), y, "distinct")
    inside = gs.pointer(y.address + 40)
    assert "have 1 byte in common" in refused(kernel, lambda k: k[1, 32](1, inside, y), y, "distinct")
    kernel[1, 256](100, y[:100], y[100:])  # two halves of one array have nothing in common
    kernel[4, 256](N, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("shared", ["4 * block", "4*block_x*block_y*block_z", "128*warps", 1024, lambda block: 4 * block.threads])
def test_shared(module: gs.Module, arrays: tuple[gs.Array, gs.Array], shared: Any) -> None:
    x, y = arrays
    kernel = module["reversed"].with_contract(gs.Contract(extent="n", shared=shared))
    assert refused(kernel, lambda k: k[4, 256](N, x, y, shared=1000), y, "shared") == (
        "reversed breaks its contract (shared): blocks of 256 threads need 1,024 bytes of dynamic shared memory, and the launch gives 1,000; pass "
        "shared=1024, or by reversed.for_each(n)"
    )
    kernel[4, 256](N, x, y, shared=2000)
    kernel.for_each(N, block=256)(N, x, y)
    expected = np.concatenate([x.numpy()[start : start + 256][::-1] for start in range(0, N, 256)])
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_function_that_gives_no_size(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["reversed"].with_contract(gs.Contract(shared=lambda block: -1))
    assert "its function of the block gives no size: shared memory cannot be -1 bytes; let it return bytes" in refused(
        kernel, lambda k: k[4, 256](N, x, y), y, "shared"
    )


# ---- for_each ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contract", "n", "grid", "block"),
    [
        (gs.Contract(extent="n"), 1000, (4, 1, 1), (256, 1, 1)),
        (gs.Contract(extent="n", block=128), 1000, (8, 1, 1), (128, 1, 1)),
        (gs.Contract(extent="n", block=128), 896, (7, 1, 1), (128, 1, 1)),
        (gs.Contract(extent="n", block_multiple_of=96), 1000, (6, 1, 1), (192, 1, 1)),
        (gs.Contract(extent="n"), 1, (1, 1, 1), (256, 1, 1)),
        (gs.Contract(extent="n"), 0, (1, 1, 1), (256, 1, 1)),
    ],
)
def test_for_each(module: gs.Module, arrays: tuple[gs.Array, gs.Array], contract: gs.Contract, n: int, grid: Any, block: Any) -> None:
    x, y = arrays
    kernel = module["copy"].with_contract(contract)
    shape = kernel.for_each(n).command((n, x, y)).shape
    assert (shape.grid, shape.block) == (grid, block)
    kernel.for_each(n)(n, x, y)
    np.testing.assert_array_equal(y.numpy(), np.where(np.arange(N) < n, x.numpy(), 0))
    y.fill(0)
    kernel.for_each()(n, x, y)  # as the arguments say
    np.testing.assert_array_equal(y.numpy(), np.where(np.arange(N) < n, x.numpy(), 0))


def test_for_each_of_an_image(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel = module["image"].with_contract(gs.Contract(extent=("width", "height")))
    # WORKED: 1920 x 1080 in 16 x 16 blocks are 120 x 68
    assert kernel.for_each(block=(16, 16)).dimensions((1920, 1080, x, y))[:2] == ((120, 68, 1), (16, 16, 1))
    shape = kernel.for_each((25, 40)).command((25, 40, x, y)).shape
    assert (shape.grid, shape.block) == ((1, 5, 1), (32, 8, 1))
    kernel.for_each((25, 40))(25, 40, x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize(("n", "block", "blocks"), [(1_000_000, 256, 3907), (10_000, 128, 79), (5_000, 512, 10)])
def test_worked_grids(module: gs.Module, arrays: tuple[gs.Array, gs.Array], n: int, block: int, blocks: int) -> None:
    kernel = module["copy"].with_contract(gs.Contract(extent="n"))
    assert kernel.for_each(n, block=block).dimensions((n, *arrays)) == ((blocks, 1, 1), (block, 1, 1), 0)


def test_for_each_in_streams_graphs_and_lazily(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    kernel, device = module["copy"].with_contract(gs.Contract(extent="n", block=64)), module.device
    stream = device.stream()
    kernel.for_each(10)(10, x, y, stream=stream)
    stream.synchronize()
    graph = device.graph()
    graph.kernel(kernel.for_each(), 20, x, y)
    graph.instantiate().launch()
    kernel.for_each(30).lazy(30, x, y).run()
    np.testing.assert_array_equal(y.numpy(), np.where(np.arange(N) < 30, x.numpy(), 0))
    with pytest.raises(ContractError, match="blocks of 32 threads, and the contract says 64"):
        graph.kernel(kernel[1, 32], 20, x, y)


def test_what_for_each_refuses(module: gs.Module, arrays: tuple[gs.Array, gs.Array]) -> None:
    x, y = arrays
    copy, image = module["copy"].with_contract(gs.Contract(extent="n")), module["image"].with_contract(gs.Contract(extent=("width", "height")))
    assert refused(copy, lambda k: k.for_each(999)(N, x, y), y, "extent") == (
        "copy breaks its contract (extent): for_each was asked for 999 elements, and n is 1,000; pass the same number in both places"
    )
    for attempt, message in (
        (lambda: module["copy"].for_each(5), "copy has no contract, so for_each cannot tell its grid; give it one (docs/contracts.md), or write copy[grid, block](…)"),
        (lambda: module["copy"].with_contract(gs.Contract(block=32)).for_each(5), "the contract of copy has no extent, so for_each cannot tell how many threads it needs"),
        (lambda: copy.for_each("n"), "copy.for_each takes a whole number of elements along each axis, not 'n'"),
        (lambda: copy.for_each(-1), "copy.for_each takes at least 0 elements, not -1"),
        (lambda: image.for_each(5), "image.for_each takes 2 numbers (width, height), not 1"),
    ):
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            attempt()
    with pytest.raises(LaunchError, match="copy takes 3 arguments"):
        copy.for_each(5)(5, x)
