"""The best block size: against what the driver of an H200 answers to cuOccupancyMaxPotentialBlockSize."""

import json
import pathlib

import pytest

from gridstride.errors import UsageError
from gridstride.machine.block_size import best_block, occupancy_curve
from gridstride.machine.devices import DEVICES, find_device

H200 = find_device("h200")


def test_the_driver_would_choose_the_same() -> None:
    measured = json.loads((pathlib.Path(__file__).parent / "block_size_h200.json").read_text())
    compared = 0
    for name, rows in measured["answers"].items():
        kernel = measured["kernels"][name]
        for dynamic, per_thread, limit, grid, threads in rows:

            def shared(block: int, static: int = kernel["static_shared"] + dynamic, each: int = per_thread) -> int:
                return static + block * each

            ours = best_block(H200, kernel["registers"], shared, kernel["max_threads"], limit)
            assert (ours.min_grid, ours.threads) == (grid, threads), (name, dynamic, per_thread, limit)
            compared += 1
    assert compared == 3026


@pytest.mark.parametrize("spec", DEVICES, ids=lambda spec: spec.key)
def test_no_block_of_the_curve_is_better(spec) -> None:  # type: ignore[no-untyped-def]
    for registers in (16, 32, 40, 72, 128, 255):
        best = best_block(spec, registers, 4000)
        curve = occupancy_curve(spec, registers, 4000)
        most = max(o.blocks * threads for threads, o in curve)
        assert best.occupancy.blocks * best.threads == most
        assert best.threads == max(threads for threads, o in curve if o.blocks * threads == most)


def test_the_curve_ends_at_the_kernels_own_bound() -> None:
    assert [threads for threads, _ in occupancy_curve(H200, 32, max_threads=128)] == [32, 64, 96, 128]
    assert len(occupancy_curve(H200)) == 32


def test_a_block_that_may_not_be_launched_has_no_occupancy() -> None:
    by_threads = dict(occupancy_curve(H200, 32, lambda threads: 1024 * threads))
    assert by_threads[224].blocks == 1
    assert by_threads[256].blocks == 0


def test_no_block_at_all_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        best_block(H200, 32, 300_000)
    assert str(caught.value) == "no block of this kernel fits on H200 SXM 141GB, not even one of 32 threads"
