"""Launches in dimensions that a kernel never looks at, and grids that end before their data."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.observers.checks.launch_shape import IndexUse, duplicate_work, index_use, tail_left_out
from gridstride.ptx.parser import parse

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" {
__global__ void row(const float* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = a[i]; }
__global__ void row_stride(const float* a, float* b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) b[i] = a[i];
}
__global__ void plane(float* b, int w) { b[(blockIdx.y * blockDim.y + threadIdx.y) * w + blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void plane_without_block_y(float* b, int w) { atomicAdd(&b[threadIdx.y * w + blockIdx.x * blockDim.x + threadIdx.x], 1.0f); }
__global__ void arrive(int* count) { if (threadIdx.x == 0) atomicAdd(count, 1); }
__global__ void no_index(int* count) { atomicAdd(count, 1); }
__global__ void tickets(int* next, float* b, int n) {
    __shared__ int mine;
    if (threadIdx.x == 0) mine = atomicAdd(next, 1);
    __syncthreads();
    int i = mine * blockDim.x + threadIdx.x;
    if (i < n) b[i] = blockIdx.z;
}
__global__ void ranks(float* b) { b[cg::this_grid().thread_rank()] = 1; }
__device__ __noinline__ int helper() { return threadIdx.y; }
__global__ void through_a_function(float* b) { b[threadIdx.x + 32 * helper()] = 1; }
__global__ void lanes(float* b) { int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); atomicAdd(&b[lane], 1.0f); }
}
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def warning(module: gs.Module, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> str | None:
    found = duplicate_work(index_use(module.program.module, kernel), kernel, grid, block)  # type: ignore[attr-defined]
    assert found is None or (found.code, found.severity) == ("GS501", "warning")
    return None if found is None else found.message


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "blind", "times"),
    [
        ("row", (4, 1, 1), (32, 8, 1), "threadIdx.y (8 threads)", "8"),
        ("row", (2, 2, 1), (32, 8, 1), "threadIdx.y (8 threads) and blockIdx.y (2 blocks)", "16"),
        ("row", (4, 1, 3), (32, 1, 2), "threadIdx.z (2 threads) and blockIdx.z (3 blocks)", "6"),
        ("row_stride", (4, 2, 1), (32, 1, 1), "blockIdx.y (2 blocks)", "2"),
        ("plane_without_block_y", (2, 2, 1), (8, 8, 1), "blockIdx.y (2 blocks)", "2"),
    ],
)
def test_dimensions_that_a_kernel_never_looks_at(
    module: gs.Module, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], blind: str, times: str
) -> None:
    message = warning(module, kernel, grid, block)
    assert message is not None
    assert f"never looks at {blind}: launched with" in message and message.endswith(f"the same work is done {times} times")


@pytest.mark.parametrize(
    ("kernel", "grid", "block"),
    [
        ("row", (4, 1, 1), (256, 1, 1)),
        ("plane", (4, 4, 1), (16, 16, 1)),
        ("arrive", (64, 1, 1), (64, 1, 1)),  # every block arrives
        ("no_index", (4, 4, 1), (8, 8, 1)),  # everybody counts
        ("tickets", (64, 1, 2), (64, 1, 1)),  # blocks draw their work
        ("ranks", (4, 4, 4), (4, 4, 4)),
        ("through_a_function", (1, 1, 1), (32, 4, 1)),
        ("lanes", (1, 1, 1), (8, 8, 1)),
    ],
)
def test_kernels_that_do_no_work_twice(module: gs.Module, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    assert warning(module, kernel, grid, block) is None


def test_what_a_kernel_reads_comes_from_all_functions_it_calls() -> None:
    text = """.version 8.0
