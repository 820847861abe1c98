"""CUDA C++ kernels whose results were measured on an H200 (`h200.npz`), and their inputs. `measure_on_gpu.py` made the file.

Kernel -> source, inputs, outputs. Every kernel takes its input arrays, then its output arrays; N threads run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

N = 96
FEATURES = Path(__file__).parent / "features.cu"

_ONE = """sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt cbrt rcbrt
erf erfc erfinv erfcinv erfcx normcdf normcdfinv tgamma lgamma j0 j1 y0 y1 ceil floor trunc round rint nearbyint fabs logb sinpi cospi
cyl_bessel_i0 cyl_bessel_i1"""
_TWO = "pow atan2 hypot rhypot fmod remainder fdim fmin fmax copysign nextafter"
_OTHERS = {
    "ldexp": "ldexp{f}(x, int(threadIdx.x) - 40)",
    "scalbn": "scalbn{f}(y, int(threadIdx.x) * 7 - 300)",
    "jn": "jn{f}(3, x)",
    "yn": "yn{f}(3, x)",
    "fma": "fma{f}(x, y, x)",
    "norm3d": "norm3d{f}(x, y, x)",
    "rnorm4d": "rnorm4d{f}(x, y, x, y)",
    "ilogb": "T(ilogb{f}(x))",
    "lround": "T(lround{f}(x))",
    "llrint": "T(llrint{f}(y))",
    "frexp": "[&] { int e; T m = frexp{f}(x, &e); return m + e; }()",
    "modf": "[&] { T whole; T part = modf{f}(x, &whole); return whole - 3 * part; }()",
    "remquo": "[&] { int q; T r = remquo{f}(x, y, &q); return r + (q & 7); }()",
    "sincos": "[&] { T s, c; sincos{f}(x, &s, &c); return s - 2 * c; }()",
}
_SINGLE_ONLY = {
    **{f"__{n}f": f"__{n}f(x)" for n in ("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10")},
    "__powf": "__powf(x, y)",
    "__fdividef": "__fdividef(x, y)",
    **{f"__{n}_{r}": f"__{n}_{r}({a})" for n, a in (("fsqrt", "x"), ("frcp", "x"), ("fadd", "x, y"), ("fmul", "x, y"), ("fdiv", "x, y"), ("fmaf", "x, y, x")) for r in ("rn", "rz", "ru", "rd")},
    "__frsqrt_rn": "__frsqrt_rn(x)",
    "__saturatef": "__saturatef(x)",
    **{f"__float2{i}_{r}": f"float(__float2{i}_{r}(x))" for i in ("int", "uint", "ll", "ull") for r in ("rn", "rz", "ru", "rd")},
}
_DOUBLE_ONLY = {
    **{f"__{n}_{r}": f"__{n}_{r}({a})" for n, a in (("dsqrt", "x"), ("drcp", "x"), ("dadd", "x, y"), ("dmul", "x, y"), ("ddiv", "x, y"), ("fma", "x, y, x")) for r in ("rn", "rz", "ru", "rd")},
    **{f"__double2{i}_{r}": f"double(__double2{i}_{r}(x))" for i in ("int", "uint", "ll", "ull", "float") for r in ("rn", "rz", "ru", "rd")},
}
GROUP = 16  # functions of one kernel


def functions(double: bool) -> dict[str, str]:
    """Expression in x and y of every function."""
    f = "" if double else "f"
    found = {name: f"{name}{f}(x)" for name in _ONE.split()} | {name: f"{name}{f}(x, y)" for name in _TWO.split()}
    found |= {name: text.replace("{f}", f) for name, text in _OTHERS.items()}
    return found | (_DOUBLE_ONLY if double else _SINGLE_ONLY)


def groups(double: bool) -> list[list[str]]:
    names = list(functions(double))
    return [names[k : k + GROUP] for k in range(0, len(names), GROUP)]


def math_source(double: bool) -> str:
    """Kernels math0, math1 … (x, y, out): function k of a group goes to out[k * N + t]."""
    kind, text = ("double" if double else "float"), functions(double)
    kernels = []
    for number, names in enumerate(groups(double)):
        lines = "\n".join(f"  out[{k} * {N} + t] = {text[name]};" for k, name in enumerate(names))
        kernels.append(
            f'extern "C" __global__ void math{number}(const T* px, const T* py, T* out) {{\n'
            f"  int t = threadIdx.x + blockIdx.x * blockDim.x; T x = px[t], y = py[t];\n{lines}\n}}\n"
        )
    return f"typedef {kind} T;\n" + "".join(kernels)


def math_inputs(double: bool) -> tuple[npt.NDArray[np.float64 | np.float32], npt.NDArray[np.float64 | np.float32]]:
    """Special values, and numbers of all sizes."""
    random = np.random.default_rng(11)
    dtype = np.float64 if double else np.float32
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-40, -3e-39, 1e-310, 2.5, -2.5, 3.0, 1e6, 123456.789, 1e22, 88.0, -104.0, 709.0]
    rest = N - len(special)
    x = np.concatenate([special, random.standard_normal(rest // 2), random.standard_normal(rest - rest // 2) * 10.0 ** random.integers(-6, 4, rest - rest // 2)])
    y = random.permutation(np.concatenate([[2.0, -1.0, 0.5, 0.0, np.inf, np.nan, 3.0], random.standard_normal(N - 7) * 4]))
    with np.errstate(over="ignore"):
        return x.astype(dtype), y.astype(dtype)


@dataclass(frozen=True)
class FeatureCase:
    """A kernel of features.cu: what goes in and how large what comes out is."""

    inputs: tuple[npt.NDArray[np.generic], ...]
    output: tuple[int, type[np.generic]]


def feature_cases() -> dict[str, FeatureCase]:
    random = np.random.default_rng(5)
    words = random.integers(-(2**31), 2**31, N).astype(np.int32)
    singles = (random.standard_normal(N) * 2).astype(np.float32)
    longs = random.integers(-(2**63), 2**63, N)
    doubles = random.standard_normal(N)
    return {
        "lambdas": FeatureCase((words,), (N, np.int32)),
        "classes": FeatureCase((singles,), (N, np.float32)),
        "unions": FeatureCase((singles,), (N, np.uint32)),
        "bitfields": FeatureCase((words,), (N, np.int32)),
        "wide_integers": FeatureCase((longs,), (2 * N, np.uint64)),
        "wide_division": FeatureCase((longs,), (4 * N, np.int64)),
        "halves": FeatureCase((singles,), (4 * N, np.float32)),
        "bfloats": FeatureCase((singles,), (4 * N, np.float32)),
        "integer_intrinsics": FeatureCase((words,), (40 * N, np.uint32)),
        "video_intrinsics": FeatureCase((words,), (64 * N, np.uint32)),
        "carries": FeatureCase((words,), (12 * N, np.uint32)),
        "passed_by_value": FeatureCase((words,), (6 * N, np.int32)),
        "tables": FeatureCase((words,), (4 * N, np.int32)),
        "strings": FeatureCase((words,), (3 * N, np.int32)),
        "converts": FeatureCase((doubles,), (8 * N, np.int64)),
        "inline_assembly": FeatureCase((words,), (10 * N, np.uint32)),
        "warps": FeatureCase((words,), (8 * N, np.int32)),
    }
