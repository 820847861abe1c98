"""Heat in a plate and in a rod: an explicit step a launch for the plate, and all steps in one cooperative launch for the rod."""

import numpy as np
from numba import cuda

ALPHA = 0.2


@cuda.jit
def plate_step(u, u_next):
    y, x = cuda.grid(2)
    height, width = u.shape
    if 0 < y < height - 1 and 0 < x < width - 1:
        u_next[y, x] = u[y, x] + ALPHA * (u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1] - 4.0 * u[y, x])


@cuda.jit
def rod(buf_0, buf_1, timesteps):
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    data, following = buf_0, buf_1
    for step in range(timesteps):
        if (step % 2) == 0:
            data, following = buf_0, buf_1
        else:
            data, following = buf_1, buf_0
        if 0 < i < data.size - 1:
            following[i] = data[i] + ALPHA * (data[i - 1] - 2.0 * data[i] + data[i + 1])
        grid.sync()


def main():
    plate = np.zeros((40, 52))
    plate[0] = 100.0
    plate[:, 0] = 30.0
    d_now, d_next = cuda.to_device(plate), cuda.to_device(plate)
    wanted = plate.copy()
    for _ in range(30):
        plate_step[(5, 7), (8, 8)](d_now, d_next)
        d_now, d_next = d_next, d_now
        middle = wanted[1:-1, 1:-1]
        around = wanted[:-2, 1:-1] + wanted[2:, 1:-1] + wanted[1:-1, :-2] + wanted[1:-1, 2:]
        wanted[1:-1, 1:-1] = middle + ALPHA * (around - 4.0 * middle)
    np.testing.assert_allclose(d_now.copy_to_host(), wanted, rtol=1e-12, atol=1e-12)

    start = np.zeros(200)
    start[80:120] = 10.0
    d_0, d_1 = cuda.to_device(start), cuda.to_device(start)
    rod[4, 64](d_0, d_1, 50)
    wanted = start.copy()
    for _ in range(50):
        wanted[1:-1] = wanted[1:-1] + ALPHA * (wanted[:-2] - 2.0 * wanted[1:-1] + wanted[2:])
    np.testing.assert_allclose(d_0.copy_to_host(), wanted, rtol=1e-12, atol=1e-12)
    print("heat: the rod's middle is at", round(float(wanted[100]), 3))


if __name__ == "__main__":
    main()
