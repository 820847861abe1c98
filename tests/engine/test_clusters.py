"""Clusters, distributed shared memory and mbarriers: the launches of tests/truth/clusters against NumPy, under several schedules and under all checks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gridstride as gs
from engine.kernels import Kernels
from gridstride.cases import CheckRequest, parse_case, run_case
from gridstride.observers.checks import parse_kinds
from gridstride.runtime.request import Buffer, LaunchRequest, Scalar

pytest.importorskip("cuda.bindings.nvrtc")

Ints = npt.NDArray[np.int64]
FOLDER = Path(__file__).parents[1] / "truth" / "clusters"
CASES = {entry["name"]: parse_case(entry, "cases.json") for entry in json.loads((FOLDER / "cases.json").read_text())}
PROGRAM = Kernels((FOLDER / "kernels.cu").read_text(), arch="sm_90")


def shaped(values: Ints, cluster: int, threads: int = 64) -> Ints:
    """By cluster, block and thread."""
    return values.reshape(-1, cluster, threads).astype(np.int64)


def places(case: LaunchRequest) -> Ints:
    (nx, ny, nz), (cx, cy, cz) = case.grid, (2, 3, 1)
    rows = []
    for z in range(nz):
        for y in range(ny):
            for x in range(nx):
                inside = (x % cx, y % cy, z % cz)
                rank = inside[0] + cx * (inside[1] + cy * inside[2])
                rows.append([x // cx, y // cy, z // cz, nx // cx, ny // cy, nz // cz, *inside, cx, cy, cz, rank, 6, 1])
    return np.array(rows)


def ring(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    v = shaped(given, 4)
    for k in range(rounds):
        v = np.roll(v, -1, 1)[:, :, ::-1] + k
    return v


def histogram(case: LaunchRequest, given: Ints, count: int) -> Ints:
    return np.bincount(given[:count], minlength=128)


def sums(case: LaunchRequest, given: Ints) -> Ints:
    return given.reshape(-1, 64).sum(1)


def smooth(case: LaunchRequest, given: Ints) -> Ints:
    line = np.pad(given.reshape(-1, 256).astype(np.int64), ((0, 0), (1, 1)))
    return 2 * line[:, 1:-1] + line[:, :-2] + line[:, 2:]


def some_end(case: LaunchRequest) -> Ints:
    out = np.zeros((8, 32), np.int64)
    for block in (0, 2, 4, 6):
        out[block] = (block ^ 2) + 1
    return out


def reach(case: LaunchRequest, given: Ints) -> Ints:
    own = given.reshape(-1, 64).astype(np.int64)
    other = own.reshape(-1, 2, 64)[:, ::-1].reshape(-1, 64)
    t = np.arange(64)
    counts = np.where(t < 32, 22, np.where(t < 48, t + 16, np.where(t < 56, 7, np.where(t == 63, 1, 0))))
    out = np.empty((*own.shape, 10), np.int64)
    for block in range(len(own)):
        columns = (other[block], t, 1 - block % 2, block ^ 1, other[block, ::-1], other[block], counts, 64, own[block], 1)
        for k, column in enumerate(columns):
            out[block, :, k] = column
    return out


def addresses(case: LaunchRequest) -> Ints:
    rows = []
    for block in range(8):
        own, other = block % 4, (block + 1) % 4
        rows.append([own, other, own, other, 1, 0, 1, 1, 0, 0, 0, 0, 100 + other, 100 + own, 100 + other, 100 + own])
    return np.array(rows)


def pipeline(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    return given.reshape(-1, rounds, 32)[:, :, ::-1].astype(np.int64) * 3 + np.arange(rounds)[:, None]


def relay(case: LaunchRequest, given: Ints, rounds: int) -> Ints:
    v = shaped(given, 4)
    for _ in range(rounds):
        v = np.roll(np.roll(v, 1, 1), -1, 2) + 1
    return v


def counts(case: LaunchRequest) -> Ints:
    """PTX ISA 9.7.13.15: what is pending before each arrival, and which phases are complete."""
    return np.array([0, 1, 8, 5, 0, 1, 1, 1, 0, 0, 1, 3, 0, 0, 1, 1, 0, 2, 2**20 - 1, *[0] * 5])


def barrier_objects(case: LaunchRequest, given: Ints) -> Ints:
    v = np.roll(given.reshape(-1, 64).astype(np.int64), -35, 1) + 10
    for _ in range(3):
        v[:, :32] = v[:, 31::-1] + 1
    return v


def flags(case: LaunchRequest) -> Ints:
    values = [1]
    for rank in range(7):
        values.append(values[-1] * 2 + rank)
    return np.tile(values, 2)


def parted(case: LaunchRequest, given: Ints) -> Ints:
    own = np.where(given & 1, given * 5, -given)
    return shaped(own, 2)[:, ::-1]


EXPECTED: dict[str, Callable[..., Ints]] = {
    f.__name__: f for f in (places, ring, histogram, sums, smooth, some_end, reach, addresses, pipeline, relay, counts, barrier_objects, flags, parted)
}


@functools.cache
def wanted(name: str) -> Ints:
    """What NumPy says the launch's output is."""
    case = CASES[name]
    inputs: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, Scalar):
            inputs.append(int(argument.value))
        elif isinstance(argument, Buffer) and not argument.out:
            inputs.append(argument.initial.build(argument.dtype, argument.count))
    return EXPECTED[case.kernel](case, *inputs).ravel()


