"""Kernels with `assert`, which pytest would rewrite in a test file."""

from numba import cuda


@cuda.jit(device=True, debug=True, opt=False)
def share(a, b):
    if b == 7:
        raise ValueError("seven is not shared")  # raises
    return a


@cuda.jit(debug=True, opt=False)
def shares(a, b):
    i = cuda.grid(1)
    if i < a.size:
        assert a[i] >= 0, "no debts"  # asserts
        a[i] = share(a[i], b[i]) // b[i]  # divides


@cuda.jit
def quiet(x):
    assert x[0] == 1
    x[1] = 5
