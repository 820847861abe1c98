"""Sums and maxima in several ways: warp shuffles and a shared array, @cuda.reduce, atomics, votes."""

import numpy as np
from numba import cuda, float64, int32

BLOCK = 128
WARPS = BLOCK // 32


@cuda.jit
def block_sums(x, sums):
    partial = cuda.shared.array(WARPS, float64)
    t = cuda.threadIdx.x
    value = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value += x[i]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if cuda.laneid == 0:
        partial[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = 0.0
        for w in range(WARPS):
            total += partial[w]
        cuda.atomic.add(sums, 0, total)


@cuda.jit
def count_positive(x, out):
    """The threads of each warp that have a positive element, by a vote; one addition a warp."""
    i = cuda.grid(1)
    positive = i < x.size and x[min(i, x.size - 1)] > 0
    mask = cuda.ballot_sync(0xFFFFFFFF, positive)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, int32(cuda.popc(mask)))


@cuda.reduce
def sum_reduce(a, b):
    return a + b


largest = cuda.reduce(lambda a, b: max(a, b))


def main():
    rng = np.random.default_rng(14)
    x = rng.standard_normal(5000)
    d_x = cuda.to_device(x)

    sums = np.zeros(1)
    block_sums[6, BLOCK](d_x, sums)
    np.testing.assert_allclose(sums[0], x.sum(), rtol=1e-10)

    count = np.zeros(1, np.int32)
    count_positive[(x.size + BLOCK - 1) // BLOCK, BLOCK](d_x, count)
    assert count[0] == (x > 0).sum()

    np.testing.assert_allclose(sum_reduce(x), x.sum(), rtol=1e-10)
    np.testing.assert_allclose(sum_reduce(d_x, init=5.0), x.sum() + 5.0, rtol=1e-10)
    assert largest(d_x) == x.max()
    print("reductions:", int(count[0]), "of", x.size, "positive")


if __name__ == "__main__":
    main()
