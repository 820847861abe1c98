"""Matrix product with tiles in shared memory, for matrices whose sides are no multiples of the tile."""

import numpy as np
from numba import cuda, float32

TPB = 16


@cuda.jit
def fast_matmul(A, B, C):
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)

    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    tiles = (A.shape[1] + TPB - 1) // TPB

    tmp = float32(0.0)
    for i in range(tiles):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < A.shape[0] and (tx + i * TPB) < A.shape[1]:
            sA[ty, tx] = A[y, tx + i * TPB]
        if x < B.shape[1] and (ty + i * TPB) < B.shape[0]:
            sB[ty, tx] = B[ty + i * TPB, x]
        cuda.syncthreads()

        for j in range(TPB):
            tmp += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()

    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = tmp


def main():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((72, 50), dtype=np.float32)
    B = rng.standard_normal((50, 91), dtype=np.float32)

    d_A = cuda.to_device(A)
    d_B = cuda.to_device(B)
    d_C = cuda.device_array((72, 91), np.float32)

    threads = (TPB, TPB)
    blocks = ((91 + TPB - 1) // TPB, (72 + TPB - 1) // TPB)
    fast_matmul[blocks, threads](d_A, d_B, d_C)

    C = d_C.copy_to_host()
    np.testing.assert_allclose(C, A @ B, rtol=1e-4, atol=1e-4)
    print("matmul: largest error", float(np.abs(C - A @ B).max()) < 1e-4)


if __name__ == "__main__":
    main()
