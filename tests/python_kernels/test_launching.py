"""Python functions as kernels: arguments of every kind, equal to NumPy, with all checks on."""

from collections import namedtuple

import numpy as np
import pytest

import gridstride as gs

cuda = pytest.importorskip("numba.cuda")


@cuda.jit
def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


def test_numpy_arrays_are_copied_to_the_device_and_back(device):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    with gs.checking() as findings:
        device.compile(saxpy)[8, 128](1000, 2.0, x, y)
    assert np.array_equal(y, 2 * np.arange(1000, dtype=np.float32) + 1)
    assert not findings


def test_device_arrays_stay_there(device):
    x, y = device.array(np.arange(1000, dtype=np.float32)), device.array(np.ones(1000, np.float32))
    kernel = device.compile(saxpy)
    kernel[8, 128](1000, np.float32(2), x, y)
    kernel[8, 128](1000, np.float32(2), x, y)
    assert np.array_equal(y.numpy(), 4 * np.arange(1000, dtype=np.float32) + 1)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_arrays_of_one_to_four_dimensions_in_every_layout(device, dimensions, layout):
    def double(a, out):
        i = cuda.grid(1)
        if i < a.size:
            if a.ndim == 1:
                out[i] = 2 * a[i]
            elif a.ndim == 2:
                out[i // a.shape[1], i % a.shape[1]] = 2 * a[i // a.shape[1], i % a.shape[1]]
            elif a.ndim == 3:
                x, rest = i // (a.shape[1] * a.shape[2]), i % (a.shape[1] * a.shape[2])
                out[x, rest // a.shape[2], rest % a.shape[2]] = 2 * a[x, rest // a.shape[2], rest % a.shape[2]]
            else:
                x, rest = i // (a.shape[1] * a.shape[2] * a.shape[3]), i % (a.shape[1] * a.shape[2] * a.shape[3])
                y, rest = rest // (a.shape[2] * a.shape[3]), rest % (a.shape[2] * a.shape[3])
                out[x, y, rest // a.shape[3], rest % a.shape[3]] = 2 * a[x, y, rest // a.shape[3], rest % a.shape[3]]

    shape = (6, 5, 4, 3)[:dimensions]
    host = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    whole = device.array(np.arange(np.prod([2 * n for n in shape]), dtype=np.int32).reshape([2 * n for n in shape]))
    if layout == "strided":
        given = whole[tuple(slice(None, None, 2) for _ in shape)]
    elif layout == "reversed":
        given = whole[tuple(slice(n - 1, None, -1) if k == 0 else slice(0, n) for k, n in enumerate(shape))]
    else:
        given = device.array(host)
        if layout == "F":
            given = gs.Array(given.storage, given.address, shape, given.dtype, np.asfortranarray(host).strides)
    want = 2 * given.numpy()
    out = device.array(np.zeros(shape, np.int32))
    with gs.checking() as findings:
        device.compile(double)[-(-host.size // 32), 32](given, out)
    assert np.array_equal(out.numpy(), want)
    assert not findings


Pair = namedtuple("Pair", "first second")


def test_scalars_tuples_and_records(device):
    def gather(out, b, i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, c64, c128, pair, both, named, record):
        if cuda.grid(1) == 0:
            out[0] = 1 if b else 0
            out[1], out[2], out[3], out[4] = i8, u8, i16, u16
            out[5], out[6], out[7], out[8] = i32, u32, i64, u64
            out[9], out[10] = f32, f64
            out[11], out[12], out[13], out[14] = c64.real, c64.imag, c128.real, c128.imag
            out[15], out[16] = pair
            out[17], out[18] = both
            out[19], out[20] = named.first, named.second
            out[21], out[22] = record.mass, record.id

    record = np.zeros(1, np.dtype([("id", np.int32), ("mass", np.float64)], align=True))
    record["id"], record["mass"] = -7, 2.5
    out = np.zeros(23)
    scalars = (True, np.int8(-3), np.uint8(250), np.int16(-300), np.uint16(60000), np.int32(-70000), np.uint32(4_000_000_000), -(1 << 40))
    values = (*scalars, np.uint64(1 << 50), np.float32(0.25), -1.5, np.complex64(1 - 2j), 3 + 4j, (5, 6), (7, 8.5), Pair(9, 10.5), record[0])
    with gs.checking() as findings:
        device.compile(gather)[1, 32](out, *values)
    want = [1, -3, 250, -300, 60000, -70000, 4e9, -(2.0**40), 2.0**50, 0.25, -1.5, 1, -2, 3, 4, 5, 6, 7, 8.5, 9, 10.5, 2.5, -7]
    assert out.tolist() == want
    assert not findings


def test_arrays_of_records(device):
    def move(bodies, seconds):
        i = cuda.grid(1)
        if i < bodies.size:
            bodies[i].x += bodies[i].v * seconds

    bodies = np.zeros(100, np.dtype([("x", np.float32), ("v", np.float32), ("kind", np.uint8)]))
    bodies["x"], bodies["v"] = np.arange(100), 0.5
    device.compile(move)[4, 32](bodies, np.float32(2))
    assert np.array_equal(bodies["x"], np.arange(100, dtype=np.float32) + 1)
