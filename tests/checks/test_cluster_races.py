"""Races where clusters and mbarriers order: found where the meeting is left out, not found where it is there; and what the receipt leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.runtime.checking import checking

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """
#include <cooperative_groups.h>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
#ifndef MEET
#define MEET(x)
#endif
extern "C" __global__ void __cluster_dims__(2, 1, 1) within(const int *in, int *out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    MEET(cg::this_cluster().sync());
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) between(int *data, int *out) {
    data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
    MEET(cg::this_cluster().sync());
    out[blockIdx.x * 64 + threadIdx.x] = data[(blockIdx.x ^ 1) * 64 + threadIdx.x];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters_apart(int *data, int *out) {
    data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
    cg::this_cluster().sync();
    MEET(if (false)) out[blockIdx.x * 64 + threadIdx.x] = data[(blockIdx.x ^ 2) * 64 + threadIdx.x];
}
extern "C" __global__ void at_an_mbarrier(const int *in, int *out) {
    __shared__ int s[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = in[threadIdx.x];
        ptx::mbarrier_arrive(&bar);
    } else {
        MEET(while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {});
        out[blockIdx.x * 64 + threadIdx.x - 32] = s[63 - threadIdx.x];
    }
}
extern "C" __global__ void initialised_late(int *out) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 64);
    MEET(__syncthreads());
    ptx::mbarrier_arrive(&bar);
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    out[blockIdx.x * 64 + threadIdx.x] = 1;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) through_another_block(int *data, int *out) {
    __shared__ uint64_t bar;
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 64);
    c.sync();
    data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, c.map_shared_rank(&bar, c.block_rank() ^ 1));
    MEET(while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {});
    out[blockIdx.x * 64 + threadIdx.x] = data[(blockIdx.x ^ 1) * 64 + threadIdx.x];
    c.sync();
}
"""
KERNELS = {
    "within": "race-shared", "between": "race-global", "clusters_apart": "race-global", "at_an_mbarrier": "race-shared",
    "initialised_late": "race-shared", "through_another_block": "race-global",
}  # fmt: skip


@pytest.fixture(scope="module")
def modules() -> dict[bool, gs.Module]:
    device = gs.device("sim:h200")
    return {True: device.compile(SOURCE, arch="sm_90", defines=["MEET(x)=x"]), False: device.compile(SOURCE, arch="sm_90")}


def found(module: gs.Module, kernel: str) -> gs.Findings:
    device = module.device
    with checking("race-shared,race-global") as findings:
        module[kernel][4, 64](*(device.zeros(256, np.int32) for _ in module[kernel].parameters))
    return findings


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_meets_does_not_race(modules: dict[bool, gs.Module], kernel: str) -> None:
    assert list(found(modules[True], kernel)) == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_does_not_meet_races(modules: dict[bool, gs.Module], kernel: str) -> None:
    assert {(f.kind, f.severity) for f in found(modules[False], kernel)} == {(KERNELS[kernel], "error")}


def test_the_receipt_says_that_other_blocks_shared_memory_was_not_looked_at(modules: dict[bool, gs.Module]) -> None:
    assert found(modules[True], "through_another_block").receipt.skipped == ("race-shared: accesses to the shared memory of other blocks of the cluster",)
    assert found(modules[True], "between").receipt.skipped == ()
