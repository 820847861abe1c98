"""The examples of Numba's CUDA documentation, told anew: each equals NumPy (or a plain Python function), with all checks on."""

import math

import numpy as np
import pytest
from numba import cuda, njit
from numba.cuda import float32, types
from numba.cuda.random import init_xoroshiro128p_states_cpu, xoroshiro128p_dtype, xoroshiro128p_uniform_float32

SIDE = 8


def test_vector_addition(run):
    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    a, b = np.random.default_rng(1).random((2, 1000))
    assert np.array_equal(run(add, 8, 128, a, b, np.zeros(1000))[2], a + b)


@pytest.mark.parametrize("shape", [(16, 16, 16), (13, 21, 9)])
def test_matrix_product_straight(run, shape):
    @cuda.jit
    def product(a, b, c):
        i, j = cuda.grid(2)
        if i < c.shape[0] and j < c.shape[1]:
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total

    rows, inner, columns = shape
    random = np.random.default_rng(2)
    a, b = random.integers(0, 9, (rows, inner)).astype(np.float64), random.integers(0, 9, (inner, columns)).astype(np.float64)
    assert np.array_equal(run(product, (2, 3), (8, 8), a, b, np.zeros((rows, columns)))[2], a @ b)


@pytest.mark.parametrize("shape", [(16, 16, 16), (13, 21, 9)])
def test_matrix_product_in_tiles(run, shape):
    @cuda.jit
    def product(a, b, c):
        left = cuda.shared.array((SIDE, SIDE), float32)
        right = cuda.shared.array((SIDE, SIDE), float32)
        x, y = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0.0)
        for step in range((a.shape[1] + SIDE - 1) // SIDE):
            left[ty, tx] = 0
            right[ty, tx] = 0
            if y < a.shape[0] and tx + step * SIDE < a.shape[1]:
                left[ty, tx] = a[y, tx + step * SIDE]
            if x < b.shape[1] and ty + step * SIDE < b.shape[0]:
                right[ty, tx] = b[ty + step * SIDE, x]
            cuda.syncthreads()
            for k in range(SIDE):
                total += left[ty, k] * right[k, tx]
            cuda.syncthreads()
        if y < c.shape[0] and x < c.shape[1]:
            c[y, x] = total

    rows, inner, columns = shape
    random = np.random.default_rng(3)
    a, b = random.integers(0, 9, (rows, inner)).astype(np.float32), random.integers(0, 9, (inner, columns)).astype(np.float32)
    assert np.array_equal(run(product, (2, 2), (8, 8), a, b, np.zeros((rows, columns), np.float32))[2], a @ b)


def test_a_sum_in_shared_memory(run):
    @cuda.jit
    def total(data):
        t, n = cuda.threadIdx.x, data.size
        held = cuda.shared.array(256, types.int32)
        held[t] = data[t] if t < n else 0
        cuda.syncthreads()
        step = 1
        while step < cuda.blockDim.x:
            if t % (2 * step) == 0:
                held[t] += held[t + step]
            step *= 2
            cuda.syncthreads()
        if t == 0:
            data[0] = held[0]

    data = np.arange(256, dtype=np.int32)
    want = data.sum()
    assert run(total, 1, 256, data)[0] == want


def test_heat_in_a_rod(run):
    """A rod with cold ends and one hot point, solved in rounds of the whole grid."""

    @cuda.jit
    def heat(now, then, rounds, k):
        i = cuda.grid(1)
        grid = cuda.cg.this_grid()
        for step in range(rounds):
            if step % 2 == 0:
                source, target = now, then
            else:
                source, target = then, now
            if 0 < i < now.size - 1:
                target[i] = source[i] + k * (source[i - 1] - 2 * source[i] + source[i + 1])
            elif i < now.size:
                target[i] = 0.0
            grid.sync()

    now = np.zeros(101)
    now[50] = 10_000.0
    want = now.copy()
    for _ in range(20):
        want[1:-1] = want[1:-1] + 0.25 * (want[:-2] - 2 * want[1:-1] + want[2:])
    assert np.allclose(run(heat, 4, 32, now, np.zeros(101), 20, 0.25)[0], want, rtol=1e-12)


def test_sessions_of_users(run):
    """Clicks sorted by user and time; a session begins with a new user, or an hour after the user's last click."""

    @cuda.jit
    def sessions(user, time, begins, result):
        i = cuda.grid(1)
        grid = cuda.cg.this_grid()
        n = user.size
        if i < n:
            begins[i] = i == 0 or user[i] != user[i - 1] or time[i] - time[i - 1] > 3600
        grid.sync()
        if i < n and begins[i]:
            result[i] = i
            k = i + 1
            while k < n and not begins[k]:
                result[k] = i
                k += 1

    random = np.random.default_rng(4)
    user = np.sort(random.integers(0, 6, 120))
    time = np.concatenate([np.sort(random.integers(0, 40_000, int((user == u).sum()))) for u in np.unique(user)])
    want, current = [], 0
    for i in range(120):
        if i == 0 or user[i] != user[i - 1] or time[i] - time[i - 1] > 3600:
            current = i
        want.append(current)
    assert run(sessions, 4, 32, user, time, np.zeros(120, np.bool_), np.full(120, -1))[3].tolist() == want


def test_pi_by_chance(run):
    @cuda.jit
    def hits(states, rounds, out):
        i = cuda.grid(1)
        inside = 0
        for _ in range(rounds):
            x = xoroshiro128p_uniform_float32(states, i)
            y = xoroshiro128p_uniform_float32(states, i)
            if x * x + y * y <= 1.0:
                inside += 1
        out[i] = 4.0 * inside / rounds

    states = np.empty(256, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, 1, 0)
    assert abs(run(hits, 4, 64, states, 100, np.zeros(256))[1].mean() - math.pi) < 4 * math.sqrt(math.pi * (4 - math.pi) / 25_600)


def test_code_that_host_and_device_share(run):
    @njit
    def steps(n):
        count = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    @cuda.jit
    def collatz(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = steps(i + 1)

    assert run(collatz, 2, 32, np.zeros(60, np.int64)).tolist() == [steps(i + 1) for i in range(60)]


def test_ufuncs_of_numpy(run):
    @cuda.jit
    def apply(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = np.sin(x[i])
            out[1, i] = np.arctan2(x[i], 0.5)
            out[2, i] = np.hypot(x[i], 2.0)
            out[3, i] = np.deg2rad(x[i])

    x = np.linspace(0.1, 2, 40)
    assert np.allclose(run(apply, 2, 32, x, np.zeros((4, 40)))[1], [np.sin(x), np.arctan2(x, 0.5), np.hypot(x, 2), np.deg2rad(x)], rtol=1e-14)


def test_mandelbrot(run):
    @cuda.jit
    def mandelbrot(left, right, bottom, top, image, rounds):
        x, y = cuda.grid(2)
        if y < image.shape[0] and x < image.shape[1]:
            c = complex(left + x * (right - left) / image.shape[1], bottom + y * (top - bottom) / image.shape[0])
            z = 0.0j
            for k in range(rounds):
                z = z * z + c
                if z.real * z.real + z.imag * z.imag >= 4:
                    image[y, x] = k
                    return
            image[y, x] = rounds

    def host(x, y):
        c, z = complex(-2 + x * 3 / 24, -1 + y * 2 / 16), 0j
        for k in range(30):
            z = z * z + c
            if z.real * z.real + z.imag * z.imag >= 4:
                return k
        return 30

    image = run(mandelbrot, (3, 2), (8, 8), -2.0, 1.0, -1.0, 1.0, np.zeros((16, 24), np.uint8), 30)
    assert image.tolist() == [[host(x, y) for x in range(24)] for y in range(16)]


def test_a_step_of_life(run):
    @cuda.jit
    def step(now, then):
        x, y = cuda.grid(2)
        rows, columns = now.shape
        if x < rows and y < columns:
            near = 0
            for dx in range(-1, 2):
                for dy in range(-1, 2):
                    if dx != 0 or dy != 0:
                        near += now[(x + dx) % rows, (y + dy) % columns]
            then[x, y] = 1 if near == 3 or (near == 2 and now[x, y] == 1) else 0

    now = np.random.default_rng(5).integers(0, 2, (20, 30)).astype(np.uint8)
    near = sum(np.roll(now, (a, b), (0, 1)).astype(int) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))
    assert np.array_equal(run(step, (3, 4), (8, 8), now, np.zeros_like(now))[1], (near == 3) | ((near == 2) & (now == 1)))


def test_a_prefix_sum_of_a_block(run):
    @cuda.jit
    def scan(values):
        held = cuda.shared.array(128, types.int64)
        t = cuda.threadIdx.x
        held[t] = values[t]
        cuda.syncthreads()
        step = 1
        while step < 128:
            other = held[t - step] if t >= step else 0
            cuda.syncthreads()
            held[t] += other
            cuda.syncthreads()
            step *= 2
        values[t] = held[t]

    values = np.random.default_rng(6).integers(-50, 50, 128)
    want = np.cumsum(values)
    assert np.array_equal(run(scan, 1, 128, values), want)
