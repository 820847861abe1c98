"""The rest of what Python kernels are written with: device functions, loops, grids, print, random numbers, float16, vector types, cooperation."""

import enum
import math

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64, xoroshiro128p_uniform_float32


class Mode(enum.IntEnum):
    DOUBLE = 2
    TRIPLE = 3


@cuda.jit(device=True)
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@cuda.jit(device=True, inline="always")
def both(a, b):
    return a + b, a - b


@cuda.jit(device=True)
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def test_device_functions(run):
    @cuda.jit
    def call(a, b, out):
        i = cuda.grid(1)
        if i < a.size:
            plus, minus = both(a[i], b[i])
            out[i] = gcd(a[i], b[i]) + plus * minus

    a, b = np.random.default_rng(1).integers(1, 500, (2, 64))
    assert np.array_equal(run(call, 2, 32, a, b, np.zeros(64, np.int64))[2], np.gcd(a, b) + (a + b) * (a - b))


def test_a_device_function_that_calls_itself(run):
    @cuda.jit
    def call(out):
        i = cuda.grid(1)
        out[i] = factorial(i % 10)

    assert run(call, 1, 32, np.zeros(32, np.int64)).tolist() == [math.factorial(i % 10) for i in range(32)]


def test_device_functions_take_arrays_and_give_tuples(run):
    @cuda.jit(device=True)
    def extremes(values, low, high):
        least, most = values[low], values[low]
        for k in range(low + 1, high):
            least, most = min(least, values[k]), max(most, values[k])
        return least, most

    @cuda.jit
    def call(values, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            out[i, 0], out[i, 1] = extremes(values, 8 * i, 8 * i + 8)

    values = np.random.default_rng(2).random(256)
    rows = values.reshape(32, 8)
    assert np.array_equal(run(call, 1, 32, values, np.zeros((32, 2)))[1], np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_grids_and_strides_over_them(run, dimensions):
    @cuda.jit
    def line(out):
        for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
            out[i] += i

    @cuda.jit
    def plane(out):
        x, y = cuda.grid(2)
        wide, high = cuda.gridsize(2)
        for i in range(x, out.shape[0], wide):
            for j in range(y, out.shape[1], high):
                out[i, j] += i * 100 + j

    @cuda.jit
    def room(out):
        x, y, z = cuda.grid(3)
        wide, high, deep = cuda.gridsize(3)
        for i in range(x, out.shape[0], wide):
            for j in range(y, out.shape[1], high):
                for k in range(z, out.shape[2], deep):
                    out[i, j, k] += i * 10000 + j * 100 + k

    kernel, grid, block, shape = {
        1: (line, 3, 32, (1000,)),
        2: (plane, (2, 3), (8, 4), (40, 50)),
        3: (room, (2, 1, 2), (4, 2, 4), (10, 11, 12)),
    }[dimensions]
    index = np.indices(shape)
    want = sum(axis * 100 ** (dimensions - 1 - k) for k, axis in enumerate(index))
    assert np.array_equal(run(kernel, grid, block, np.zeros(shape, np.int64)), want)


def test_indices_and_extents_of_the_launch(run):
    @cuda.jit
    def tell(out):
        n = 0
        for value in (
            cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z, cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z,
            cuda.blockDim.x, cuda.blockDim.y, cuda.blockDim.z, cuda.gridDim.x, cuda.gridDim.y, cuda.gridDim.z,
        ):  # fmt: skip
            if cuda.threadIdx.x == 3 and cuda.threadIdx.y == 1 and cuda.threadIdx.z == 2 and cuda.blockIdx.x == 1 and cuda.blockIdx.y == 2 and cuda.blockIdx.z == 0:
                out[n] = value
            n += 1  # noqa: SIM113

    assert run(tell, (2, 3, 1), (4, 2, 3), np.zeros(12, np.int64)).tolist() == [3, 1, 2, 1, 2, 0, 4, 2, 3, 2, 3, 1]


def test_control_flow(run):
    @cuda.jit
    def walk(out, mode):
        i = cuda.grid(1)
        if i >= out.size:
            return
        total = 0
        n = i
        while True:
            if n > 100:
                break
            if n % 2 == 0:
                n += 3
                continue
            total += n if n % 3 else -n
            n += 5
        for k, value in enumerate((1, 2, 3)):
            total += k * value
        for a, b in zip((1, 2), (3, 4)):  # noqa: B905 - Numba takes no `strict`
            total += a * b
        if mode == Mode.TRIPLE and not (i == 5 or 10 < i <= 12):
            total *= 3
        out[i] = total

    def host(i):
        total, n = 0, i
        while n <= 100:
            if n % 2 == 0:
                n += 3
                continue
            total += n if n % 3 else -n
            n += 5
        total += 2 + 6 + 3 + 8
        return total * 3 if not (i == 5 or 10 < i <= 12) else total

    assert run(walk, 2, 32, np.zeros(60, np.int64), Mode.TRIPLE).tolist() == [host(i) for i in range(60)]


def test_print_in_kernels(device, capfd):
    @cuda.jit
    def say(x, n):
        i = cuda.grid(1)
        if i < 2:
            print("thread", i, "has", x[i], "of", n)

    device.compile(say)[1, 32](np.array([1.5, -2.0]), 7)
    assert capfd.readouterr().out == "thread 0 has 1.500000 of 7\nthread 1 has -2.000000 of 7\n"


def test_random_states(run):
    """The states are Numba's own, made on the host; what they give has the moments of the distribution, and the same each time."""
    from numba.cuda.random import init_xoroshiro128p_states_cpu, xoroshiro128p_dtype

    @cuda.jit
    def draw(states, uniform, normal):
        i = cuda.grid(1)
        if i < uniform.size:
            uniform[i] = xoroshiro128p_uniform_float32(states, i)
            normal[i] = xoroshiro128p_normal_float64(states, i)

    assert create_xoroshiro128p_states is not None

    def once():
        states = np.empty(2048, xoroshiro128p_dtype)
        init_xoroshiro128p_states_cpu(states, 1, 0)
        return run(draw, 16, 128, states, np.zeros(2048, np.float32), np.zeros(2048))[1:]

    uniform, normal = once()
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 4 * math.sqrt(1 / 12 / 2048)
    assert abs(normal.mean()) < 4 / math.sqrt(2048) and abs(normal.var() - 1) < 4 * math.sqrt(2 / 2048)
    again = once()
    assert np.array_equal(uniform, again[0]) and np.array_equal(normal, again[1])


def test_float16(run):
    @cuda.jit
    def halves(a, b, out, flags):
        i = cuda.grid(1)
        if i < a.size:
            out[0, i] = a[i] + b[i]
            out[1, i] = a[i] * b[i] - a[i]
            out[2, i] = cuda.fp16.hfma(a[i], b[i], a[i])
            out[3, i] = a[i] / b[i]
            out[4, i] = -abs(b[i])
            out[5, i] = cuda.fp16.hmax(a[i], b[i])
            out[6, i] = np.float16(math.sqrt(a[i]))
            flags[i] = a[i] < b[i]

    a, b = np.random.default_rng(3).uniform(0.5, 2, (2, 64)).astype(np.float16)
    out, flags = run(halves, 2, 32, a, b, np.zeros((7, 64), np.float16), np.zeros(64, np.bool_))[2:]
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    want = [a + b, a * b - a, (wide_a * wide_b + wide_a).astype(np.float16), a / b, -b, np.maximum(a, b), np.sqrt(a)]
    for k, (row, expected) in enumerate(zip(out, want, strict=True)):
        assert np.array_equal(row, expected), k
    assert np.array_equal(flags, a < b)


def test_a_float16_argument(run):
    @cuda.jit
    def scale(a, factor):
        i = cuda.grid(1)
        a[i] = a[i] * factor

    assert np.array_equal(run(scale, 1, 32, np.arange(32, dtype=np.float16), np.float16(1.5)), np.arange(32, dtype=np.float16) * np.float16(1.5))


def test_vector_types(run):
    @cuda.jit
    def vectors(out):
        i = cuda.grid(1)
        v = cuda.float32x4(i, 2 * i, 3.0, 4.0)
        w = cuda.int32x2(i, 7)
        pair = cuda.float32x2(v.x, v.y)
        out[i] = v.x + v.y * v.z + v.w + w.x * w.y + cuda.float32x4(pair, 1.0, 2.0).w

    i = np.arange(32, dtype=np.float32)
    assert np.array_equal(run(vectors, 1, 32, np.zeros(32, np.float32)), i + 2 * i * 3 + 4 + i * 7 + 2)


def test_the_grid_synchronises(run):
    @cuda.jit
    def rounds(values, other, steps):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        n = values.size
        for _ in range(steps):
            other[i] = values[(i + 1) % n] + values[i]
            grid.sync()
            values[i] = other[i]
            grid.sync()

    start = np.arange(128)
    want = start.copy()
    for _ in range(3):
        want = np.roll(want, -1) + want
    assert np.array_equal(run(rounds, 4, 32, start, np.zeros(128, np.int64), 3)[0], want)


def test_nanosleep(run):
    @cuda.jit
    def wait(out):
        cuda.nanosleep(100)
        out[cuda.grid(1)] = 1

    assert run(wait, 1, 32, np.zeros(32)).all()


def test_bounds_and_registers_of_a_launch_are_in_the_ptx(device):
    @cuda.jit(launch_bounds=(128, 2), max_registers=40)
    def bounded(x):
        x[cuda.grid(1)] = 1

    x = np.zeros(128)
    kernel = device.compile(bounded)
    kernel[1, 128](x)
    ptx = kernel.specialize(x).module.ptx
    assert ".maxntid 128" in ptx and ".minnctapersm 2" in ptx and ".maxnreg 40" in ptx
    assert kernel.specialize(x).max_threads == 128
    with pytest.raises(Exception, match="128"):
        kernel[1, 256](np.zeros(256))


def test_numbers_of_every_width_in_and_out(run):
    @cuda.jit
    def cast(x, out):
        i = cuda.grid(1)
        out[0, i] = np.int8(x[i])
        out[1, i] = np.uint8(x[i])
        out[2, i] = np.int16(x[i])
        out[3, i] = types.uint16(x[i])
        out[4, i] = np.int32(x[i])
        out[5, i] = int(np.float32(x[i]) + np.float32(0.5))

    x = np.array([0, 1, -1, 127, 128, 300, -300, 70000] * 4)
    out = run(cast, 1, 32, x, np.zeros((6, 32), np.int64))[1]
    for row, dtype in zip(out, (np.int8, np.uint8, np.int16, np.uint16, np.int32), strict=False):
        assert np.array_equal(row, x.astype(dtype))
    assert np.array_equal(out[5], np.trunc(x.astype(np.float32) + np.float32(0.5)).astype(np.int64))
