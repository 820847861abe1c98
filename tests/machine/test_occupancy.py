"""Occupancy: against the driver of an H200, against Nsight Compute's limits for the truth set's launches, and textbook figures."""

import json
import math
import pathlib

import pytest

from gridstride.errors import UsageError
from gridstride.machine.devices import find_device
from gridstride.machine.occupancy import occupancy, shared_allocated

HERE = pathlib.Path(__file__).parent
TRUTH = HERE.parent / "truth"
H200 = find_device("h200")
COUNTERS = json.loads((TRUTH / "counters.json").read_text())
CASES = {case["name"]: case for case in json.loads((TRUTH / "cases.json").read_text())}


def test_resident_blocks_are_the_drivers() -> None:
    measured = json.loads((HERE / "occupancy_h200.json").read_text())
    compared = 0
    for name, by_dynamic in measured["resident_blocks"].items():
        kernel = measured["kernels"][name]
        for dynamic, row in by_dynamic.items():
            for threads, blocks in zip(measured["threads_per_block"], row, strict=True):
                ours = occupancy(H200, threads, kernel["registers"], kernel["static_shared"] + int(dynamic))
                assert ours.blocks == blocks, (name, threads, dynamic)
                compared += 1
    assert compared == 12_870


@pytest.mark.parametrize("name", COUNTERS)
def test_limits_are_nsights(name: str) -> None:
    read = COUNTERS[name]
    threads = math.prod(CASES[name]["block"])
    shared = read["launch__shared_mem_per_block_static"] + read["launch__shared_mem_per_block_dynamic"]
    registers = read["launch__registers_per_thread"]
    at_carveout = occupancy(H200, threads, registers, shared, carveout=read["launch__shared_mem_config_size"])
    assert shared_allocated(H200.architecture, shared) == read["launch__shared_mem_per_block_allocated"]
    assert at_carveout.limits == {
        "registers": read["launch__occupancy_limit_registers"],
        "shared": read["launch__occupancy_limit_shared_mem"],
        "warps": read["launch__occupancy_limit_warps"],
        "blocks": read["launch__occupancy_limit_blocks"],
    }
    for ours in (at_carveout, occupancy(H200, threads, registers, shared)):
        assert ours.percent == pytest.approx(read["sm__maximum_warps_per_active_cycle_pct"], abs=0.006)


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "percent", "limiter"),
    [
        ("h200", 256, 32, 0, 8, 100, "warps"),
        ("h200", 256, 64, 0, 4, 50, "registers"),
        ("h200", 256, 128, 0, 2, 25, "registers"),
        ("rtx3090", 256, 32, 0, 6, 100, "warps"),
        ("rtx3090", 256, 64, 16 * 1024, 4, 66.7, "registers"),
        ("rtx3090", 128, 32, 48 * 1024, 2, 16.7, "shared"),
        ("h200", 32, 16, 0, 32, 50, "blocks"),
        ("t4", 256, 32, 0, 4, 100, "warps"),
        ("t4", 64, 32, 0, 16, 100, "warps"),
        ("t4", 128, 32, 32 * 1024, 2, 25, "shared"),
    ],
)
def test_textbook_figures(device: str, threads: int, registers: int, shared: int, blocks: int, percent: float, limiter: str) -> None:
    ours = occupancy(find_device(device), threads, registers, shared)
    assert (ours.blocks, round(ours.percent, 1), ours.limiter) == (blocks, percent, limiter)


def test_a_kernel_too_large_to_run_has_no_block() -> None:
    ours = occupancy(H200, 1024, 128)
    assert (ours.blocks, ours.percent, ours.limiters) == (0, 0, ("registers",))


def test_unknown_registers_limit_nothing() -> None:
    assert occupancy(H200, 256).as_json() == {
        "registers": None,
        "theoretical_pct": 100,
        "limits": {"registers": 32, "shared": 228, "warps": 8, "blocks": 32},
        "limiter": "warps",
    }


def test_impossible_arguments_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        occupancy(H200, 0)
    assert str(caught.value) == "a block must have at least 1 thread, not 0"
    with pytest.raises(UsageError) as caught:
        occupancy(H200, 32, carveout=300 * 1024)
    assert str(caught.value) == "307,200 bytes is no shared-memory size of H200 SXM 141GB, which has up to 233,472"
