# mypy: ignore-errors
"""The same launch in Numba's CUDA simulator, run in an interpreter of its own: `python numba_saxpy.py ELEMENTS REPETITIONS`.

Prints one line of JSON: the versions, whether the result was right, and the seconds of each launch.
"""

import json
import os
import sys
import time

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported

import numba
import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


def main() -> None:
    count, repetitions = int(sys.argv[1]), int(sys.argv[2])
    x = np.arange(count, dtype=np.float32)
    start = np.full(count, 0.5, np.float32)
    seconds = []
    right = True
    for repetition in range(repetitions + 1):  # the first launch warms up
        device_x, device_y = cuda.to_device(x), cuda.to_device(start)
        begin = time.perf_counter()
        saxpy[(count + 255) // 256, 256](np.float32(2.0), device_x, device_y, count)
        cuda.synchronize()
        if repetition:
            seconds.append(time.perf_counter() - begin)
        right = right and bool(np.array_equal(device_y.copy_to_host(), 2.0 * x + start))
    print(json.dumps({"version": f"numba {numba.__version__}", "right": right, "seconds": seconds}))


main()
