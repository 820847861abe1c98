"""Kinds of memory in Python kernels: shared (of a fixed size and of the launch's), local, constant, and arrays of structures."""

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

TABLE = np.array([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]])
TILE = 8
PADDED = 9
FACTOR = 3


def test_shared_tiles_of_two_dimensions(run):
    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((TILE, PADDED), types.float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.blockIdx.x * TILE + x, cuda.blockIdx.y * TILE + y
        if row < a.shape[0] and column < a.shape[1]:
            tile[y, x] = a[row, column]
        cuda.syncthreads()
        column, row = cuda.blockIdx.y * TILE + x, cuda.blockIdx.x * TILE + y
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = tile[x, y]

    a = np.random.default_rng(1).random((20, 13), np.float32)
    assert np.array_equal(run(transpose, (2, 3), (8, 8), a, np.zeros((13, 20), np.float32))[1], a.T)


def test_dynamic_shared_memory_with_two_arrays(run):
    @cuda.jit
    def reverse(a, b, n):
        ints = cuda.shared.array(0, types.int32)
        floats = cuda.shared.array(0, types.float64)[n // 2 : n // 2 + n]
        t = cuda.threadIdx.x
        ints[t] = a[t]
        floats[t] = b[t]
        cuda.syncthreads()
        a[t] = ints[n - 1 - t]
        b[t] = floats[n - 1 - t]

    a, b = run(reverse, 1, 64, np.arange(64, dtype=np.int32), np.arange(64.0) / 2, 64, shared=64 * 12)
    assert a.tolist() == list(range(63, -1, -1))
    assert b.tolist() == [k / 2 for k in range(63, -1, -1)]


def test_numbas_own_way_to_give_shared_memory(device):
    @cuda.jit
    def rotate(a):
        held = cuda.shared.array(0, types.int64)
        t = cuda.threadIdx.x
        held[t] = a[t]
        cuda.syncthreads()
        a[t] = held[(t + 1) % cuda.blockDim.x]

    a = np.arange(32)
    device.compile(rotate)[1, 32, 0, 32 * 8](a)
    assert np.array_equal(a, np.roll(np.arange(32), -1))
    b, stream = device.array(np.arange(32)), device.stream()
    device.compile(rotate)[1, 32, stream, 32 * 8](b)
    stream.synchronize()
    assert np.array_equal(b.numpy(), np.roll(np.arange(32), -1))


def test_local_arrays(run):
    @cuda.jit
    def median(values, out):
        kept = cuda.local.array(5, types.float64)
        i = cuda.grid(1)
        if i < out.size:
            for k in range(5):
                kept[k] = values[i + k]
            for last in range(4, 0, -1):
                for k in range(last):
                    if kept[k] > kept[k + 1]:
                        kept[k], kept[k + 1] = kept[k + 1], kept[k]
            out[i] = kept[2]

    values = np.random.default_rng(2).random(100)
    want = np.median(np.lib.stride_tricks.sliding_window_view(values, 5), axis=1)
    assert np.array_equal(run(median, 3, 32, values, np.zeros(96))[1], want)


def test_constant_arrays(run):
    @cuda.jit
    def weigh(out):
        table = cuda.const.array_like(TABLE)
        i = cuda.grid(1)
        if i < out.size:
            out[i] = table[i % 2, i % 3] * FACTOR

    i = np.arange(48)
    assert np.array_equal(run(weigh, 2, 32, np.zeros(48)), TABLE[i % 2, i % 3] * 3)


def test_globals_and_closures_are_constants(run):
    offset, pair, names = 10, (2, 2.5), {"unused": 1}

    @cuda.jit
    def combine(out):
        i = cuda.grid(1)
        out[i] = FACTOR * i + offset + pair[0] * pair[1] + TABLE[1, 2]

    assert names
    assert np.array_equal(run(combine, 1, 32, np.zeros(32)), 3 * np.arange(32) + 10 + 5 + 6.5)


def test_fields_of_structures_and_nested_arrays(run):
    particle = np.dtype([("position", np.float32, (3,)), ("mass", np.float64), ("id", np.int16)], align=True)

    @cuda.jit
    def weigh(particles, out):
        i = cuda.grid(1)
        if i < particles.size:
            p = particles[i]
            out[i] = p.mass * (p.position[0] + p.position[1] + p.position[2]) + p.id
            particles[i].id = i

    particles = np.zeros(40, particle)
    random = np.random.default_rng(3)
    particles["position"], particles["mass"], particles["id"] = random.integers(0, 9, (40, 3)), random.integers(0, 9, 40), 7
    want = particles["mass"] * particles["position"].sum(axis=1) + 7
    out = run(weigh, 2, 32, particles, np.zeros(40))[1]
    assert np.array_equal(out, want)
    assert np.array_equal(particles["id"], np.arange(40))


def test_views_and_slices_inside_a_kernel(run):
    @cuda.jit
    def rows(a, out):
        i = cuda.grid(1)
        if i < a.shape[0]:
            row = a[i, 1:-1]
            total = 0.0
            for k in range(row.size):
                total += row[k]
            for value in row[::2]:
                total += value
            out[i] = total

    a = np.random.default_rng(4).integers(0, 100, (40, 9)).astype(np.float64)
    assert np.array_equal(run(rows, 2, 32, a, np.zeros(40))[1], a[:, 1:-1].sum(axis=1) + a[:, 1:-1:2].sum(axis=1))


def test_reshape_and_ravel_inside_a_kernel(run):
    @cuda.jit
    def fold(a, out):
        square = a.reshape((4, 8))
        x, y = cuda.grid(2)
        if x < 4 and y < 8:
            out[y, x] = square[x, y]

    assert np.array_equal(run(fold, 1, (4, 8), np.arange(32), np.zeros((8, 4), np.int64))[1], np.arange(32).reshape(4, 8).T)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.float16])
def test_small_element_types_are_copied_as_they_are(run, dtype):
    @cuda.jit
    def copy(a, out):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[a.size - 1 - i]

    a = (np.arange(50) % 7 - (3 if np.dtype(dtype).kind in "if" else 0)).astype(dtype)
    assert np.array_equal(run(copy, 2, 32, a, np.zeros(50, dtype))[1], a[::-1])


def test_dates_are_numbers_of_64_bits(run):
    @cuda.jit
    def later(days, step, out):
        i = cuda.grid(1)
        if i < days.size:
            out[i] = days[i] + step

    days = np.array(["2026-01-01", "2026-02-01"], "datetime64[D]").astype("datetime64[s]")
    out = run(later, 1, 32, days, np.timedelta64(60, "s"), np.zeros(2, "datetime64[s]"))[1]
    assert np.array_equal(out, days + np.timedelta64(60, "s"))
