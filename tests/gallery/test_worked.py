"""Worked figures that textbooks have come out of the gallery's own device functions, and sums do what their steps claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gridstride as gs
from gridstride import gallery

TRACED = """
#include "reduction.cu"
// What the first element of a tree over eight holds after each round.
extern "C" __global__ void traced_tree(const float *x, float *trace) {
    __shared__ float s[8];
    s[threadIdx.x] = x[threadIdx.x];
    int round = 0;
    for (int half = 4; half > 0; half /= 2, round++) {
        __syncthreads();
        halve(s, half);
        if (threadIdx.x == 0)
            trace[round] = s[0];
    }
}
// The sums of eight lanes in groups: two, four, eight neighbours at a distance of four, two, one.
extern "C" __global__ void traced_shuffle(const float *x, float *trace) {
    float v = x[threadIdx.x % 8];
    for (int step = 4, round = 0; step > 0; step /= 2, round++) {
        v += __shfl_down_sync(0xffffffff, v, step, 8);
        if (threadIdx.x < 8)
            trace[8 * round + threadIdx.x] = v;
    }
    if (threadIdx.x == 0)
        trace[24] = warp_sum<8>(x[0]);
}
extern "C" __global__ void with_identity(const float *x, float *out, int n) {
    float sum = warp_sum(threadIdx.x < n ? x[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0)
        *out = sum;
}
extern "C" __global__ void returned_early(const float *x, float *out, int n) {
    if (threadIdx.x >= n)
        return;
    float sum = warp_sum(x[threadIdx.x]);
    if (threadIdx.x == 0)
        *out = sum;
}
"""


@pytest.fixture(scope="module")
def traced() -> gs.Module:
    return gs.device("sim").compile(TRACED, include_dirs=[gallery.ladder("reduction").folder])


def test_a_tree(traced: gs.Module) -> None:
    x, trace = traced.device.array(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)), traced.device.empty(3)
    with gs.checking() as findings:
        traced["traced_tree"][1, 8](x, trace)
        assert trace.numpy().tolist() == [8, 14, 31]
    assert not findings


def test_shuffles(traced: gs.Module) -> None:
    x, trace = traced.device.array(np.arange(1, 9, dtype=np.float32)), traced.device.zeros(25)
    traced["traced_shuffle"][1, 32](x, trace)
    rounds = trace.numpy()[:24].reshape(3, 8)
    assert rounds[0, :4].tolist() == [6, 8, 10, 12]
    assert rounds[1, :2].tolist() == [16, 20]
    assert rounds[2, 0] == 36


def test_idle_lanes(traced: gs.Module) -> None:
    """With the identity in idle lanes 1 to 4 make 10; lanes that have returned cannot be read."""
    x = traced.device.array(np.arange(1, 5, dtype=np.float32))
    out = traced.device.empty(1)
    with gs.checking() as findings:
        traced["with_identity"][1, 32](x, out, 4)
        assert out.numpy()[0] == 10
    assert not findings
    with gs.checking() as findings:
        traced["returned_early"][1, 32](x, out, 4)
        traced.device.synchronize()
    assert [(finding.kind, finding.severity) for finding in findings.errors][:1] == [("warp-mask", "error")]


def test_which_sums_depend_on_the_order() -> None:
    """An atomic a block adds floats in the order in which blocks come; the last block's sum is the same in every order."""
    ladder = gallery.ladder("reduction")
    device = gs.device("sim")
    module = device.compile(ladder.folder / "reduction.cu")
    n = 20_000
    x = device.array(np.random.default_rng(3).uniform(0, 1, n).astype(np.float32))
    partial, ticket = device.zeros(8), device.array(np.zeros((), np.uint32))
    found = {}
    for name in ("sum_full", "sum_deterministic"):
        out = device.zeros(())
        arguments = (x, out, n) if name == "sum_full" else (x, partial, ticket, out, n)
        with gs.checking("order-dependent", schedules=4) as findings:
            module[name][8, 256](*arguments)
            device.synchronize()
        found[name] = [finding.kind for finding in findings]
    assert found == {"sum_full": ["order-dependent"], "sum_deterministic": []}


def test_kahan_is_off_by_one_rounding_where_a_plain_sum_is_off_by_many() -> None:
    ladder = gallery.ladder("reduction")
    device = gs.device("sim")
    module = device.compile(ladder.folder / "reduction.cu")
    n = 200_000
    values = np.random.default_rng(4).uniform(0, 1, n).astype(np.float32)
    exact, x = float(values.sum(dtype=np.float64)), device.array(values)
    out, pairs = device.zeros(()), device.empty((4, 2))
    module["sum_one_thread"][1, 1](x, out, n)
    plain = abs(float(out.item()) - exact)
    module["sum_kahan"][4, 256](x, pairs, n)
    module["sum_kahan_partials"][1, 256](pairs, out, 4)
    assert abs(float(out.item()) - exact) <= exact * 2.0**-24 < plain / 4


@pytest.mark.parametrize("name", [step.name for step in gallery.ladder("scan").steps])
def test_a_scan_of_four(name: str) -> None:
    """1 2 3 4: before them stand 0 1 3 6."""
    ladder = gallery.ladder("scan")
    workshop = gallery.Workshop("sim")
    small = replace(ladder.problem_of(ladder[name], (4,)), reference=lambda arrays: {"out": np.array([0, 1, 3, 6])})
    small = replace(small, arrays={**small.arrays, "in": gallery.given([1, 2, 3, 4], "i32")})
    with gallery.Bench(workshop.module(ladder.source_of(ladder[name]), {}), small, ladder[name].launches((4,))) as bench:
        bench.launch()
        assert bench.difference() is None


def test_intensities() -> None:
    """Vector addition has 1/12 FLOP a byte, a matrix product of n x n has n / 6."""
    add, product = gallery.ladder("vector-add"), gallery.ladder("matrix-product")
    assert add.flops((1_000_000,)) / add.bytes((1_000_000,)) == pytest.approx(1 / 12)
    assert product.flops((4096,) * 3) / product.bytes((4096,) * 3) == pytest.approx(4096 / 6)
    run = gallery.run("vector-add/thread-each")
    assert run.launches[0].algorithmic_intensity == pytest.approx(1 / 12)


def test_a_million_elements_in_blocks_of_256() -> None:
    (launch,) = gallery.ladder("vector-add")["thread-each"].launches((1_000_000,))
    assert isinstance(launch, gallery.Launch) and (launch.grid, launch.block) == (3907, 256)
    run = gallery.run("vector-add/thread-each")
    stores = [i for i in run.launches[0].instructions if i.access == "store" and i.space == "global"]
    assert sum(i.lanes for i in stores) == 1_000_000 and 3907 * 256 - 1_000_000 == 192
