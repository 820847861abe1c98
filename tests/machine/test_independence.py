"""Blocks share the cores only where it is proved that nobody can tell."""

import numpy as np
import pytest

import gridstride as gs
from gridstride.machine.program import Entry

SOURCE = r"""
#define GID (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" {
__global__ void add(const float *a, const float *b, float *c, int n) { int i = GID; if (i < n) c[i] = a[i] + b[i]; }
__global__ void own(float *y, int n) { int i = GID; if (i < n) y[i] = 2 * y[i]; }
__global__ void neighbour(float *y, int n) { int i = GID; if (i < n - 1) y[i] = y[i + 1]; }
__global__ void image(const float *in, float *out, int w, int h) {
    int x = GID, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = in[y * w + max(x - 1, 0)];
}
__global__ void linear(float *o, int w, int h) {
    int x = GID, y = blockIdx.y * blockDim.y + threadIdx.y;
    int i = y * w + x;
    if (i < w * h) o[i] = blockIdx.x + 100 * blockIdx.y;
}
__global__ void everyone(float *o) { o[threadIdx.x] = blockIdx.x; }
__global__ void per_block(const float *a, float *o) { if (threadIdx.x == 0) o[blockIdx.x] = a[GID]; }
__global__ void strided(float *o, int n) { for (int i = GID; i < n; i += gridDim.x * blockDim.x) o[i] = i; }
__global__ void count(int *o) { atomicAdd(o, 1); }
__global__ void ticket(int *next, int *o) { o[GID] = atomicAdd(next, 1); }
__global__ void sum(float *o) { atomicAdd(o, 1.0f / (GID + 1)); }
__global__ void indirect(const int *at, float *o) { o[at[GID]] = GID; }
}
"""


@pytest.fixture(scope="module")
def device() -> gs.Device:
    return gs.device("sim")


@pytest.fixture(scope="module")
def module(device: gs.Device) -> gs.Module:
    return device.compile(SOURCE)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each launch was judged."""
    found: list[bool] = []
    judge = Entry.independent
    monkeypatch.setattr(Entry, "independent", lambda *args: found.append(judge(*args)) or found[-1])
    return found


def floats(device: gs.Device, n: int) -> gs.Array:
    return device.array(np.arange(n, dtype=np.float32))


def test_an_element_a_thread_is_independent(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    a, c = floats(device, 1 << 17), floats(device, 1 << 17)
    module["add"][512, 256](a, a, c, np.int32(1 << 17))
    assert verdicts == [True]
    assert np.array_equal(c.numpy(), 2 * np.arange(1 << 17, dtype=np.float32))


@pytest.mark.parametrize(
    ("kernel", "independent"),
    [("own", True), ("neighbour", False), ("strided", False)],
)
def test_one_buffer(device: gs.Device, module: gs.Module, verdicts: list[bool], kernel: str, independent: bool) -> None:
    module[kernel][8, 256](floats(device, 2048), np.int32(2048))
    assert verdicts == [independent]


def test_an_output_that_is_an_input_too_is_not(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    a, b = floats(device, 4096), floats(device, 4096)
    module["add"][8, 256](a, b, a[:2048], np.int32(2048))
    module["add"][8, 256](a[1:2049], b, a[:2048], np.int32(2048))
    assert verdicts == [True, False]


def test_rows_must_hold_the_whole_grid(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    """A grid wider than the image reaches into the next row but for its guard, which is not looked at."""
    a, b = floats(device, 128 * 64), floats(device, 128 * 64)
    module["image"][(4, 8), (32, 8)](a, b, np.int32(128), np.int32(64))
    module["image"][(4, 8), (32, 8)](a, b, np.int32(100), np.int32(64))
    module["image"][(4, 8), (32, 8)](a, a, np.int32(128), np.int32(64))
    module["linear"][(4, 8), (32, 8)](b, np.int32(100), np.int32(64))
    assert verdicts == [True, False, False, False]


def test_places_that_blocks_share(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    a, b = floats(device, 2048), floats(device, 2048)
    module["everyone"][8, 256](a)
    module["per_block"][8, 256](a, b)
    assert verdicts == [False, True]


def test_atomics(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    """Integer reductions may meet; sums of floats depend on the order, and so does what an atomic returns."""
    n, o = device.array(np.zeros(1, np.int32)), device.array(np.zeros(2048, np.int32))
    module["count"][512, 256](n)
    module["ticket"][8, 256](n, o)
    module["sum"][8, 256](floats(device, 1))
    assert verdicts == [True, False, False]
    assert n.numpy()[0] == 512 * 256 + 2048


def test_indices_from_memory(device: gs.Device, module: gs.Module, verdicts: list[bool]) -> None:
    module["indirect"][8, 256](device.array(np.arange(2048, dtype=np.int32)), floats(device, 2048))
    assert verdicts == [False]
