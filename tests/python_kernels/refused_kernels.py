"""Kernels that cannot be compiled, each with the line and the sentence that tells why."""

import numpy as np
from numba import cuda
from numba.cuda import types


def count(x):
    cuda.syncthreads_count(x[0] > 1)  # count


def attribute(x):
    x[0] = x.nothing  # attribute


def returns(x):
    return 5  # returns


def unknown(x):
    x[0] = not_defined  # unknown  # noqa: F821


def sized(x):
    held = cuda.shared.array(x.size, types.float64)  # sized
    x[0] = held[0]


def texts(x):
    x[0] = "a" + x[0]  # texts


@cuda.jit(device=True)
def inner(x):
    return x.missing  # deep


def deep(x):
    x[0] = inner(x)


def ufunc(x):
    x[0] = np.exp(x[1])  # ufunc


def generates(x):  # generates
    yield x[0]


def many(*x):  # many
    x[0][0] = 1


SENTENCES = [
    ("count", "count", "there is no `syncthreads_count(bool)` in kernels"),
    ("attribute", "attribute", "Unknown attribute 'nothing' of type array(float64, 1d, C)"),
    ("returns", "returns", "a kernel returns nothing; this one returns Literal[int](5)"),
    ("unknown", "unknown  # noqa: F821", "NameError: name 'not_defined' is not defined"),
    ("sized", "sized", "the shape of a shared or local array is a constant, and its type one that Numba knows"),
    ("texts", "texts", "there is no `add(Literal[str](a), float64)` in kernels"),
    ("deep", "deep", "Unknown attribute 'missing' of type array(float64, 1d, C)"),
    ("ufunc", "ufunc", "there is no NumPy function `exp` in kernels; `math` has most of them"),
    ("generates", "generates", "a kernel is a plain function, no generator and no coroutine"),
    ("many", "many", "the arguments of a kernel are given by position; `*x` is no parameter of that kind"),
]
