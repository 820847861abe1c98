"""k-means: the nearest centre of each point, then new centres by atomics."""

import numpy as np
from numba import cuda

K = 4


@cuda.jit
def assign(points, centres, labels):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    best = 0
    nearest = np.inf
    for c in range(centres.shape[0]):
        distance = 0.0
        for k in range(points.shape[1]):
            step = points[i, k] - centres[c, k]
            distance += step * step
        if distance < nearest:
            nearest = distance
            best = c
    labels[i] = best


@cuda.jit
def add_up(points, labels, sums, counts):
    i = cuda.grid(1)
    if i < points.shape[0]:
        c = labels[i]
        cuda.atomic.add(counts, c, 1)
        for k in range(points.shape[1]):
            cuda.atomic.add(sums, (c, k), points[i, k])


@cuda.jit
def new_centres(sums, counts, centres):
    c, k = cuda.grid(2)
    if c < centres.shape[0] and k < centres.shape[1] and counts[c] > 0:
        centres[c, k] = sums[c, k] / counts[c]


def main():
    rng = np.random.default_rng(12)
    middles = np.array([[0.0, 0.0], [5.0, 5.0], [0.0, 6.0], [7.0, -1.0]])
    points = np.concatenate([rng.normal(middle, 0.5, (150, 2)) for middle in middles])
    start = points[[0, 150, 300, 450]] + 0.3

    d_points, d_centres = cuda.to_device(points), cuda.to_device(start)
    d_labels = cuda.device_array(len(points), np.int32)
    blocks = (len(points) + 127) // 128
    for _ in range(6):
        d_sums, d_counts = cuda.to_device(np.zeros((K, 2))), cuda.to_device(np.zeros(K, np.int32))
        assign[blocks, 128](d_points, d_centres, d_labels)
        add_up[blocks, 128](d_points, d_labels, d_sums, d_counts)
        new_centres[(1, 1), (K, 2)](d_sums, d_counts, d_centres)

    centres, labels = start, None
    for _ in range(6):
        labels = ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
        centres = np.array([points[labels == c].mean(0) for c in range(K)])
    assert np.array_equal(d_labels.copy_to_host(), labels)
    np.testing.assert_allclose(d_centres.copy_to_host(), centres, rtol=1e-10)
    print("k-means: points of each centre", np.bincount(labels).tolist())


if __name__ == "__main__":
    main()
