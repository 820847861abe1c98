"""Two-dimensional convolution of a batch of images with a mask, on arrays of four dimensions and on ones in column-major order."""

import numpy as np
from numba import cuda


@cuda.jit
def convolve(images, masks, out):
    """out[n, f] = the correlation of all channels of image n with those of mask f, where the mask fits."""
    x, y, z = cuda.grid(3)
    if x >= out.shape[3] or y >= out.shape[2] or z >= out.shape[0] * out.shape[1]:
        return
    n = z // out.shape[1]
    f = z % out.shape[1]
    total = 0.0
    for c in range(images.shape[1]):
        for i in range(masks.shape[2]):
            for j in range(masks.shape[3]):
                total += images[n, c, y + i, x + j] * masks[f, c, i, j]
    out[n, f, y, x] = total


def main():
    rng = np.random.default_rng(13)
    images = rng.standard_normal((2, 3, 20, 26))
    masks = rng.standard_normal((4, 3, 3, 5))
    shape = (2, 4, 18, 22)

    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 5), axis=(2, 3))
    wanted = np.einsum("ncyxij,fcij->nfyx", windows, masks)

    blocks = ((shape[3] + 7) // 8, (shape[2] + 7) // 8, (shape[0] * shape[1] + 3) // 4)
    for order in ("C", "F"):
        out = np.zeros(shape, order=order)
        convolve[blocks, (8, 8, 4)](np.asarray(images, order=order), np.asarray(masks, order=order), out)
        np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)
    print("convolution:", shape)


if __name__ == "__main__":
    main()
