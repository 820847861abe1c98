"""Histograms: minimum and maximum by atomics, then bins private to each block, added up at its end."""

import numpy as np
from numba import cuda, int32

BINS = 32


@cuda.jit
def min_max(x, result):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    low, high = x[start % x.size], x[start % x.size]
    for i in range(start, x.size, stride):
        low = min(low, x[i])
        high = max(high, x[i])
    cuda.atomic.min(result, 0, low)
    cuda.atomic.max(result, 1, high)


@cuda.jit
def histogram(x, low, high, counts):
    private = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        private[t] = 0
    cuda.syncthreads()
    width = (high - low) / BINS
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        number = int32((x[i] - low) / width)
        if 0 <= number < BINS:
            cuda.atomic.add(private, number, 1)
        elif x[i] == high:
            cuda.atomic.add(private, BINS - 1, 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(counts, t, private[t])


def main():
    rng = np.random.default_rng(4)
    x = rng.normal(0, 2, 10000)
    d_x = cuda.to_device(x)

    d_range = cuda.to_device(np.array([np.inf, -np.inf]))
    min_max[8, 128](d_x, d_range)
    low, high = d_range.copy_to_host()
    assert (low, high) == (x.min(), x.max())

    counts = np.zeros(BINS, np.int32)
    histogram[8, 128](d_x, low, high, counts)
    wanted = np.clip(((x - low) / ((high - low) / BINS)).astype(int), 0, BINS - 1)
    assert np.array_equal(counts, np.bincount(wanted, minlength=BINS)), counts
    print("histogram: fullest bin has", int(counts.max()))


if __name__ == "__main__":
    main()
