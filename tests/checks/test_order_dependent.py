"""Launches under other orders: what differs, and whether it is rounding only."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.observers.checks.order_dependent import Difference, difference

SOURCE = r"""
#include <cstdio>
__device__ double total;
__global__ void sum(const float* a, float* out) { atomicAdd(out, a[blockIdx.x * blockDim.x + threadIdx.x]); }
__global__ void sum_variable(const double* a) { atomicAdd(&total, a[blockIdx.x * blockDim.x + threadIdx.x]); }
__global__ void winner(int* out) { if (threadIdx.x == 0) out[1] = blockIdx.x; }
__global__ void ticket(int* counter, int* out) { if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(counter, 1); }
__global__ void steady(const float* a, float* out) { int i = blockIdx.x * blockDim.x + threadIdx.x; printf("%d\n", i); out[i] += a[i]; }
__global__ void stumble(int* seen, int* out) {
    if (threadIdx.x == 0) { int k = atomicAdd(seen, 1); if (blockIdx.x == 3 && k == 0) out[1 << 30] = 1; }
}
__global__ void lane_lock(int* lock, int* count) {
    while (atomicCAS(lock, 0, 1) != 0);
    count[0]++; __threadfence(); atomicExch(lock, 0);
}
__global__ void patient_lane_lock(int* lock, int* count, unsigned* tries) {
    while (atomicCAS(lock, 0, 1) != 0) { atomicAdd(tries, 1u); __nanosleep(20); }
    count[0]++; __threadfence(); atomicExch(lock, 0);
}
__global__ void allocate(int* out) { int* p = (int*)malloc(4); p[0] = 1; out[threadIdx.x] = p[0]; }
"""


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim").compile(SOURCE)


def spread(count: int) -> np.ndarray:
    """Positive numbers of many magnitudes, whose sums round differently in every order."""
    rng = np.random.default_rng(1)
    return rng.uniform(1, 2, count) * 10.0 ** rng.integers(-4, 4, count)


def test_sums_of_floats_differ_by_rounding_only(module: gs.Module) -> None:
    device = module.device
    a, out = device.array(spread(1024).astype(np.float32)), device.zeros(1)
    with gs.checking("none", schedules=6) as findings:
        module["sum"][32, 32](a, out)
    (found,) = findings
    assert (found.code, found.kind, found.severity, found.buffer) == ("GS502", "order-dependent", "note", "out")
    assert re.match(r"`out` depends on the order of execution by floating-point rounding only: 1 of 1 elements differ with", found.message)
    # what the program goes on with is the natural order's result, and it was added once only
    assert out.item() == pytest.approx(a.numpy().astype(np.float64).sum(), rel=1e-5)


def test_a_variable_of_the_module_is_known_by_name_and_type(module: gs.Module) -> None:
    a = module.device.array(spread(1024))
    with gs.checking("none", schedules=6) as findings:
        module["sum_variable"][32, 32](a)
    assert [(f.buffer, f.severity) for f in findings] == [("total", "note")]


def test_values_that_differ_name_the_seed_that_replays_them(module: gs.Module) -> None:
    out = module.device.zeros(2, np.int32)
    with gs.checking("none", schedules=4) as findings:
        module["winner"][8, 32](out)
    (found,) = findings
    assert (found.severity, found.index) == ("warning", 1)
    natural = out.numpy()[1]
    seed = int(re.search(r"--seed (\d+)", found.advice)[1])  # type: ignore[index]
    assert f"seed {seed}" in found.message or f"most with {seed}" in found.message
    again = gs.device("sim", seed=seed)
    replayed = again.zeros(2, np.int32)
    again.compile(SOURCE)["winner"][8, 32](replayed)
    assert replayed.numpy()[1] != natural


def test_places_that_a_counter_hands_out_are_a_warning_no_error(module: gs.Module) -> None:
    counter, out = module.device.zeros(1, np.int32), module.device.zeros(16, np.int32)
    with gs.checking("all", schedules=3) as findings:
        module["ticket"][16, 32](counter, out)
    assert [(f.kind, f.severity, f.buffer) for f in findings] == [("order-dependent", "warning", "out")]
    assert counter.item() == 16


def test_a_kernel_without_order_is_clean_and_prints_once(module: gs.Module, capsys: pytest.CaptureFixture[str]) -> None:
    a, out = module.device.array(np.ones(64, np.float32)), module.device.zeros(64)
    with gs.checking("all", schedules=3) as findings:
        module["steady"][2, 32](a, out)
    assert list(findings) == [] and findings.passed
    assert "order-dependent" in findings.receipt.checks
    assert np.array_equal(out.numpy(), np.ones(64, np.float32))
    assert len(capsys.readouterr().out.splitlines()) == 64


def test_a_fault_under_another_order_is_an_error(module: gs.Module) -> None:
    seen, out = module.device.zeros(1, np.int32), module.device.zeros(4, np.int32)
    with gs.checking("none", schedules=12) as findings:
        module["stumble"][4, 32](seen, out)
    first = findings[0]
    assert (first.kind, first.severity) == ("order-dependent", "error")
    assert re.match(r"with seed \d+ the kernel is stopped, though it ends in the natural order: kernel `stumble`: writes 4 bytes", first.message)
    assert seen.item() == 4


def test_kernels_that_allocate_are_not_compared_and_that_is_said(module: gs.Module) -> None:
    out = module.device.zeros(32, np.int32)
    with gs.checking("none", schedules=2) as findings:
        module["allocate"][1, 32](out)
    assert findings.receipt.skipped == ("order-dependent: allocate allocates memory, whose addresses depend on the order",)


def test_undefined_memory_stays_undefined_after_the_runs(module: gs.Module) -> None:
    device = module.device
    a, out = device.array(np.ones(64, np.float32)), device.empty(96)
    out[:64] = np.zeros(64, np.float32)
    with gs.checking("all", schedules=2) as findings:
        module["steady"][2, 32](a, out)
        out.numpy()
    assert [f.kind for f in findings if f.severity == "error"] == ["uninitialised"]


def test_wrong_numbers_of_schedules() -> None:
    with pytest.raises(UsageError, match="schedules must be at least 0, not -1"), gs.checking(schedules=-1):
        pass
    with pytest.raises(UsageError, match="order-dependent runs each launch again: say how often with schedules"), gs.checking("order-dependent"):
        pass


def test_differences_of_two_results() -> None:
    a = np.array([1.0, 2.0, 4.0], np.float32)
    assert difference(a, a.copy()) is None
    assert difference(a, a + np.array([0, 0, 4e-6], np.float32)) == Difference(1, 2, True, pytest.approx(9.5e-7, rel=0.1))  # type: ignore[arg-type]
    wrong = difference(a, np.array([1.0, 3.0, 4.0], np.float32))
    assert wrong == Difference(1, 1, False, 0.25)
    # other bits of equal values count, and a NaN is no rounding
    assert difference(np.array([0.0]), np.array([-0.0])) == Difference(1, 0, False, np.inf)
    assert difference(a, np.array([1.0, np.nan, 4.0], np.float32)) == Difference(1, 1, False, np.inf)
    assert difference(np.array([5, 6]), np.array([5, 7])) == Difference(1, 1, False, None)
    z = np.array([1 + 1j], np.complex64)
    assert difference(z, z * np.float32(1.000001)).rounding  # type: ignore[union-attr]


def test_a_lock_between_lanes_is_right_with_independent_lanes_only(module: gs.Module) -> None:
    """CUDA Programming Guide, Independent Thread Scheduling: before Volta such code could deadlock."""
    lock, count = module.device.zeros(1, np.int32), module.device.zeros(1, np.int32)
    with gs.checking("none", schedules=2) as findings:
        module["lane_lock"][1, 32](lock, count)
    (found,) = findings
    assert (found.kind, found.severity) == ("order-dependent", "warning")
    assert found.message.startswith("in strict lockstep, as on GPUs before Volta, the kernel is stopped")
    assert "--lockstep" in found.advice
    np.testing.assert_array_equal(count.numpy(), [32])


def test_lanes_that_wait_for_each_other_with_patience_end_too(module: gs.Module) -> None:
    lock, count, tries = (module.device.zeros(1, np.int32) for _ in range(3))
    with gs.checking("none", schedules=1) as findings:
        module["patient_lane_lock"][1, 32](lock, count, tries)
    assert any("in strict lockstep" in found.message and "stopped" in found.message for found in findings)
    np.testing.assert_array_equal(count.numpy(), [32])


def test_a_lock_between_warps_is_right_in_both_models(module: gs.Module) -> None:
    lock, count = module.device.zeros(1, np.int32), module.device.zeros(1, np.int32)
    with gs.checking("none", schedules=2) as findings:
        module["lane_lock"][8, 1](lock, count)
    assert not list(findings) and count.item() == 8
