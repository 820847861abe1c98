"""The check `double-write`: who wrote each element of an output, held against NumPy's count of the same writes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gridstride as gs

SOURCE = """
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void scatter(int n, const int* to, float* y) { int i = I; if (i < n) y[to[i]] = i; }
extern "C" __global__ void twice(int n, float* y) { int i = I; if (i < n) { y[i] = 0; y[i] += i; atomicAdd(&y[i], 1.0f); } }
extern "C" __global__ void vectors(int n, float4* y) { int i = I; if (4 * i < n) y[i] = make_float4(i, i, i, i); }
extern "C" __global__ void overlapping(int n, float* y) { int i = I; if (i + 4 <= n) { y[i] = 1; *(int*)(y + i + 3) = 2; } }
extern "C" __global__ void bytes(int n, unsigned char* y) { int i = I; if (i < n) y[i] = i; }
extern "C" __global__ void halves(int n, unsigned short* y) { int i = I; if (i < 2 * n) ((unsigned char*)y)[i] = i; }
extern "C" __global__ void counted(int n, int* y) { int i = I; if (i < n) atomicAdd(&y[i / 2], 1); }
extern "C" __global__ void handed_on(int n, float* y) {  // ordered by a barrier, so no race, and still two threads
    int t = threadIdx.x;
    if (t < n) y[t] = 1;
    __syncthreads();
    if (t < n) y[n - 1 - t] = 2;
}
extern "C" __global__ void generic(int n, int which, float* y) {
    __shared__ float s[64]; float l[4];
    float* p = which == 0 ? s + threadIdx.x : which == 1 ? l + (n & 3) : y + I;
    if ((int)I < n) *p = 1;
    if (which < 2 && (int)I < n) y[I] = *p;
}
extern "C" __global__ void rows(int width, int height, int pitch, float* y, int beyond) {
    int x = I, row = blockIdx.y;
    if (x < width + beyond && row < height) y[row * pitch + x] = x;
}
"""
CLAUSES = {"extent": "n", "covers": "y"}


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def found_in(kernel: gs.Kernel, grid: object, block: int, *arguments: object, checks: str = "double-write") -> list[str]:
    with gs.checking(checks) as findings:
        kernel[grid, block](*arguments)
    assert all(found.code == "GS503" and found.kind == "double-write" and found.severity == "error" for found in findings)
    return [found.message for found in findings]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 79), min_size=1, max_size=80), st.integers(1, 40), st.integers(1, 80))
@example([0], 1, 1)
@example([5, 5], 32, 10)
def test_scattered_writes_against_numpy(to: list[int], block: int, extent: int) -> None:
    kernel = scatter()
    n = len(to)
    x, y = kernel.device.array(np.array(to, np.int32)), kernel.device.empty(80)
    contract = gs.Contract(covers="y", extents={"y": extent})
    writes = np.bincount(to, minlength=80)
    messages = found_in(kernel.with_contract(contract), -(-n // block), block, n, x, y)
    assert any("both write" in message for message in messages) == bool((writes > 1).any())
    assert any("no thread writes" in message for message in messages) == bool((writes[:extent] == 0).any())
    assert any("outside of the" in message for message in messages) == bool((writes[extent:] > 0).any())
    once = found_in(kernel.with_contract(gs.Contract(writes_once="y")), -(-n // block), block, n, x, y)
    assert any(once) == bool((writes > 1).any())


@cache
def scatter() -> gs.Kernel:
    """Compiled once for all examples."""
    return gs.device("sim").compile(SOURCE)["scatter"]


def test_the_whole_sentences(module: gs.Module) -> None:
    kernel, device = module["scatter"].with_contract(gs.Contract(**CLAUSES)), module.device
    y = device.empty(100)
    to = np.arange(100, dtype=np.int32)
    to[70] = 3
    assert found_in(kernel, 2, 64, 100, device.array(to), y) == [
        "thread (6,0,0) of block (1,0,0) and thread (3,0,0) of block (0,0,0) both write `y`[3], and the contract gives each element to one thread (both kernel.cu:3)",
        "no thread writes `y`[70] of 100 elements",
    ]
    assert found_in(kernel, 2, 64, 90, device.array(np.arange(100, dtype=np.int32)), y) == []
    assert found_in(kernel, 1, 64, 4, device.array(np.array([0, 1, 6, 7], np.int32)), y) == [
        "no thread writes `y`[2], the first of 2 elements left out of 4",
        "a thread writes `y`[6], outside of the 4 elements of the contract, one of 2 such places (kernel.cu:3, block (0,0,0), thread (2,0,0))",
    ]


def test_both_threads_and_both_lines_are_in_the_finding(module: gs.Module) -> None:
    kernel = module["handed_on"].with_contract(gs.Contract(**CLAUSES))
    y = module.device.empty(64)
    with gs.checking() as findings:
        kernel[1, 64](64, y)
    [found] = [found for found in findings if found.kind == "double-write"]
    assert [found for found in findings if found.kind.startswith("race")] == []  # the barrier orders them
    assert found.other is not None and (found.site.line, found.other.line) == (14, 12)
    assert found.site.thread is not None and found.other.thread is not None
    assert found.site.thread[0] + found.other.thread[0] == 63 and found.buffer == "y" and found.count == 64
    assert found.index == found.other.thread[0]
    assert found.advice.startswith("give each element to one thread")


def test_several_writes_of_one_thread_are_one(module: gs.Module) -> None:
    assert found_in(module["twice"].with_contract(gs.Contract(**CLAUSES)), 3, 64, 150, module.device.zeros(150)) == []


@pytest.mark.parametrize("n", [64, 100, 256])
def test_vectors_count_for_each_element(module: gs.Module, n: int) -> None:
    kernel = module["vectors"].with_contract(gs.Contract(extent="n", elements_per_thread=4, grid_stride=True, covers="y"))
    assert found_in(kernel, 2, 32, n, module.device.empty(n)) == []
    messages = found_in(kernel, 1, 16, n, module.device.empty(n))
    expected = {64: [], 100: ["no thread writes `y`[64], the first of 36 elements left out of 100"]}
    assert messages == expected.get(n, ["no thread writes `y`[64], the first of 192 elements left out of 256"])


def test_accesses_of_other_types_meet(module: gs.Module) -> None:
    messages = found_in(module["overlapping"].with_contract(gs.Contract(writes_once="y")), 1, 32, 16, module.device.empty(16))
    assert len(messages) == 1 and "both write `y`[" in messages[0]


def test_threads_that_share_the_bytes_of_an_element(module: gs.Module) -> None:
    kernel = module["bytes"].with_contract(gs.Contract(**CLAUSES))
    assert found_in(kernel, 1, 64, 64, module.device.empty(64, np.uint8)) == []
    [message] = found_in(module["halves"].with_contract(gs.Contract(covers="y")), 1, 64, 32, module.device.empty(32, np.uint16))
    assert message.startswith("thread (1,0,0) and thread (0,0,0) both write `y`[0], and the contract gives")


def test_atomic_updates_are_writes(module: gs.Module) -> None:
    [message] = found_in(module["counted"].with_contract(gs.Contract(writes_once="y")), 1, 64, 64, module.device.zeros(64, np.int32))
    assert "both atomically update `y`[0], and the contract gives each element to one thread" in message


@pytest.mark.parametrize("which", [0, 1, 2])
def test_generic_addresses(module: gs.Module, which: int) -> None:
    kernel = module["generic"].with_contract(gs.Contract(**CLAUSES))
    assert found_in(kernel, 2, 64, 100, which, module.device.empty(100)) == []


def test_rows_with_gaps_between_them(module: gs.Module) -> None:
    contract = gs.Contract(extent=("width", "height"), covers="y", grid_stride=True)
    kernel, device = module["rows"].with_contract(contract), module.device
    y = device.pitched((7, 50), np.float32)
    pitch = y.strides[0] // 4
    assert found_in(kernel, (1, 7), 64, 50, 7, pitch, y, 0) == []
    assert found_in(kernel, (1, 6), 64, 50, 6, pitch, y, 1) == [
        "a thread writes `y` between its rows, outside of the 300 elements of the contract, one of 6 such places (kernel.cu:24, block (0,0,0), thread (50,0,0))"
    ]
    assert found_in(kernel, (1, 6), 64, 50, 7, pitch, y, 0) == ["no thread writes `y`[300] (6, 0), the first of 50 elements left out of 350"]
    part = y[:5, :20]  # a box of it is the extent of a smaller launch
    assert found_in(kernel, (1, 5), 64, 20, 5, pitch, part, 0) == []
    assert found_in(kernel, (1, 5), 64, 20, 5, pitch, y, 1) == [
        "a thread writes `y`[20], outside of the 100 elements of the contract, one of 5 such places (kernel.cu:24, block (0,0,0), thread (20,0,0))"
    ]


def test_what_the_receipt_says(module: gs.Module) -> None:
    device, kernel = module.device, module["twice"]
    with gs.checking() as findings:
        kernel[1, 64](64, device.zeros(64))
    assert "double-write" not in findings.receipt.checks and findings.receipt.skipped == ()
    with gs.checking("double-write") as findings:
        kernel[1, 64](64, device.zeros(64))
    assert findings.receipt.skipped == ("double-write: no contract speaks of a launch",)
    with gs.checking("double-write") as findings:
        kernel[1, 64](64, device.zeros(64))
        kernel.with_contract(gs.Contract(**CLAUSES))[1, 64](64, device.zeros(64))
    receipt = findings.receipt
    assert "double-write" in receipt.checks and receipt.skipped == ()
    # a store and an atomic of each of two warps; the loads are not looked at
    assert (receipt.accesses, receipt.bytes) == (4, 4 * 32 * 4)


def test_a_suppressed_finding_stays_away(module: gs.Module) -> None:
    source = SOURCE.replace("y[to[i]] = i; }", "y[to[i]] = i; }  // gridstride: ignore[double-write]")
    kernel = module.device.compile(source)["scatter"].with_contract(gs.Contract(writes_once="y"))
    assert found_in(kernel, 1, 64, 4, module.device.array(np.zeros(4, np.int32)), module.device.empty(8)) == []
