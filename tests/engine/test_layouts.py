"""Blocks and grids of all shapes: indices, lane numbers, partial warps."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import HEADER, Kernels

BLOCKS = [
    *[(x, y, z) for x in (1, 2, 4, 8, 16, 32, 33, 64, 100) for y, z in ((1, 1), (2, 1), (3, 1), (4, 2), (1, 3), (5, 2)) if x * y * z <= 1024],
    (1, 1, 64), (1, 64, 1), (2, 16, 32), (1024, 1, 1), (32, 32, 1), (1, 1024, 1), (512, 2, 1), (31, 33, 1), (8, 8, 16), (16, 16, 4), (7, 5, 3),
    (16, 2, 1), (16, 7, 2), (4, 4, 4), (3, 3, 3), (1, 32, 2), (2, 2, 2), (160, 1, 1), (160, 2, 3), (96, 3, 1),
]  # fmt: skip
GRIDS = [(1, 1, 1), (5, 1, 1), (2, 3, 1), (1, 2, 3), (3, 2, 2), (1, 1, 7)]

SOURCE = r"""
#define LINEAR int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); \
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); int size = blockDim.x * blockDim.y * blockDim.z; int g = b * size + t;
extern "C" __global__ void indices(int *out) {
    LINEAR
    int *o = out + 16 * (size_t)g;
    o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z; o[3] = blockIdx.x; o[4] = blockIdx.y; o[5] = blockIdx.z;
    o[6] = blockDim.x; o[7] = blockDim.y; o[8] = blockDim.z; o[9] = gridDim.x; o[10] = gridDim.y; o[11] = gridDim.z;
    int r; asm("mov.u32 %0, %%laneid;" : "=r"(r)); o[12] = r;
    o[13] = __activemask();
    asm("mov.u32 %0, %%nwarpid;" : "=r"(r)); o[14] = r >= (size + 31) / 32;
    asm("mov.u32 %0, %%warpid;" : "=r"(r)); o[15] = r;
}
// the address is affine in one, two or three of the thread's coordinates
extern "C" __global__ void volume(const int *in, int *out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    int i = (z * ny + y) * nx + x;
    int right = x + 1 < nx ? in[i + 1] : 0, down = y + 1 < ny ? in[i + nx] : 0, deep = z > 0 ? in[i - nx * ny] : 0;
    out[i] = in[i] * 5 + right * 3 - down + deep * 7;
}
extern "C" __global__ void transposed(const float *in, float *out, int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) out[x * ny + y] = in[y * nx + x];
}
extern "C" __global__ void block_sum(const int *in, int *out) {
    __shared__ int part[1024];
    LINEAR
    part[t] = in[g];
    for (int step = 1; step < size; step *= 2) {
        __syncthreads();
        int other = t + step < size && t % (2 * step) == 0 ? part[t + step] : 0;
        __syncthreads();
        part[t] += other;
    }
    __syncthreads();
    if (t == 0) out[b] = part[0];
}
extern "C" __global__ void lane_masks(unsigned *out) {
    LINEAR
    unsigned *o = out + 5 * g;
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(o[0])); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(o[1])); asm("mov.u32 %0, %%lanemask_le;" : "=r"(o[2]));
    asm("mov.u32 %0, %%lanemask_gt;" : "=r"(o[3])); asm("mov.u32 %0, %%lanemask_ge;" : "=r"(o[4]));
}
extern "C" __global__ void neighbours(const int *in, int *out) {
    LINEAR
    int up = __shfl_up_sync(__activemask(), in[g], 1), sum = __reduce_add_sync(__activemask(), in[g]);
    out[g] = (t & 31 ? up : -1) + sum * 1000;
}
"""
program = Kernels(SOURCE)


def coordinates(extent: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y, z = extent
    linear = np.arange(x * y * z)
    return linear % x, linear // x % y, linear // (x * y)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: "x".join(map(str, b)))
def test_indices(block: tuple[int, int, int]) -> None:
    grid = GRIDS[sum(block) % len(GRIDS)] if np.prod(block) < 200 else (2, 1, 1)
    threads, blocks = int(np.prod(block)), int(np.prod(grid))
    (out,) = program.run("indices", grid, block, np.zeros((blocks, threads, 16), np.int32))
    t = np.arange(threads)
    for axis, index in enumerate(coordinates(block)):
        np.testing.assert_array_equal(out[:, :, axis], np.broadcast_to(index, (blocks, threads)))
    for axis, index in enumerate(coordinates(grid)):
        np.testing.assert_array_equal(out[:, :, 3 + axis], np.broadcast_to(index[:, None], (blocks, threads)))
    assert (out[:, :, 6:12] == (*block, *grid)).all()
    assert (out[:, :, 12] == t % 32).all() and (out[:, :, 14] == 1).all()
    full = np.array([(1 << min(32, threads - warp * 32)) - 1 for warp in range(-(-threads // 32))], np.uint32)
    assert (out[:, :, 13].view(np.uint32) == full[t // 32]).all()
    assert (out[:, :, 15] == t // 32).all()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: "x".join(map(str, b)))
def test_a_guarded_volume(block: tuple[int, int, int]) -> None:
    shape = nz, ny, nx = 3, 11, 45
    grid = tuple(-(-n // b) for n, b in zip((nx, ny, nz), block, strict=True))
    if np.prod(grid) > 300:
        shape = nz, ny, nx = 3, 5, 9
        grid = tuple(-(-n // b) for n, b in zip((nx, ny, nz), block, strict=True))
    data = np.random.default_rng(1).integers(-1000, 1000, shape).astype(np.int32)
    padded = np.pad(data, 1)
    expected = data * 5 + padded[1:-1, 1:-1, 2:] * 3 - padded[1:-1, 2:, 1:-1] + padded[:-2, 1:-1, 1:-1] * 7
    _, out = program.run("volume", grid, block, data, np.zeros(shape, np.int32), nx, ny, nz)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("block", [(1, 1), (2, 8), (4, 4), (8, 32), (16, 16), (32, 8), (32, 32), (33, 3), (100, 2), (5, 7)], ids=str)
def test_a_transposition(block: tuple[int, int]) -> None:
    ny, nx = 37, 70
    data = np.random.default_rng(2).random((ny, nx), np.float32)
    _, out = program.run("transposed", (-(-nx // block[0]), -(-ny // block[1])), block, data, np.zeros((nx, ny), np.float32), nx, ny)
    np.testing.assert_array_equal(out, data.T)


@pytest.mark.parametrize("block", BLOCKS[::3], ids=lambda b: "x".join(map(str, b)))
def test_barriers_in_every_shape(block: tuple[int, int, int]) -> None:
    threads = int(np.prod(block))
    data = np.random.default_rng(3).integers(-1000, 1000, (3, threads)).astype(np.int32)
    _, out = program.run("block_sum", 3, block, data, np.zeros(3, np.int32))
    np.testing.assert_array_equal(out, data.sum(axis=1))


@pytest.mark.parametrize("block", [(32, 1, 1), (8, 4, 1), (7, 5, 3), (1, 64, 1)], ids=lambda b: "x".join(map(str, b)))
def test_lane_masks(block: tuple[int, int, int]) -> None:
    threads = int(np.prod(block))
    (out,) = program.run("lane_masks", 1, block, np.zeros((threads, 5), np.uint32))
    lane = np.arange(threads) % 32
    eq = np.uint32(1) << lane.astype(np.uint32)
    lt = eq - np.uint32(1)
    np.testing.assert_array_equal(out, np.stack([eq, lt, lt | eq, ~(lt | eq), ~lt], axis=1))


@pytest.mark.parametrize("block", BLOCKS[::4], ids=lambda b: "x".join(map(str, b)))
def test_lanes_of_a_partial_warp(block: tuple[int, int, int]) -> None:
    threads = int(np.prod(block))
    data = np.random.default_rng(4).integers(-1000, 1000, threads).astype(np.int32)
    _, out = program.run("neighbours", 1, block, data, np.zeros(threads, np.int32))
    t = np.arange(threads)
    sums = np.add.reduceat(data, np.arange(0, threads, 32))[t // 32]
    np.testing.assert_array_equal(out, np.where(t & 31, np.roll(data, 1), -1) + sums * 1000)


CLOCKS = Kernels(
    HEADER
    + """
.visible .entry clocks(.param .u64 out_) {
  .reg .u64 %o, %c<9>; .reg .u32 %k<4>, %t; .reg .pred %p<9>;
  ld.param.u64 %o, [out_]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o;
  mov.u64 %c1, %clock64; mov.u64 %c3, %globaltimer; mov.u32 %k1, %clock;
  mov.u32 %k3, 0;
LOOP: add.u32 %k3, %k3, 1; setp.lt.u32 %p1, %k3, 100; @%p1 bra LOOP;
  mov.u64 %c2, %clock64; mov.u64 %c4, %globaltimer; mov.u32 %k2, %clock;
  setp.gt.u64 %p2, %c2, %c1; setp.ge.u64 %p3, %c4, %c3; setp.gt.u32 %p4, %k2, %k1; and.pred %p2, %p2, %p3; and.pred %p2, %p2, %p4;
  selp.u32 %t, 1, 0, %p2; st.global.u32 [%o], %t; ret; }
"""
)


def test_clocks_go_forward() -> None:
    CLOCKS.each("clocks", 2, 64, np.zeros(64, np.int32), check=lambda outputs: np.testing.assert_array_equal(outputs[0], 1))
