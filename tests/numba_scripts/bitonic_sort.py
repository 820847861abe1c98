"""Bitonic sort: a launch for each step of the network, the narrow steps together in shared memory."""

import numpy as np
from numba import cuda, float32

BLOCK = 128


@cuda.jit
def wide_step(values, j, k):
    i = cuda.grid(1)
    partner = i ^ j
    if partner > i:
        first, second = values[i], values[partner]
        if ((i & k) == 0) == (first > second):
            values[i] = second
            values[partner] = first


@cuda.jit
def narrow_steps(values, j, k):
    part = cuda.shared.array(BLOCK, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    part[t] = values[i]
    cuda.syncthreads()
    while j > 0:
        partner = t ^ j
        if partner > t:
            first, second = part[t], part[partner]
            if ((i & k) == 0) == (first > second):
                part[t] = second
                part[partner] = first
        cuda.syncthreads()
        j //= 2
    values[i] = part[t]


def bitonic_sort(d_values):
    n = d_values.size
    blocks = n // BLOCK
    k = 2
    while k <= n:
        j = k // 2
        while j >= BLOCK:
            wide_step[blocks, BLOCK](d_values, j, k)
            j //= 2
        narrow_steps[blocks, BLOCK](d_values, j, k)
        k *= 2


def main():
    rng = np.random.default_rng(9)
    values = rng.standard_normal(1024).astype(np.float32)
    d_values = cuda.to_device(values)
    bitonic_sort(d_values)
    assert np.array_equal(d_values.copy_to_host(), np.sort(values))
    print("bitonic sort: smallest", round(float(values.min()), 2), "largest", round(float(values.max()), 2))


if __name__ == "__main__":
    main()
