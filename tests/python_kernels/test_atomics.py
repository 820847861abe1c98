"""Every atomic of numba.cuda, in global and in shared memory, against the same reduction by NumPy."""

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float32, np.float64)


def many(dtype, size=200, seed=1):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.integers(-50, 50, size).astype(dtype)  # whole numbers: their sum does not depend on the order
    return random.integers(0 if np.dtype(dtype).kind == "u" else -50, 50, size).astype(dtype)


@cuda.jit
def add_global(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(out, i % 3, values[i])


@cuda.jit
def sub_global(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.sub(out, i % 3, values[i])


@cuda.jit
def max_global(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(out, i % 3, values[i])


@cuda.jit
def min_global(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.min(out, i % 3, values[i])


def by_three(function, start, values):
    return np.array([function(start, values[k::3]) for k in range(3)], values.dtype)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_add_and_sub(run, dtype):
    values = many(dtype)
    with np.errstate(over="ignore"):
        assert np.array_equal(run(add_global, 7, 32, values, np.zeros(3, dtype))[1], by_three(lambda _, v: v.sum(dtype=dtype), 0, values))
        want = by_three(lambda _, v: dtype(0) - v.sum(dtype=dtype), 0, values)
    assert np.array_equal(run(sub_global, 7, 32, values, np.zeros(3, dtype))[1], want)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_max_and_min(run, dtype):
    values = many(dtype)
    assert np.array_equal(run(max_global, 7, 32, values, np.full(3, 7, dtype))[1], by_three(lambda s, v: max(7, v.max()), 7, values))
    assert np.array_equal(run(min_global, 7, 32, values, np.full(3, 7, dtype))[1], by_three(lambda s, v: min(7, v.min()), 7, values))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nanmax_and_nanmin_pass_over_nan(run, dtype):
    @cuda.jit
    def extremes(values, out):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.nanmax(out, 0, values[i])
            cuda.atomic.nanmin(out, 1, values[i])

    values = many(dtype)
    values[::7] = np.nan
    out = run(extremes, 7, 32, values, np.zeros(2, dtype))[1]
    assert out.tolist() == [max(0, np.nanmax(values)), min(0, np.nanmin(values))]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bitwise(run, dtype):
    @cuda.jit
    def bits(values, out):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.and_(out, 0, values[i])
            cuda.atomic.or_(out, 1, values[i])
            cuda.atomic.xor(out, 2, values[i])

    values = many(dtype) | dtype(64)
    start = np.array([127, 0, 5], dtype)
    out = run(bits, 7, 32, values, start)[1]
    wanted = [127 & np.bitwise_and.reduce(values), np.bitwise_or.reduce(values), 5 ^ np.bitwise_xor.reduce(values)]
    assert out.tolist() == [int(w) for w in wanted]


@pytest.mark.parametrize("dtype", [np.uint32])
def test_inc_and_dec_wrap_at_their_limit(run, dtype):
    @cuda.jit
    def wrap(out, old):
        i = cuda.grid(1)
        if i < old.size:
            old[i] = cuda.atomic.inc(out, 0, 6)
            cuda.atomic.dec(out, 1, 9)

    out, old = np.array([0, 4], dtype), np.zeros(100, dtype)
    run(wrap, 4, 32, out, old)
    assert out[0] == 100 % 7  # 0 … 6 and around
    assert np.array_equal(np.sort(old), np.sort(np.arange(100, dtype=dtype) % 7))
    down = 4
    for _ in range(100):
        down = 9 if down == 0 or down > 9 else down - 1
    assert out[1] == down


@pytest.mark.parametrize("dtype", INTEGERS)
def test_exchange_and_compare(run, dtype):
    @cuda.jit
    def swap(out, old, won):
        i = cuda.grid(1)
        if i < old.size:
            old[i] = cuda.atomic.exch(out, 0, i + 1)
            if cuda.atomic.cas(out, 1, 0, i + 1) == 0:
                won[0] = i + 1
            if cuda.atomic.compare_and_swap(out[2:], 0, i + 1) == 0:
                won[1] = i + 1

    out, old, won = np.zeros(3, dtype), np.zeros(64, dtype), np.zeros(2, np.int64)
    run(swap, 2, 32, out, old, won)
    assert sorted([*old.tolist(), int(out[0])]) == list(range(65))  # each value is handed on once
    assert out[1] == won[0] and out[2] == won[1]


def test_histogram_in_shared_memory(run):
    @cuda.jit
    def histogram(values, counts):
        local = cuda.shared.array(16, types.int32)
        t = cuda.threadIdx.x
        if t < 16:
            local[t] = 0
        cuda.syncthreads()
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(local, values[i] & 15, 1)
        cuda.syncthreads()
        if t < 16:
            cuda.atomic.add(counts, t, local[t])

    values = np.random.default_rng(2).integers(0, 16, 1000).astype(np.int32)
    assert np.array_equal(run(histogram, 8, 128, values, np.zeros(16, np.int32))[1], np.bincount(values, minlength=16))


def test_atomics_on_elements_of_two_and_three_dimensions(run):
    @cuda.jit
    def spread(square, cube):
        i, j = cuda.grid(2)
        cuda.atomic.add(square, (i % 2, j % 3), 1)
        cuda.atomic.max(cube, (i % 2, j % 2, 1), i + j)

    square, cube = run(spread, (2, 2), (8, 4), np.zeros((2, 3), np.int64), np.zeros((2, 2, 2), np.int64))
    i, j = np.meshgrid(np.arange(16), np.arange(8), indexing="ij")
    want, most = np.zeros((2, 3), np.int64), np.zeros((2, 2, 2), np.int64)
    np.add.at(want, (i % 2, j % 3), 1)
    np.maximum.at(most, (i % 2, j % 2, 1), i + j)
    assert np.array_equal(square, want)
    assert np.array_equal(cube, most)


def test_float_atomics_give_the_old_value(run):
    @cuda.jit
    def ticket(counter, seen):
        i = cuda.grid(1)
        seen[i] = cuda.atomic.add(counter, 0, 0.5)

    counter, seen = run(ticket, 2, 32, np.zeros(1), np.zeros(64))
    assert counter[0] == 32
    assert np.array_equal(np.sort(seen), np.arange(64) / 2)
