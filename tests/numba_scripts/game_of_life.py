"""Conway's Game of Life on a torus, two device arrays in turn."""

import numpy as np
from numba import cuda


@cuda.jit
def step(cells, following):
    row, col = cuda.grid(2)
    rows, cols = cells.shape
    if row >= rows or col >= cols:
        return
    alive = 0
    for i in range(-1, 2):
        for j in range(-1, 2):
            if i != 0 or j != 0:
                alive += cells[(row + i) % rows, (col + j) % cols]
    if cells[row, col] == 1 and (alive == 2 or alive == 3):
        following[row, col] = 1
    elif cells[row, col] == 0 and alive == 3:
        following[row, col] = 1
    else:
        following[row, col] = 0


def numpy_step(cells):
    neighbours = sum(np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(cells.dtype)


def main():
    rng = np.random.default_rng(7)
    cells = rng.integers(0, 2, (50, 70), dtype=np.uint8)

    d_now = cuda.to_device(cells)
    d_next = cuda.device_array_like(d_now)
    threads = (16, 16)
    blocks = ((cells.shape[0] + 15) // 16, (cells.shape[1] + 15) // 16)

    wanted = cells
    for _ in range(20):
        step[blocks, threads](d_now, d_next)
        d_now, d_next = d_next, d_now
        wanted = numpy_step(wanted)

    assert np.array_equal(d_now.copy_to_host(), wanted)
    print("life: cells alive after 20 steps:", int(wanted.sum()))


if __name__ == "__main__":
    main()
