"""Mathematics in Python kernels against NumPy and the standard library: float32 and float64, integers, complex numbers, libdevice."""

import cmath
import math

import numpy as np
import pytest
from numba import cuda
from numba.cuda import libdevice

POINTS = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
ONE = {
    "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh, "cos": np.cos, "sin": np.sin,
    "tan": np.tan, "cosh": np.cosh, "sinh": np.sinh, "tanh": np.tanh, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "erf": math.erf, "erfc": math.erfc, "gamma": math.gamma, "lgamma": math.lgamma,
    "ceil": np.ceil, "floor": np.floor, "fabs": np.fabs, "trunc": np.trunc, "radians": np.radians, "degrees": np.degrees,
}  # fmt: skip


def unary(first, second, third):
    """A kernel that applies three functions."""

    @cuda.jit
    def apply(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = first(x[i])
            out[1, i] = second(x[i])
            out[2, i] = third(x[i])

    return apply


NAMES = [name for name in ONE if name != "acosh"]
NAMES += ["acosh"] * (-len(NAMES) % 3 or 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("names", [tuple(NAMES[k : k + 3]) for k in range(0, len(NAMES), 3)], ids="-".join)
def test_functions_of_one_number(run, names, dtype):
    x = POINTS.astype(dtype) + (1 if "acosh" in names else 0)
    out = run(unary(*(getattr(math, name) for name in names)), 1, 32, x, np.zeros((3, x.size), dtype))[1]
    for row, name in zip(out, names, strict=True):
        want = [ONE[name](float(v)) for v in x]
        assert np.allclose(row, want, rtol=4e-7 if dtype == np.float32 else 1e-13 if name == "lgamma" else 4e-15, atol=0), name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_two_numbers(run, dtype):
    @cuda.jit
    def apply(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = math.atan2(x[i], y[i])
            out[1, i] = math.pow(x[i], y[i])
            out[2, i] = math.hypot(x[i], y[i])
            out[3, i] = math.copysign(x[i], -y[i])
            out[4, i] = math.fmod(x[i] * 10, y[i])
            out[5, i] = min(x[i], y[i])
            out[6, i] = max(x[i], y[i])
            out[7, i] = abs(x[i] - y[i])
            out[8, i] = math.ldexp(x[i], 3)
            mantissa, exponent = math.frexp(x[i])
            out[9, i] = mantissa + exponent
            fraction, whole = math.modf(x[i] * 10)
            out[10, i] = fraction + 2 * whole

    x, y = POINTS.astype(dtype), (POINTS[::-1] + 0.3).astype(dtype)
    out = run(apply, 1, 32, x, y, np.zeros((11, x.size), dtype))[2]
    ten = x.astype(np.float64) * 10  # a float32 and an integer meet in float64, as Numba has it
    frexp = [sum(math.frexp(v)) for v in x]
    modf = [math.modf(v)[0] + 2 * math.modf(v)[1] for v in ten]
    want = [np.arctan2(x, y), np.power(x, y), np.hypot(x, y), np.copysign(x, -y), np.fmod(ten, y), np.minimum(x, y), np.maximum(x, y)]
    want += [abs(x - y), np.ldexp(x, 3), frexp, modf]
    for k, (row, expected) in enumerate(zip(out, want, strict=True)):
        assert np.allclose(row, expected, rtol=1e-6 if dtype == np.float32 else 1e-14, atol=1e-6 if dtype == np.float32 else 1e-14), k


def test_tests_of_numbers(run):
    @cuda.jit
    def classify(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = math.isnan(x[i])
            out[1, i] = math.isinf(x[i])
            out[2, i] = math.isfinite(x[i])

    x = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan])
    out = run(classify, 1, 32, x, np.zeros((3, 6), np.int8))[1]
    assert np.array_equal(out, [np.isnan(x), np.isinf(x), np.isfinite(x)])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_integers_divide_as_python_does(run, dtype):
    @cuda.jit
    def divide(a, b, out, quotient):
        i = cuda.grid(1)
        if i < a.size:
            out[0, i] = a[i] // b[i]
            out[1, i] = a[i] % b[i]
            out[2, i] = a[i] << 2
            out[3, i] = a[i] >> 1
            out[4, i] = a[i] ^ b[i]
            out[5, i] = ~a[i]
            out[6, i] = a[i] ** 2
            quotient[i] = a[i] / b[i]

    random = np.random.default_rng(6)
    low = 0 if dtype == np.uint32 else -1000
    a, b = random.integers(low, 1000, 64).astype(dtype), random.integers(1, 30, 64).astype(dtype)
    if dtype != np.uint32:
        b[::2] *= -1
    out, quotient = run(divide, 2, 32, a, b, np.zeros((7, 64), np.int64), np.zeros(64))[2:]
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    inverted = ~wide_a
    assert np.array_equal(out[:5], [wide_a // wide_b, wide_a % wide_b, wide_a << 2, wide_a >> 1, wide_a ^ wide_b])
    assert np.array_equal(out[5], inverted) or dtype == np.uint32 and np.array_equal(out[5] & 0xFFFFFFFF, inverted & 0xFFFFFFFF)
    assert np.array_equal(out[6], wide_a**2)
    assert np.allclose(quotient, wide_a / wide_b, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers(run, dtype):
    @cuda.jit
    def apply(x, y, out, real):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = x[i] + y[i] * x[i]
            out[1, i] = x[i] / y[i]
            out[2, i] = cmath.exp(x[i])
            out[3, i] = cmath.sqrt(y[i])
            out[4, i] = cmath.sin(x[i])
            out[5, i] = complex(x[i].imag, y[i].real)
            out[6, i] = x[i].conjugate()
            real[0, i] = abs(x[i])
            real[1, i] = cmath.phase(y[i])

    random = np.random.default_rng(7)
    x, y = (random.uniform(-1, 1, 32) + 1j * random.uniform(0.1, 1, 32)).astype(dtype), (random.uniform(1, 2, 32) + 0.5j).astype(dtype)
    out, real = run(apply, 1, 32, x, y, np.zeros((7, 32), dtype), np.zeros((2, 32), x.real.dtype))[2:]
    want = [x + y * x, x / y, np.exp(x), np.sqrt(y), np.sin(x), x.imag + 1j * y.real, x.conj()]
    tolerance = 1e-6 if dtype == np.complex64 else 1e-14
    for k, (row, expected) in enumerate(zip(out, want, strict=True)):
        assert np.allclose(row, expected, rtol=tolerance, atol=tolerance), k
    assert np.allclose(real, [abs(x), np.angle(y)], rtol=tolerance)


def test_libdevice(run):
    @cuda.jit
    def apply(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i] = libdevice.rsqrt(x[i])
            out[1, i] = libdevice.j0(x[i])
            out[2, i] = libdevice.normcdf(x[i])
            sine, cosine = libdevice.sincos(x[i])
            out[3, i] = sine * cosine
            out[4, i] = libdevice.fast_powf(x[i], 2.0)

    from scipy import special

    out = run(apply, 1, 32, POINTS, np.zeros((5, POINTS.size)))[1]
    want = [1 / np.sqrt(POINTS), special.j0(POINTS), special.ndtr(POINTS), np.sin(POINTS) * np.cos(POINTS)]
    assert np.allclose(out[:4], want, rtol=1e-13)
    assert np.allclose(out[4], POINTS**2, rtol=1e-5)


def test_fastmath_uses_the_approximate_instructions(run, device):
    def divide(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = math.sin(x[i]) / x[i]

    x = POINTS.astype(np.float32)
    out = run(cuda.jit(fastmath=True)(divide), 1, 32, x, np.zeros(x.size, np.float32))[1]
    assert np.allclose(out, np.sin(x) / x, rtol=1e-5)
    fast, exact = (device.compile(kernel).specialize(x, out).module.ptx for kernel in (cuda.jit(fastmath=True)(divide), divide))
    assert "sin.approx" in fast and "sin.approx" not in exact
