"""The devices that the contract is tested on: the simulator always, a GPU where there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

import gridstride as gs
from gridstride.errors import UnsupportedError

SOURCE = """
#include <assert.h>
__device__ int counter = 3;
__constant__ int factor = 2;
__device__ unsigned arrived = 0;
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void scale(int n, float f, float* x) { int i = INDEX; if (i < n) x[i] *= f; }
extern "C" __global__ void add(int n, int value, int* x) { int i = INDEX; if (i < n) x[i] += value; }
extern "C" __global__ void next(int n, const int* from, int* to) { int i = INDEX; if (i < n) to[i] = from[i] + 1; }
extern "C" __global__ void fused(int n, const double* a, const double* b, double* out) { int i = INDEX; if (i < n) out[i] = a[i] * b[i]; }
extern "C" __global__ void slow(int rounds, int* x) {  // x[0] = 1 + x[0] after a long while
    unsigned v = x[0];
    for (int k = 0; k < rounds; ++k) v = v * 1664525u + 1013904223u;
    x[0] = x[0] + 1 + (v == 77u && rounds < 0);
}
extern "C" __global__ void count() { atomicAdd(&counter, factor); }
extern "C" __global__ void last_byte(int bytes, int* out) {
    extern __shared__ char room[];
    if (threadIdx.x == 0) room[bytes - 1] = 7;
    __syncthreads();
    if (threadIdx.x == 1) out[0] = room[bytes - 1];
}
extern "C" __global__ void all_meet(int* out) {  // every block waits for every other
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1u);
        while (atomicAdd(&arrived, 0u) < gridDim.x) { }
        out[blockIdx.x] = 1;
    }
}
extern "C" __global__ void store(int* to) { *to = 1; }
extern "C" __global__ void misaligned(char* to) { *(int*)(to + 1) = 1; }
extern "C" __global__ void trapped() { __trap(); }
extern "C" __global__ void asserted(int n) { assert(n == 0); }
template <typename T> __global__ void twice(T* x) { x[threadIdx.x] += x[threadIdx.x]; }
"""
N = 1000


def open_device(name: str, **options: bool) -> gs.Device:
    """A device, or a skipped test that says why there is none."""
    blocking = os.environ.pop("CUDA_LAUNCH_BLOCKING", None)  # the driver looks at it when it starts, and here launches are to run on their own
    try:
        return gs.device(name, **{"blocking": False, **options})
    except UnsupportedError as error:
        pytest.skip(str(error))
    finally:
        if blocking is not None:
            os.environ["CUDA_LAUNCH_BLOCKING"] = blocking


@pytest.fixture(scope="module", params=["sim", "gpu"])
def device_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def opened(device_name: str) -> Iterator[gs.Device]:
    device = open_device(device_name)
    yield device
    device.synchronize()


@pytest.fixture
def device(opened: gs.Device) -> Iterator[gs.Device]:
    yield opened
    opened.synchronize()


@pytest.fixture
def another(device_name: str) -> Callable[..., gs.Device]:
    """Another device object: what happens to it is no other test's."""
    return lambda **options: open_device(device_name, **options)


@pytest.fixture(scope="module")
def module(opened: gs.Device) -> gs.Module:
    return opened.compile(SOURCE)


def blocks(n: int, block: int = 128) -> int:
    return -(-n // block)
