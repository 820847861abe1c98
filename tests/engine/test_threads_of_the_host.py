"""Threads of one process, a device each, from the first launch on."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
import numpy as np
import gridstride as gs

SOURCE = '__global__ void twice(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'
start, right = threading.Barrier(4), []

def work(number):
    start.wait()
    device = gs.device("sim", threads=1)
    twice = device.compile(SOURCE)["twice"]
    x = device.array(np.arange(4096, dtype=np.int32) + number)
    for _ in range(5):
        twice[32, 128](x)
    right.append(np.array_equal(x.numpy(), 32 * (np.arange(4096) + number)))

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(right)
"""


def test_threads_that_begin_together() -> None:
    """In a process of its own: what all kernels share is loaded by the first launch, of which there are four at once."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[True, True, True, True]\n", "")
