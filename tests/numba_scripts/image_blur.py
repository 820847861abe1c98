"""Gaussian blur of an image in two passes: the weights in constant memory, rows of the image in dynamic shared memory."""

import numpy as np
from numba import cuda, float32

RADIUS = 2
_x = np.arange(-RADIUS, RADIUS + 1)
WEIGHTS = (np.exp(-(_x**2) / 2) / np.exp(-(_x**2) / 2).sum()).astype(np.float32)
BLOCK = 64


@cuda.jit
def blur_rows(image, out):
    weights = cuda.const.array_like(WEIGHTS)
    row = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    x = cuda.grid(1)
    y = cuda.blockIdx.y
    width = image.shape[1]
    for k in range(t, cuda.blockDim.x + 2 * RADIUS, cuda.blockDim.x):
        source = cuda.blockIdx.x * cuda.blockDim.x + k - RADIUS
        row[k] = image[y, min(max(source, 0), width - 1)]
    cuda.syncthreads()
    if x < width:
        total = float32(0.0)
        for k in range(2 * RADIUS + 1):
            total += weights[k] * row[t + k]
        out[y, x] = total


@cuda.jit
def blur_columns(image, out):
    weights = cuda.const.array_like(WEIGHTS)
    x, y = cuda.grid(2)
    height, width = image.shape
    if x < width and y < height:
        total = float32(0.0)
        for k in range(-RADIUS, RADIUS + 1):
            total += weights[k + RADIUS] * image[min(max(y + k, 0), height - 1), x]
        out[y, x] = total


def main():
    rng = np.random.default_rng(6)
    image = rng.random((45, 150), dtype=np.float32) * 255
    height, width = image.shape

    d_image = cuda.to_device(image)
    d_rows = cuda.device_array_like(image)
    d_out = cuda.device_array_like(image)
    blur_rows[((width + BLOCK - 1) // BLOCK, height), BLOCK, 0, (BLOCK + 2 * RADIUS) * 4](d_image, d_rows)
    blur_columns[((width + 15) // 16, (height + 15) // 16), (16, 16)](d_rows, d_out)

    padded = np.pad(image.astype(np.float64), ((0, 0), (RADIUS, RADIUS)), "edge")
    rows = sum(w * padded[:, k : k + width] for k, w in enumerate(WEIGHTS))
    padded = np.pad(rows, ((RADIUS, RADIUS), (0, 0)), "edge")
    wanted = sum(w * padded[k : k + height] for k, w in enumerate(WEIGHTS))
    np.testing.assert_allclose(d_out.copy_to_host(), wanted, rtol=1e-5)
    print("blur: mean", round(float(wanted.mean()), 1))


if __name__ == "__main__":
    main()
