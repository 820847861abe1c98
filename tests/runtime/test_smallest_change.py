"""The smallest change of an order that shows what a seed has shown: searched for with conditions that are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gridstride as gs
from gridstride.machine.orders import Order, affine_order_of, order_of
from gridstride.runtime.smallest_change import MOST_RUNS, Change, smallest_change

BLOCKS, WARPS = 1000, 8


def before(order: np.ndarray, first: int, second: int) -> bool:
    return int(np.flatnonzero(order == first)[0]) < int(np.flatnonzero(order == second)[0])


def searched(shows: Callable[[Order], bool], seed: int) -> tuple[Change | None, int]:
    usual, failing = order_of(None, BLOCKS, WARPS), order_of(seed, BLOCKS, WARPS)
    assert usual is not None and failing is not None and not shows(usual)
    runs = 0

    def counted(order: Order) -> bool:
        nonlocal runs
        runs += 1
        assert sorted(order.blocks) == list(range(BLOCKS)) and sorted(order.warps) == list(range(WARPS))
        return shows(order)

    return smallest_change(usual, failing, counted), runs


SHOWING = [seed for seed in range(1, 12) if before(order_of(seed, BLOCKS, WARPS).blocks, 700, 41)]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", SHOWING)
def test_one_block_before_another(seed: int) -> None:
    change, runs = searched(lambda order: before(order.blocks, 700, 41), seed)
    assert change == Change("blocks", 700, 41, 0)
    assert runs <= MOST_RUNS


def test_one_warp_before_another() -> None:
    seed = next(s for s in range(1, 99) if before(order_of(s, BLOCKS, WARPS).warps, 6, 2))  # type: ignore[union-attr]
    change, _ = searched(lambda order: before(order.warps, 6, 2), seed)
    assert change == Change("warps", 6, 2, 0)


def test_two_pairs_at_once_are_told_with_what_else_moved() -> None:
    def shows(order: Order) -> bool:
        return before(order.blocks, 700, 41) and before(order.blocks, 9, 3)

    seed = next(s for s in range(1, 99) if shows(order_of(s, BLOCKS, WARPS)))  # type: ignore[arg-type]
    change, _ = searched(shows, seed)
    assert change is not None and change.moved > 0 and (change.first, change.second) in ((700, 41), (9, 3))


def test_what_takes_blocks_and_warps_has_no_simple_change() -> None:
    def shows(order: Order) -> bool:
        return before(order.blocks, 700, 41) and before(order.warps, 6, 2)

    seed = next(s for s in range(1, 99) if shows(order_of(s, BLOCKS, WARPS)))  # type: ignore[arg-type]
    assert searched(shows, seed) == (None, 2)


def test_orders_of_seeds_are_permutations() -> None:
    order = order_of(7, 50, 4)
    assert order is not None and sorted(order.blocks) == list(range(50)) and sorted(order.warps) == list(range(4))
    assert order_of(7, (1 << 22) + 1, 4) is None
    for blocks in (5_000_011, 6_000_000):
        affine = affine_order_of(3, blocks, 4)
        places = (np.arange(blocks, dtype=np.int64) * affine.factor + affine.shift) % blocks
        assert np.unique(places).size == blocks


SOURCE = r"""
extern "C" {
__global__ void blocks(int* flag, int* out) {
    if (threadIdx.x) return;
    if (blockIdx.x == 9 && blockIdx.y == 1) atomicExch(flag, 1);
    if (blockIdx.x == 5 && blockIdx.y == 0) out[0] = atomicAdd(flag, 0);
}
__global__ void warps(int* flag, int* out) {
    __shared__ int seen;
    if (threadIdx.x == 0) seen = 0;
    __syncthreads();
    if (threadIdx.x == 160) atomicExch(flag, 1);
    if (threadIdx.x == 64) seen = atomicAdd(flag, 0);
    __syncthreads();
    out[threadIdx.x] = seen;
}
__global__ void sums(float* a, float* out) { atomicAdd(out, a[blockIdx.x + gridDim.x * blockIdx.y]); }
}
"""


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "pair"),
    [
        ("blocks", (10, 2), 32, "block (9,1,0) runs before block (5,0,0)"),
        ("warps", 1, 256, "warp 5 of each block runs before warp 2"),
    ],
)
def test_the_finding_says_which_pair_is_enough(kernel: str, grid: tuple[int, int] | int, block: int, pair: str) -> None:
    module = gs.device("sim").compile(SOURCE)
    flag, out = module.device.zeros(1, np.int32), module.device.zeros(256, np.int32)
    with gs.checking("none", schedules=5) as findings:
        module[kernel][grid, block](flag, out)
    found = next(f for f in findings if f.buffer == "out" and f.severity == "warning")
    assert f"; it is enough that {pair}, all else in the usual order" in found.message
    assert "replay with --seed" in (found.advice or "")
    assert not out.numpy().any()  # the natural order's


def test_rounding_is_not_searched() -> None:
    module = gs.device("sim").compile(SOURCE)
    rng = np.random.default_rng(1)
    a = module.device.array((rng.uniform(1, 2, 64) * 10.0 ** rng.integers(-4, 4, 64)).astype(np.float32))
    out = module.device.zeros(1)
    with gs.checking("none", schedules=5) as findings:
        module["sums"][(8, 8), 1](a, out)
    (found,) = findings
    assert found.severity == "note" and "enough" not in found.message
