"""Universal functions on the GPU: broadcasting, device arrays in and out, and a generalised one over vectors."""

import math

import numpy as np
from numba import cuda, float32, guvectorize, int64, vectorize


@vectorize([float32(float32, float32), int64(int64, int64)], target="cuda")
def add(x, y):
    return x + y


@vectorize(["float64(float64, float64)"], target="cuda")
def polar_distance(r, phi):
    return math.hypot(r * math.cos(phi) - 1.0, r * math.sin(phi))


@guvectorize(["void(float64[:,:], float64[:], float64[:])"], "(m,n),(n)->(m)", target="cuda")
def matvec(matrix, vector, out):
    for i in range(matrix.shape[0]):
        total = 0.0
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * vector[j]
        out[i] = total


def main():
    rng = np.random.default_rng(15)
    a, b = rng.random((20, 30), dtype=np.float32), rng.random((1, 30), dtype=np.float32)
    assert np.array_equal(add(a, b), a + b)
    assert np.array_equal(add(np.arange(100), np.arange(100)), 2 * np.arange(100))

    r, phi = rng.random(500), rng.random(500)
    d_r, d_phi, d_out = cuda.to_device(r), cuda.to_device(phi), cuda.device_array(500)
    polar_distance(d_r, d_phi, out=d_out)
    np.testing.assert_allclose(d_out.copy_to_host(), np.hypot(r * np.cos(phi) - 1, r * np.sin(phi)), rtol=1e-12)

    matrices, vectors = rng.random((40, 5, 7)), rng.random((40, 7))
    np.testing.assert_allclose(matvec(matrices, vectors), np.einsum("kij,kj->ki", matrices, vectors), rtol=1e-12)
    print("ufuncs: all right")


if __name__ == "__main__":
    main()
