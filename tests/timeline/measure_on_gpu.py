"""What the model of time has of a real GPU: `PYTHONPATH=tests python -m timeline.measure_on_gpu OUT.json` on a machine with one.

Bandwidths of copies by size and kind of memory, of managed memory that a kernel finds elsewhere, of kernels on mapped memory, times between
operations, and the five programs of `programs.py` with their kernels' own times. Medians of several repetitions.
"""

# ruff: noqa: B023 - each function is called before the loop goes on

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

import gridstride as gs
from timeline.programs import PROGRAMS, Setting, durations, runner, total_us

SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
REPETITIONS = 9
SOURCE = r"""
extern "C" __global__ void nothing() {}
extern "C" __global__ void add(long long n, const float* x, float* y) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) y[i] = x[i] + 1.0f;
}
extern "C" __global__ void sum(long long n, const float* x, float* y) {
    float v = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) v += x[i];
    if (v == -1.0f) y[0] = v;
}
"""


def median(take: Callable[[], float], repetitions: int = REPETITIONS) -> float:
    take()
    return statistics.median(take() for _ in range(repetitions))


def between(device: gs.Device, stream: gs.Stream, what: Callable[[], None]) -> float:
    """Microseconds by events around `what`."""
    start, end = device.event(), device.event()
    device.synchronize()
    stream.record(start)
    what()
    stream.record(end)
    device.synchronize()
    return start.elapsed_ms(end) * 1e3


def link(device: gs.Device) -> dict[str, Any]:
    stream = device.stream(non_blocking=True)
    module = device.compile(SOURCE)
    found: dict[str, Any] = {"copies": {}}
    largest = max(SIZES)
    pinned, array = device.pinned(largest, np.uint8), device.empty(largest, np.uint8)
    pageable = np.ones(largest, np.uint8)
    host = pinned.numpy()
    host[:] = 1
    for size in SIZES:
        row = {}
        for name, memory in (("pinned", host), ("pageable", pageable)):
            row[f"{name}_to_device_us"] = median(lambda: between(device, stream, lambda: array[:size].copy_from(memory[:size], stream=stream)))
            row[f"{name}_to_host_us"] = median(lambda: between(device, stream, lambda: array[:size].copy_to(memory[:size], stream=stream)))
        other = device.empty(size, np.uint8)
        row["on_device_us"] = median(lambda: between(device, stream, lambda: other.copy_from(array[:size], stream=stream)))
        row["fill_us"] = median(lambda: between(device, stream, lambda: other.fill(3, stream=stream)))
        found["copies"][str(size)] = row
    nothing, add, read = module["nothing"], module["add"], module["sum"]
    many = 1000
    found["nothing_us"] = median(lambda: between(device, stream, lambda: nothing[1, 32](stream=stream)))
    found["nothing_back_to_back_us"] = median(lambda: between(device, stream, lambda: [nothing[1, 32](stream=stream) for _ in range(many)] and None) / many)
    with stream.capture() as graph:
        for _ in range(many):
            nothing[1, 32](stream=stream)
    replay = graph.instantiate()
    found["nothing_in_a_graph_us"] = median(lambda: between(device, stream, lambda: replay.launch(stream)) / many)

    def host_time() -> float:
        device.synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            nothing[1, 32](stream=stream)
        return (time.perf_counter() - begin) * 1e6 / 200

    found["host_call_us"] = median(host_time)
    n = 16 << 20
    out = device.empty(n)
    managed = device.managed(n)
    to_device, to_host, prefetch = [], [], []
    for _ in range(5):
        begin = time.perf_counter()
        managed.host[:] = 1.0
        to_host.append((time.perf_counter() - begin) * 1e6)
        to_device.append(between(device, stream, lambda: add[1024, 256](n, managed, out, stream=stream)))
    for _ in range(5):
        managed.host[:] = 1.0
        prefetch.append(between(device, stream, lambda: stream.prefetch(managed)))
    found["managed"] = {"bytes": 4 * n, "kernel_that_faults_us": to_device, "host_write_after_us": to_host, "prefetch_us": prefetch}
    found["managed"]["kernel_without_us"] = median(lambda: between(device, stream, lambda: add[1024, 256](n, managed, out, stream=stream)))
    mapped = device.pinned(n)
    mapped.numpy()[:] = 1
    found["mapped"] = {
        "bytes": 4 * n,
        "read_us": median(lambda: between(device, stream, lambda: read[1024, 256](n, mapped, out, stream=stream)), 3),
        "write_us": median(lambda: between(device, stream, lambda: add[1024, 256](n, out, mapped, stream=stream)), 3),
    }
    return found


def programs(device: gs.Device) -> dict[str, Any]:
    setting = Setting(device)
    found: dict[str, Any] = {"kernel_us": durations(setting), "total_us": {}, "spread_us": {}}
    for name in PROGRAMS:
        run = runner(setting, name)
        total_us(setting, run)
        times = [total_us(setting, run) for _ in range(REPETITIONS)]
        found["total_us"][name] = statistics.median(times)
        found["spread_us"][name] = [min(times), max(times)]
    return found


def main() -> None:
    device = gs.device("gpu")
    result = {"card": device.spec.name, "date": datetime.now(UTC).date().isoformat(), "how": __doc__, "link": link(device), "programs": programs(device)}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
