"""Faults planted in Python kernels are found, at the line of the Python source and by the names of the Python arguments."""

import inspect
from contextlib import suppress

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

import gridstride as gs
from python_kernels import debug_kernels


def line_of(kernel, mark):
    """The line of the kernel's source that has `# mark`."""
    lines, first = inspect.getsourcelines(kernel.py_func)
    return first + next(k for k, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}"))


def find(device, kernel, grid, block, *arguments, shared=0):
    """What the checks say of a launch; a kernel that is stopped is no surprise here."""
    with gs.checking() as findings, suppress(gs.KernelFault):
        device.compile(kernel)[grid, block](*arguments, shared=shared)
    return list(findings)


@pytest.fixture
def fresh():
    return gs.device("sim", blocking=True)


def only(findings, kind):
    assert [finding.kind for finding in findings] == [kind]
    return findings[0]


def test_out_of_bounds(fresh):
    @cuda.jit
    def shift(x, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = x[i + 1]  # here

    found = only(find(fresh, shift, 4, 32, np.zeros(128), np.zeros(128)), "out-of-bounds")
    assert (found.site.file, found.site.line) == (__file__, line_of(shift, "here"))
    assert (found.buffer, found.index, found.site.block, found.site.thread) == ("x", 128, (3, 0, 0), (31, 0, 0))
    assert found.message.startswith("reads 8 bytes at `x`[128], outside its 128 elements of 8 bytes (test_faults.py:")


def test_out_of_bounds_in_a_device_function(fresh):
    @cuda.jit(device=True)
    def fetch(values, k):
        return values[k]  # inside

    @cuda.jit
    def gather(values, out):
        i = cuda.grid(1)
        out[i] = fetch(values, i * 2)

    found = only(find(fresh, gather, 1, 32, np.zeros(40, np.float32), np.zeros(32, np.float32)), "out-of-bounds")
    assert found.site.line == line_of(fetch, "inside")
    assert (found.buffer, found.index) == ("values", 40)


def test_negative_indices_wrap_once_as_in_numba(fresh):
    @cuda.jit
    def back(x, out):
        i = cuda.grid(1)
        out[i] = x[i - 40]  # here

    found = only(find(fresh, back, 1, 32, np.zeros(32, np.int32), np.zeros(32, np.int32)), "out-of-bounds")
    assert (found.buffer, found.index, found.site.line) == ("x", -8, line_of(back, "here"))


def test_a_race_in_global_memory(fresh):
    @cuda.jit
    def total(x, out):
        i = cuda.grid(1)
        out[0] += x[i]  # here

    found = find(fresh, total, 2, 32, np.ones(64), np.zeros(1))
    assert {f.kind for f in found} == {"race-global"}
    assert {f.site.line for f in found} == {line_of(total, "here")}
    assert {(f.buffer, f.index) for f in found} == {("out", 0)}
    assert any("cuda.atomic.add" in f.advice for f in found)


def test_a_missing_barrier(fresh):
    @cuda.jit
    def reverse(x):
        held = cuda.shared.array(64, types.float32)
        t = cuda.threadIdx.x
        held[t] = x[t]  # writes
        x[t] = held[63 - t]  # reads

    found = next(f for f in find(fresh, reverse, 1, 64, np.arange(64, dtype=np.float32)) if f.kind == "race-shared")
    assert {found.site.line, found.other.line} == {line_of(reverse, "writes"), line_of(reverse, "reads")}
    assert found.buffer == "held"
    assert "cuda.syncthreads()" in found.advice


def test_a_divergent_barrier(fresh):
    @cuda.jit
    def half(x):
        t = cuda.threadIdx.x
        if t < 16:
            cuda.syncthreads()  # here
        x[t] = 1

    found = find(fresh, half, 1, 64, np.zeros(64))
    assert {f.kind for f in found} <= {"divergent-barrier", "deadlock"} and found
    assert line_of(half, "here") in {f.site.line for f in found}


def test_uninitialised_shared_memory(fresh):
    @cuda.jit
    def sums(x):
        held = cuda.shared.array(64, types.int32)
        t = cuda.threadIdx.x
        if t % 2 == 0:
            held[t] = t
        cuda.syncthreads()
        if held[t] > 3:  # here
            x[t] = 1

    found = only(find(fresh, sums, 1, 64, np.zeros(64, np.int32)), "uninitialised")
    assert found.site.line == line_of(sums, "here")
    assert found.buffer == "held"


def test_an_output_that_nobody_wrote(fresh):
    @cuda.jit
    def some(out):
        i = cuda.grid(1)
        if i < 90:
            out[i] = 1

    out = fresh.empty(100, np.float64, name="out")
    with gs.checking() as findings:
        fresh.compile(some)[4, 32](out)
        out.numpy()
    assert {f.kind for f in findings} == {"uninitialised"}
    assert {(f.buffer, f.index) for f in findings} == {("out", 90)}


def test_shared_memory_that_the_launch_did_not_give(fresh):
    @cuda.jit
    def dynamic(x):
        held = cuda.shared.array(0, types.float64)
        held[cuda.threadIdx.x] = x[cuda.threadIdx.x]  # here
        cuda.syncthreads()
        x[cuda.threadIdx.x] = held[0]

    found = only(find(fresh, dynamic, 1, 32, np.zeros(32), shared=8 * 31), "out-of-bounds")
    assert found.site.line == line_of(dynamic, "here")
    assert found.site.thread == (31, 0, 0)


def test_a_lane_outside_of_the_mask(fresh):
    @cuda.jit
    def fold(out):
        t = cuda.threadIdx.x
        if t < 12:
            out[t] = cuda.shfl_down_sync(0xFFF, t, 4)  # here

    found = only(find(fresh, fold, 1, 32, np.zeros(32, np.int32)), "warp-mask")
    assert found.site.line == line_of(fold, "here")


def test_local_arrays_have_an_end(fresh):
    @cuda.jit
    def stack(x, n):
        kept = cuda.local.array(4, types.float64)
        for k in range(n):
            kept[k] = x[k]  # here
        for k in range(n):
            x[k] = kept[n - 1 - k]

    found = only(find(fresh, stack, 1, 1, np.zeros(8), 5), "out-of-bounds")
    assert found.space == "local"


def test_a_loop_without_an_end():
    device = gs.device("sim", blocking=True, budget=10_000)

    @cuda.jit
    def spin(x):
        while x[0] == 0:
            x[1] += 1

    with pytest.raises(gs.KernelFault, match="10,000 loop iterations") as caught:
        device.compile(spin)[1, 32](device.zeros(2, np.int32))
    assert caught.value.code == "budget"


@pytest.mark.parametrize(
    "a, b, code, kind, mark, sentence",
    [
        (-1, 3, "assert", "builtins.AssertionError", "asserts", "an assertion does not hold: no debts"),
        (5, 7, "trap", "builtins.ValueError", "raises", "raises ValueError: seven is not shared"),
        (5, 0, "trap", "builtins.ZeroDivisionError", "divides", "raises ZeroDivisionError: integer division by zero"),
    ],
)
def test_exceptions_are_told_after_the_launch_and_the_device_goes_on(device, a, b, code, kind, mark, sentence):
    host_a, host_b = np.full(64, 9), np.full(64, 3)
    host_a[41], host_b[41] = a, b
    line = line_of(debug_kernels.share if mark == "raises" else debug_kernels.shares, mark)
    with gs.checking() as findings, pytest.raises(gs.KernelFault) as caught:
        device.compile(debug_kernels.shares)[2, 32](host_a, host_b)
    assert caught.value.code == code
    assert str(caught.value) == f"kernel `shares`: {sentence} (debug_kernels.py:{line}, block (1,0,0), thread (9,0,0))"
    assert caught.value.raised.kind == kind
    if device.name.startswith("sim"):  # a GPU's launches are not checked
        assert [(f.kind, f.site.line, f.site.thread) for f in findings] == [(code, line, (9, 0, 0))]
    host_a, host_b = np.full(64, 9), np.full(64, 3)
    device.compile(debug_kernels.shares)[2, 32](host_a, host_b)
    assert (host_a == 3).all()


def test_exceptions_are_not_sticky_on_a_device_that_does_not_block():
    device = gs.device("sim", blocking=False)
    a, b = device.array(np.full(64, 9)), device.array(np.full(64, 0))
    kernel = device.compile(debug_kernels.shares)
    with pytest.raises(gs.KernelFault, match="ZeroDivisionError"):
        kernel[2, 32](a, b)
    b.fill(3)
    kernel[2, 32](a, b)
    assert (a.numpy() == 3).all()


def test_without_debug_a_failing_assertion_ends_its_thread_and_nothing_is_said(run):
    assert run(debug_kernels.quiet, 1, 1, np.zeros(2)).tolist() == [0, 0]
