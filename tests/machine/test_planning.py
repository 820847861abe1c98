"""Launch arithmetic: textbook figures, and the definitions by counting."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.errors import UsageError
from gridstride.machine.planning import LaunchPlan, elements_missed_rounding_down, grid_stride_elements


def plan_1d(elements: int, block: int) -> LaunchPlan:
    return LaunchPlan((elements, 1, 1), (block, 1, 1))


def test_a_million_in_blocks_of_256() -> None:
    plan = plan_1d(1_000_000, 256)
    assert (plan.blocks, plan.threads, plan.idle_threads) == (3907, 1_000_192, 192)
    assert plan.last_block == (3906, 0, 0)
    covers = plan.last_block_covers[0]
    assert (covers[0], covers[-1]) == (999_936, 1_000_191)
    assert plan.last_block_working == 64


def test_ten_thousand_in_blocks_of_128() -> None:
    plan = plan_1d(10_000, 128)
    assert (plan.blocks, plan.threads, plan.idle_threads, plan.last_block[0], plan.last_block_working) == (79, 10_112, 112, 78, 16)
    missed = elements_missed_rounding_down(10_000, 128)
    assert (10_000 // 128, missed[0], missed[-1]) == (78, 9_984, 9_999)


def test_five_thousand_in_blocks_of_512() -> None:
    plan = plan_1d(5_000, 512)
    assert (plan.blocks, plan.idle_threads, plan.last_block_working) == (10, 120, 392)


def test_an_image_in_square_blocks() -> None:
    plan = LaunchPlan((1920, 1080, 1), (16, 16, 1))
    assert plan.grid == (120, 68, 1)
    # 68 rows of blocks are 1,088 rows of threads: 8 too many over the whole width.
    assert plan.idle_threads == 8 * 1920
    assert plan.last_block == (119, 67, 0)
    assert plan.last_block_working == 16 * 8


def test_a_hundred_threads_leave_28_lanes_idle() -> None:
    plan = plan_1d(8_000, 100)
    assert (plan.warps_per_block, plan.idle_lanes_per_block) == (4, 28)


def test_a_fit_leaves_nothing_idle() -> None:
    plan = plan_1d(1024, 256)
    assert (plan.blocks, plan.idle_threads, plan.last_block_working, plan.idle_pct) == (4, 0, 256, 0)
    assert len(elements_missed_rounding_down(1024, 256)) == 0


def test_grid_stride() -> None:
    assert list(grid_stride_elements(20, 2, 4, 0, 0)) == [0, 8, 16]
    assert list(grid_stride_elements(20, 2, 4, 1, 3)) == [7, 15]


def test_waves() -> None:
    # 391 blocks of 256 threads, 8 resident on each of 132 multiprocessors: Nsight Compute reads 0.37.
    assert round(plan_1d(100_000, 256).waves(8, 132), 2) == 0.37


@given(st.integers(1, 3000), st.integers(1, 6), st.integers(1, 40))
def test_a_grid_stride_loop_takes_each_element_once(elements: int, blocks: int, block: int) -> None:
    taken = sorted(i for b, t in product(range(blocks), range(block)) for i in grid_stride_elements(elements, blocks, block, b, t))
    assert taken == list(range(elements))


@given(st.tuples(*[st.integers(1, 20)] * 3), st.tuples(*[st.integers(1, 7)] * 3))
def test_a_plan_counts_what_a_walk_over_all_threads_counts(extent: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    plan = LaunchPlan(extent, block)
    threads = list(product(*(range(g * b) for g, b in zip(plan.grid, block, strict=True))))
    working = [t for t in threads if all(i < n for i, n in zip(t, extent, strict=True))]
    assert (plan.threads, plan.elements, plan.idle_threads) == (len(threads), len(working), len(threads) - len(working))
    in_last = [t for t in working if all(i // b == last for i, b, last in zip(t, block, plan.last_block, strict=True))]
    assert plan.last_block_working == len(in_last) > 0


def test_empty_problem_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        LaunchPlan((0, 1, 1), (256, 1, 1))
    assert str(caught.value) == "every dimension of the problem must be at least 1, not 0 × 1 × 1"
    with pytest.raises(UsageError) as caught:
        LaunchPlan((5, 1, 1), (1, 0, 1))
    assert str(caught.value) == "every dimension of the block must be at least 1, not 1 × 0 × 1"


def test_thread_outside_the_grid_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        grid_stride_elements(20, 2, 4, 2, 0)
    assert str(caught.value) == "block 2, thread 0 is not in a grid of 2 blocks of 4 threads"


def test_waves_of_a_kernel_that_does_not_fit_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        plan_1d(100, 10).waves(0, 132)
    assert str(caught.value) == "not one block fits on a multiprocessor, so there are no waves to count"
