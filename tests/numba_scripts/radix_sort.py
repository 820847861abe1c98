"""Radix sort of 32-bit keys, four bits at a time: count digits in each block, scan the counts, scatter."""

import numpy as np
from numba import cuda, int32

BITS = 4
RADIX = 1 << BITS
BLOCK = 128


@cuda.jit
def count_digits(keys, shift, counts):
    """counts[digit, block]: how often a digit is in a block."""
    local = cuda.shared.array(RADIX, int32)
    t = cuda.threadIdx.x
    if t < RADIX:
        local[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(local, (keys[i] >> shift) & (RADIX - 1), 1)
    cuda.syncthreads()
    if t < RADIX:
        counts[t, cuda.blockIdx.x] = local[t]


@cuda.jit
def exclusive_scan(values):
    """One block scans all counts in place."""
    sums = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    flat = values.reshape(values.size)
    part = (flat.size + BLOCK - 1) // BLOCK
    begin = min(t * part, flat.size)
    end = min(begin + part, flat.size)
    total = 0
    for i in range(begin, end):
        total += flat[i]
    sums[t] = total
    cuda.syncthreads()
    offset = 1
    while offset < BLOCK:
        other = sums[t - offset] if t >= offset else 0
        cuda.syncthreads()
        sums[t] += other
        cuda.syncthreads()
        offset *= 2
    running = sums[t] - total
    for i in range(begin, end):
        value = flat[i]
        flat[i] = running
        running += value


@cuda.jit
def scatter(keys, shift, starts, out):
    """Each key goes behind the equal digits before it: in earlier blocks (starts) and in its own."""
    digits = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    digit = int32(-1)
    if i < keys.size:
        digit = int32((keys[i] >> shift) & (RADIX - 1))
    digits[t] = digit
    cuda.syncthreads()
    if i < keys.size:
        before = 0
        for j in range(t):
            if digits[j] == digit:
                before += 1
        out[starts[digit, cuda.blockIdx.x] + before] = keys[i]


def main():
    rng = np.random.default_rng(11)
    keys = rng.integers(0, 1 << 32, 1500, dtype=np.uint32)
    blocks = (keys.size + BLOCK - 1) // BLOCK

    d_keys, d_other = cuda.to_device(keys), cuda.device_array_like(keys)
    d_counts = cuda.device_array((RADIX, blocks), np.int32)
    for shift in range(0, 32, BITS):
        count_digits[blocks, BLOCK](d_keys, shift, d_counts)
        exclusive_scan[1, BLOCK](d_counts)
        scatter[blocks, BLOCK](d_keys, shift, d_counts, d_other)
        d_keys, d_other = d_other, d_keys

    assert np.array_equal(d_keys.copy_to_host(), np.sort(keys))
    print("radix sort:", keys.size, "keys in order")


if __name__ == "__main__":
    main()