def test_every_kernel_is_launched() -> None:
    assert {case.kernel for case in CASES.values()} == set(EXPECTED) == set(PROGRAM.module)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    arguments = [a.value if isinstance(a, Scalar) else a.initial.build(a.dtype, a.count) for a in case.arguments if not isinstance(a, int)]  # type: ignore[union-attr]
    output = sum(isinstance(a, Buffer) for a in case.arguments) - 1
    found = PROGRAM.run(case.kernel, case.grid, case.block, *arguments)[output]
    np.testing.assert_array_equal(found, wanted(name))


@pytest.mark.parametrize("name", [name for name in CASES if name != "ring_many"])
def test_nothing_is_found_in_correct_kernels(name: str) -> None:
    result = run_case(CASES[name], PROGRAM.module.fresh(), checks=CheckRequest(parse_kinds("all"), schedules=1))
    assert result.failure is None and result.findings == ()
    np.testing.assert_array_equal(next(iter(result.outputs.values())), wanted(name))


MORE = Kernels(
    r"""
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
__device__ __noinline__ int deep(int n, int *s, int v) {
    cg::cluster_group c = cg::this_cluster();
    s[threadIdx.x] = v + n;
    c.sync();
    int w = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks())[threadIdx.x];
    c.sync();
    return n ? deep(n - 1, s, w) + 1 : w;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) recursion(int *out, int n) {
    __shared__ int s[40];
    if (threadIdx.x < 40) out[blockIdx.x * 40 + threadIdx.x] = deep(n, s, blockIdx.x * 100 + threadIdx.x);
}
extern "C" __global__ void group(int *out) {
    __shared__ int s;
    cg::cluster_group c = cg::this_cluster();
    int b = blockIdx.x + gridDim.x * blockIdx.y, *p = out + 14 * (b * 32 + threadIdx.x + blockDim.x * threadIdx.y), *far = c.map_shared_rank(&s, c.num_blocks() - 1);
    p[0] = c.num_blocks(); p[1] = c.num_threads(); p[2] = c.block_rank(); p[3] = c.thread_rank(); p[4] = c.query_shared_rank(far); p[5] = c.query_shared_rank(&s);
    p[6] = c.dim_blocks().x; p[7] = c.dim_blocks().y; p[8] = c.dim_threads().x; p[9] = c.dim_threads().y;
    p[10] = c.block_index().x; p[11] = c.block_index().y; p[12] = c.thread_index().x; p[13] = c.thread_index().y;
}
extern "C" __global__ void wrappers(const int *in, int *out) {
    __shared__ int s[32];
    int t = threadIdx.x, r = ptx::get_sreg_cluster_ctarank();
    s[t] = in[blockIdx.x * 32 + t];
    ptx::barrier_cluster_arrive(ptx::sem_release);
    ptx::barrier_cluster_wait(ptx::sem_acquire);
    out[blockIdx.x * 32 + t] = cg::this_cluster().map_shared_rank(s, r ^ 1)[31 - t];
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
    ptx::barrier_cluster_wait();
}
extern "C" __global__ void expected_bytes(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t == 0) init(&bar, 32);
    __syncthreads();
    auto token = t == 0 ? cuda::device::barrier_arrive_tx(bar, 1, 128) : bar.arrive();
    s[t] = 3 * t;
    unsigned handle = (unsigned)__cvta_generic_to_shared(cuda::device::barrier_native_handle(bar));
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 4;" :: "r"(handle) : "memory");
    bar.wait(static_cast<decltype(token) &&>(token));
    out[t] = s[t];
}
""",
    arch="sm_90",
)


