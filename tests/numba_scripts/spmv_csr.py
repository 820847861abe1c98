"""Sparse matrix times vector in CSR form: a thread a row, and a warp a row with shuffles."""

import numpy as np
from numba import cuda, float32


@cuda.jit
def spmv_scalar(indptr, indices, data, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = float32(0.0)
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * x[indices[k]]
        y[row] = total


@cuda.jit
def spmv_vector(indptr, indices, data, x, y):
    thread = cuda.grid(1)
    row = thread // 32
    lane = thread % 32
    if row < y.size:
        total = float32(0.0)
        for k in range(indptr[row] + lane, indptr[row + 1], 32):
            total += data[k] * x[indices[k]]
        offset = 16
        while offset > 0:
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, offset)
            offset //= 2
        if lane == 0:
            y[row] = total


def main():
    rng = np.random.default_rng(5)
    rows, cols = 200, 170
    dense = np.where(rng.random((rows, cols)) < 0.15, rng.standard_normal((rows, cols)), 0).astype(np.float32)
    dense[17] = 0  # a row with nothing in it
    row_of, indices = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))]).astype(np.int32)
    data, indices = dense[row_of, indices], indices.astype(np.int32)
    x = rng.standard_normal(cols).astype(np.float32)
    wanted = dense.astype(np.float64) @ x

    arrays = [cuda.to_device(array) for array in (indptr, indices, data, x)]
    d_y = cuda.device_array(rows, np.float32)
    spmv_scalar[(rows + 63) // 64, 64](*arrays, d_y)
    np.testing.assert_allclose(d_y.copy_to_host(), wanted, rtol=1e-4, atol=1e-4)

    d_y = cuda.device_array(rows, np.float32)
    spmv_vector[(rows * 32 + 127) // 128, 128](*arrays, d_y)
    np.testing.assert_allclose(d_y.copy_to_host(), wanted, rtol=1e-4, atol=1e-4)
    print("spmv:", data.size, "entries in", rows, "rows")


if __name__ == "__main__":
    main()