.target sm_80
.address_size 64
.func inner() { .reg .b32 %r; mov.u32 %r, %ctaid.z; ret; }
.func outer() { call inner, (); ret; }
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %a;
    call outer, ();
    mov.u32 %r1, %tid.x;
    ld.param.u64 %a, [p];
    atom.global.add.u32 %r2, [%a], 1;
    st.global.u32 [%a+4], %r2;
    ret;
}
.visible .entry unused(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %a;
    ld.param.u64 %a, [p];
    atom.global.add.u32 %r2, [%a], 1;
    ret;
}
"""
    module = parse(text)
    assert index_use(module, "k") == IndexUse(frozenset({"%ctaid.z", "%tid.x"}), tickets=True)
    assert index_use(module, "unused") == IndexUse(frozenset(), tickets=False)


def test_a_grid_that_was_rounded_down(module: gs.Module) -> None:
    device = module.device
    a = device.array(np.ones(1000, np.float32))
    b = device.empty(1000)
    with gs.checking() as findings:
        module["row"][3, 256](a, b, 1000)
        b.numpy()
    assert [(f.kind, f.severity) for f in findings] == [("uninitialised", "error"), ("launch-shape", "warning")]
    assert findings[0].message == "the host reads `b`, but its last 232 of 1,000 elements were never written"
    assert findings[1].message == (
        "the grid ends before `b` does: 3 blocks of 256 threads are 768, and its last 232 of 1,000 elements stay unwritten"
    )
    assert findings[1].advice.startswith("round the number of blocks up: 4 blocks")
    c = device.empty(1000)
    with gs.checking() as clean:
        module["row_stride"][3, 256](a, c, 1000)
        c.numpy()
    assert list(clean) == []


def test_a_tail_that_begins_elsewhere_is_not_the_grids_fault() -> None:
    use = IndexUse(frozenset({"%tid.x", "%ctaid.x"}), False)
    assert tail_left_out(use, "k", (3, 1, 1), (256, 1, 1), "b", 1000, 700) is None
    assert tail_left_out(use, "k", (3, 1, 1), (256, 1, 1), "b", 1000, 768) is not None
    goes_on = IndexUse(frozenset({"%tid.x", "%ctaid.x", "%nctaid.x"}), False)
    assert tail_left_out(goes_on, "k", (3, 1, 1), (256, 1, 1), "b", 1000, 768) is None


def test_limits_exceeded_are_an_error(module: gs.Module) -> None:
    b = module.device.zeros(16)
    with gs.checking() as findings, pytest.raises(gs.LaunchError):
        module["plane"][1, (64, 64)](b, 1)
    (found,) = findings
    assert (found.code, found.severity) == ("GS501", "error")
    assert found.message.startswith("a block of 64 × 64 = 4,096 threads is too large")
    assert not findings.passed


PREFILLED = r"""
extern "C" {
__global__ void twice(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void twice_bytes(unsigned char* x, unsigned n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void twice_doubles(double* x, size_t n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void smooth(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i > 0 && i < n - 1) b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
}
__global__ void image(unsigned char* x, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; if (c < w && r < h) x[r * w + c] ^= 255;
}
__global__ void flip(const float* a, float* b, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; if (c < w && r < h) b[c * h + r] = a[r * w + c];
}
__global__ void rest(float* x, int from, int n) { int i = from + threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void first(float* x, int m) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < m) x[i] *= 2; }
__global__ void two_each(float* x, int n) {
    for (int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x), k = 0; k < 2; k++) if (i + k < n) x[i + k] *= 2;
}
}
"""
W, H = 100, 60


@pytest.fixture(scope="module")
def prefilled() -> gs.Module:
    return gs.device("sim").compile(PREFILLED)


def tails(module: gs.Module, kernel: str, grid: object, block: object, *arguments: object, output: int = 0, then: bool = False) -> list[str]:
    device = module.device
    arrays = [device.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with gs.checking() as findings:
        module[kernel][grid, block](*arrays)
        if then:
            module["rest"][1, 256](arrays[output], 768, 1000)
        arrays[output].numpy()  # type: ignore[union-attr]
    assert all((f.code, f.severity) == ("GS501", "warning") for f in findings)
    return [f.message for f in findings]


def ones(count: int, dtype: object = np.float32) -> np.ndarray:
    return np.ones(count, dtype)


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "arguments", "output", "message"),
    [
        ("twice", 3, 256, (ones(1000), 1000), 0, "the grid ends before `x` does: 3 blocks of 256 threads are 768, and its last 232 of 1,000 elements keep what was there before"),
        ("twice_bytes", 3, 256, (ones(1000, np.uint8), 1000), 0, "3 blocks of 256 threads are 768, and its last 232 of 1,000"),
        ("twice_doubles", 3, 256, (ones(1000, np.float64), 1000), 0, "3 blocks of 256 threads are 768, and its last 232 of 1,000"),
        ("smooth", 3, 256, (ones(1000), ones(1000), 1000), 1, "3 blocks of 256 threads are 768, and its last 232 of 1,000"),
        ("image", (W // 16, H // 16), (16, 16), (ones(W * H, np.uint8), W, H), 0, "6 × 3 blocks of 16 × 16 threads reach 96 × 48 of its 100 × 60 elements, and the rest keeps"),
        ("image", (W // 16, -(-H // 16)), (16, 16), (ones(W * H, np.uint8), W, H), 0, "6 × 4 blocks of 16 × 16 threads reach 96 × 60 of its 100 × 60 elements"),
        ("image", (-(-W // 16), H // 16), (16, 16), (ones(W * H, np.uint8), W, H), 0, "7 × 3 blocks of 16 × 16 threads reach 100 × 48 of its 100 × 60 elements"),
    ],
)  # fmt: skip
def test_a_rounded_down_grid_over_an_output_that_was_filled_before(
    prefilled: gs.Module, kernel: str, grid: object, block: object, arguments: tuple[object, ...], output: int, message: str
) -> None:
    (said,) = tails(prefilled, kernel, grid, block, *arguments, output=output)
    assert message in said


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "arguments", "output"),
    [
        ("twice", 4, 256, (ones(1000), 1000), 0),
        ("twice", 2, 256, (ones(1000), 1000), 0),  # a whole block and more is left: no rounding
        ("first", 3, 256, (ones(1000), 768), 0),  # it was told to
        ("two_each", 3, 128, (ones(1000), 1000), 0),  # not an element a thread
        ("smooth", 4, 256, (ones(1000), ones(1000), 1000), 1),
        ("smooth", 4, 256, (ones(1024), ones(1024), 1024), 1),
        ("image", (-(-W // 16), -(-H // 16)), (16, 16), (ones(W * H, np.uint8), W, H), 0),
        ("flip", (-(-W // 16), -(-H // 16)), (16, 16), (ones(W * H), ones(W * H), W, H), 1),
    ],
)
def test_grids_that_leave_nothing_out(prefilled: gs.Module, kernel: str, grid: object, block: object, arguments: tuple[object, ...], output: int) -> None:
    assert tails(prefilled, kernel, grid, block, *arguments, output=output) == []


def test_a_tail_that_another_launch_completes(prefilled: gs.Module) -> None:
    assert tails(prefilled, "twice", 3, 256, ones(1000), 1000, then=True) == []
