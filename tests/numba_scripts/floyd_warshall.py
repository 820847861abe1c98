"""Shortest paths between all pairs of nodes, and the transposes, slices and shapes of device arrays."""

import numpy as np
from numba import cuda, njit


@cuda.jit
def relax(distance, k):
    i, j = cuda.grid(2)
    if i < distance.shape[0] and j < distance.shape[1]:
        through = distance[i, k] + distance[k, j]
        if through < distance[i, j]:
            distance[i, j] = through


@njit
def on_the_cpu(distance):
    n = distance.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                distance[i, j] = min(distance[i, j], distance[i, k] + distance[k, j])


def main():
    rng = np.random.default_rng(17)
    n = 40
    distance = np.where(rng.random((n, n)) < 0.15, rng.integers(1, 20, (n, n)), 10000)
    np.fill_diagonal(distance, 0)
    wanted = distance.copy()
    on_the_cpu(wanted)

    d_distance = cuda.to_device(distance)
    for k in range(n):
        relax[(5, 5), (8, 8)](d_distance, k)
    found = d_distance.copy_to_host()
    assert np.array_equal(found, wanted)

    assert np.array_equal(d_distance.T.copy_to_host(), wanted.T)
    assert np.array_equal(d_distance[3:7].copy_to_host(), wanted[3:7])
    assert np.array_equal(d_distance.ravel()[::1].copy_to_host(), wanted.ravel())
    assert np.array_equal(d_distance.reshape(n // 2, 2 * n).copy_to_host(), wanted.reshape(n // 2, 2 * n))
    assert d_distance[2, 3] == wanted[2, 3]
    d_distance[:, 0] = -1
    assert (d_distance.copy_to_host()[:, 0] == -1).all()
    print("paths: longest", int(wanted[wanted < 10000].max()))


if __name__ == "__main__":
    main()
