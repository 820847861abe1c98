"""Pi by Monte Carlo: a random state for each thread."""

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32


@cuda.jit
def compute_pi(rng_states, iterations, out):
    thread_id = cuda.grid(1)

    inside = 0
    for _ in range(iterations):
        x = xoroshiro128p_uniform_float32(rng_states, thread_id)
        y = xoroshiro128p_uniform_float32(rng_states, thread_id)
        if x**2 + y**2 <= 1.0:
            inside += 1

    out[thread_id] = 4.0 * inside / iterations


def main():
    threads_per_block = 64
    blocks = 24
    rng_states = create_xoroshiro128p_states(threads_per_block * blocks, seed=1)
    out = np.zeros(threads_per_block * blocks, dtype=np.float32)

    compute_pi[blocks, threads_per_block](rng_states, 500, out)
    # 768,000 points: the standard error of the mean is 0.0019
    assert abs(out.mean() - np.pi) < 0.01, out.mean()
    # every thread has its own sequence
    assert len(np.unique(out)) > 20
    print("pi is near", round(float(out.mean()), 1))


if __name__ == "__main__":
    main()
