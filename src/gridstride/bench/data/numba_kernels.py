# mypy: ignore-errors
"""Two kernels in Python, launched by the same lines on Numba's CUDA simulator and on Gridstride's:
`python numba_kernels.py numba|gridstride saxpy|matmul SIZE REPETITIONS`.

Prints one line of JSON: what ran them, whether every result was right, and the processor seconds of each launch, waited for, with its
arrays on the device.
"""

import json
import os
import sys
import time

SIDE, KERNEL, SIZE, REPETITIONS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if SIDE == "numba":
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported
else:
    import gridstride
    from gridstride.numba_host import use

    use(gridstride.device("sim", threads=1))
os.environ["NUMBA_DISABLE_PERFORMANCE_WARNINGS"] = "1"

import numba
import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def saxpy(a, x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


@cuda.jit
def matmul(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for tile in range(a.shape[1] // TILE):
        a_tile[ty, tx] = a[y, tile * TILE + tx]
        b_tile[ty, tx] = b[tile * TILE + ty, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    c[y, x] = total


def run_saxpy():
    x = np.arange(SIZE, dtype=np.float32)
    start = np.full(SIZE, 0.5, np.float32)
    device_x, device_y = cuda.to_device(x), cuda.to_device(start)
    wanted = np.float32(2.0) * x + start

    def launch():
        saxpy[(SIZE + 255) // 256, 256](np.float32(2.0), device_x, device_y, SIZE)

    def reset():
        device_y.copy_to_device(start)

    return launch, reset, lambda: bool(np.array_equal(device_y.copy_to_host(), wanted))


def run_matmul():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, SIZE, SIZE), dtype=np.float32)
    device_a, device_b, device_c = cuda.to_device(a), cuda.to_device(b), cuda.device_array((SIZE, SIZE), np.float32)
    wanted = a.astype(np.float64) @ b
    blocks = (SIZE // TILE, SIZE // TILE)

    def launch():
        matmul[blocks, (TILE, TILE)](device_a, device_b, device_c)

    return launch, lambda: None, lambda: bool(np.allclose(device_c.copy_to_host(), wanted, rtol=1e-4, atol=1e-3))


def main() -> None:
    launch, reset, right = run_saxpy() if KERNEL == "saxpy" else run_matmul()
    seconds, verified = [], True
    for repetition in range(REPETITIONS + 1):  # the first launch compiles
        reset()
        begin = time.process_time()
        launch()
        cuda.synchronize()
        if repetition:
            seconds.append(time.process_time() - begin)
        verified = verified and right()
    version = f"numba {numba.__version__}"
    print(json.dumps({"version": version, "right": verified, "seconds": seconds}))


main()
