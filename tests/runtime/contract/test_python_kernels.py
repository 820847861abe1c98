"""Python kernels do the same on every device."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import CompileError, KernelFault, LaunchError

cuda = pytest.importorskip("numba.cuda")


@cuda.jit
def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


@cuda.jit
def transpose(a, out):
    x, y = cuda.grid(2)
    if x < out.shape[0] and y < out.shape[1]:
        out[x, y] = a[y, x]


@cuda.jit(debug=True, opt=False)
def share(x):
    i = cuda.grid(1)
    x[i] = 10 // x[i]


@cuda.jit
def meet(values, out):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    values[i] = i
    grid.sync()
    out[i] = values[values.size - 1 - i]


@cuda.jit
def turned(x):
    held = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    held[t] = x[t]
    cuda.syncthreads()
    x[t] = held[cuda.blockDim.x - 1 - t]


def test_device_arrays_and_host_arrays(device: gs.Device) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    there = device.array(y)
    kernel = device.compile(saxpy)
    kernel[4, 32](100, np.float32(2), device.array(x), there)
    kernel[4, 32](100, np.float32(2), x, y)
    assert np.array_equal(there.numpy(), 2 * x + 1)
    assert np.array_equal(y, 2 * x + 1)


def test_strided_views(device: gs.Device) -> None:
    a = device.array(np.arange(48, dtype=np.int64).reshape(6, 8))
    out = device.zeros((4, 3), np.int64)
    device.compile(transpose)[(1, 1), (8, 8)](a[::2, 1::2], out)
    assert np.array_equal(out.numpy(), a.numpy()[::2, 1::2].T)


def test_streams_and_graphs(device: gs.Device) -> None:
    x, y = device.array(np.arange(64, dtype=np.float32)), device.zeros(64)
    kernel, stream = device.compile(saxpy), device.stream()
    kernel[2, 32, stream](64, np.float32(1), x, y)
    kernel[2, 32](64, np.float32(1), x, y, stream=stream)
    stream.synchronize()
    assert np.array_equal(y.numpy(), 2 * x.numpy())
    with stream.capture() as graph:
        kernel[2, 32](64, np.float32(1), x, y, stream=stream)
    replay = graph.instantiate()
    replay.launch(stream)
    replay.update(0, a=np.float32(3))
    replay.launch(stream)
    stream.synchronize()
    assert np.array_equal(y.numpy(), 6 * x.numpy())


def test_dynamic_shared_memory(device: gs.Device) -> None:
    x = device.array(np.arange(64, dtype=np.float32))
    device.compile(turned)[1, 64](x, shared=256)
    assert np.array_equal(x.numpy(), np.arange(64, dtype=np.float32)[::-1])


def test_the_grid_meets(device: gs.Device) -> None:
    values, out = device.zeros(128, np.int64), device.zeros(128, np.int64)
    device.compile(meet)[4, 32](values, out)
    assert np.array_equal(out.numpy(), np.arange(128)[::-1])


def test_an_exception_is_raised_at_the_launch_and_the_device_goes_on(device: gs.Device) -> None:
    kernel = device.compile(share)
    x = device.array(np.array([1, 2, 0, 5] * 8))
    with pytest.raises(KernelFault, match=r"raises ZeroDivisionError: integer division by zero \(test_python_kernels.py:\d+, block \(0,0,0\), thread \(\d+,0,0\)\)"):
        kernel[1, 32](x)
    x.fill(5)
    kernel[1, 32](x)
    assert (x.numpy() == 2).all()


def test_what_does_not_fit_is_refused_before_anything_runs(device: gs.Device) -> None:
    kernel = device.compile(saxpy)
    with pytest.raises(LaunchError, match=r"saxpy takes 4 arguments \(n, a, x, y\), but 2 were given"):
        kernel[1, 32](1, 2.0)
    with pytest.raises(CompileError, match=r"test_python_kernels.py:\d+: saxpy: there is no `getitem\(float64, int64\)`"):
        kernel[1, 32](1, 2.0, 3.0, device.zeros(3))