def launched(name: str, grid: Any, block: Any, cluster: Any, *arguments: Any, seed: int | None = None) -> list[npt.NDArray[Any]]:
    """The arrays as a launch with clusters of that many blocks left them."""
    device = MORE.device
    arrays = [device.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    device.seed, device.threads = seed, None
    MORE.module[name][grid, block](*arrays, cluster=cluster)
    return [a.numpy() for a in arrays if isinstance(a, gs.Array)]


@pytest.mark.parametrize("seed", [None, 1])
def test_the_cluster_meets_in_functions_that_call_themselves(seed: int | None) -> None:
    (out,) = launched("recursion", 4, 48, None, np.zeros(160, np.int32), 3, seed=seed)
    v = (np.arange(4)[:, None] * 100 + np.arange(40)).reshape(2, 2, 40)
    for n in (3, 2, 1, 0):
        v = (v + n)[:, ::-1]
    np.testing.assert_array_equal(out.reshape(2, 2, 40), v + 3)


@pytest.mark.parametrize("cluster", [None, 1, 2, (4, 2), (1, 4, 1)])
def test_what_a_group_says_of_itself(cluster: Any) -> None:
    (out,) = launched("group", (4, 4), (16, 2), cluster, np.zeros(14 * 32 * 16, np.int32))
    cx, cy = (*np.atleast_1d(cluster or 1), 1)[:2]
    rows = []
    for y in range(4):
        for x in range(4):
            rank = x % cx + cx * (y % cy)
            for t in range(32):
                inside = (x % cx * 16 + t % 16, y % cy * 2 + t // 16)
                rows.append([cx * cy, 32 * cx * cy, rank, rank * 32 + t, cx * cy - 1, rank, cx, cy, 16 * cx, 2 * cy, x % cx, y % cy, *inside])
    np.testing.assert_array_equal(out.reshape(-1, 14), rows)


def test_the_wrappers_of_libcuxx() -> None:
    given = np.arange(128, dtype=np.int32) * 7
    _, out = launched("wrappers", 4, 32, 2, given, np.zeros(128, np.int32))
    np.testing.assert_array_equal(out.reshape(-1, 2, 32), given.reshape(-1, 2, 32)[:, ::-1, ::-1])
    (out,) = launched("expected_bytes", 1, 32, None, np.zeros(32, np.int32))
    np.testing.assert_array_equal(out, 3 * np.arange(32))


def test_a_profile_counts_remote_accesses_as_shared_ones() -> None:
    with gs.profiling() as profiled:
        PROGRAM.once("ring", 8, 64, np.arange(512, dtype=np.int32), np.zeros(512, np.int32), 5)
    launch = profiled.launches[-1]
    remote = [i for i in launch.instructions if i.opcode.startswith("ld.shared::cluster")]
    assert sum(i.executions for i in remote) == 8 * 2 * 5 and {(i.space, i.access) for i in remote} == {("shared", "load")}
