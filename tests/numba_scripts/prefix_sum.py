"""Prefix sums of any length: Blelloch's scan in each block, a scan of the blocks' sums, and their addition."""

import numpy as np
from numba import cuda, int64

BLOCK = 64
ITEMS = 2 * BLOCK


@cuda.jit
def scan_blocks(data, sums):
    temp = cuda.shared.array(ITEMS, int64)
    t = cuda.threadIdx.x
    base = cuda.blockIdx.x * ITEMS
    for k in range(t, ITEMS, BLOCK):
        temp[k] = data[base + k] if base + k < data.size else 0

    offset = 1
    d = BLOCK
    while d > 0:
        cuda.syncthreads()
        if t < d:
            temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1]
        offset *= 2
        d //= 2

    cuda.syncthreads()
    if t == 0:
        sums[cuda.blockIdx.x] = temp[ITEMS - 1]
        temp[ITEMS - 1] = 0

    d = 1
    while d < ITEMS:
        offset //= 2
        cuda.syncthreads()
        if t < d:
            left = offset * (2 * t + 1) - 1
            right = offset * (2 * t + 2) - 1
            kept = temp[left]
            temp[left] = temp[right]
            temp[right] += kept
        d *= 2

    cuda.syncthreads()
    for k in range(t, ITEMS, BLOCK):
        if base + k < data.size:
            data[base + k] = temp[k]


@cuda.jit
def add_sums(data, sums):
    i = cuda.grid(1)
    if i < data.size:
        data[i] += sums[i // ITEMS]


def exclusive_scan(d_data):
    blocks = (d_data.size + ITEMS - 1) // ITEMS
    d_sums = cuda.device_array(blocks, d_data.dtype)
    scan_blocks[blocks, BLOCK](d_data, d_sums)
    if blocks > 1:
        exclusive_scan(d_sums)
        add_sums.forall(d_data.size)(d_data, d_sums)


def main():
    rng = np.random.default_rng(2)
    for n in (1, 100, ITEMS, 1000, ITEMS * ITEMS + 5):
        values = rng.integers(-50, 50, n)
        d_values = cuda.to_device(values)
        exclusive_scan(d_values)
        assert np.array_equal(d_values.copy_to_host(), np.cumsum(values) - values), n
    print("prefix sums: all lengths right")


if __name__ == "__main__":
    main()
