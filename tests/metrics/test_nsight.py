"""The counters under Nsight Compute's names, against what it read on an H200."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_cases
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.nsight import BY_NAME, COUNTERS, Mark, counters_table, nsight_counters, nsight_marks
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

ROOT = Path(__file__).parent.parent.parent
TRUTH = ROOT / "tests" / "truth"
READ = json.loads((TRUTH / "counters.json").read_text())

# Counters that a simulator of PTX cannot match, and why (README.md of the truth set): parts of names by case.
NOT_EXACT = {
    "loop_triangle": ("global_op_ld", "inst_executed_op_global_ld"),  # ptxas unrolls a loop that lanes leave one by one
    "spin_lock": ("mem_global", "op_global"),  # contention decides
    "sgemm_regtile": ("shared",),  # ptxas merges or drops accesses of these
    "scan_blelloch": ("shared",),
    "bitonic_block": ("shared",),
    "reduce_strided": ("shared",),
    "ballot_compact": ("sectors_pipe_lsu_mem_global_op_st",),  # where a warp stores hangs on which warp came first
}
FLOATING = tuple(counter.nsight for counter in COUNTERS if "pred_on" in counter.nsight)


@pytest.fixture(scope="module")
def launches() -> dict[str, LaunchMetrics]:
    module = gs.device("sim:h200").compile(TRUTH / "kernels.ptx")
    results = run_cases(read_cases(TRUTH / "cases.json"), module, profile=True)
    return {result.name: result.metrics for result in results if result.metrics is not None}


def test_what_is_called_exact_is_equal(launches: dict[str, LaunchMetrics]) -> None:
    assert set(launches) == set(READ)
    wrong, compared = [], 0
    for name, launch in launches.items():
        counters, marks = nsight_counters(launch), nsight_marks(launch)
        for counter, value in counters.items():
            excused = any(part in counter for part in NOT_EXACT.get(name, ()))
            if marks[counter] != Mark.EXACT or counter not in READ[name] or excused or counter in FLOATING:  # those: test_flops.py
                continue
            compared += 1
            tolerance = 0.006 if counter in ("launch__waves_per_multiprocessor", "sm__maximum_warps_per_active_cycle_pct") else 0
            if abs(value - READ[name][counter]) > tolerance:
                wrong.append(f"{name} {counter}: {value} for {READ[name][counter]}")
    assert wrong == []
    assert compared > 66 * 20


def test_most_modelled_conflicts_are_equal_too(launches: dict[str, LaunchMetrics]) -> None:
    names = [f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")]
    wrong = {case for case, launch in launches.items() for n in names if nsight_counters(launch)[n] != READ[case][n]}
    assert wrong <= {"sgemm_regtile", "scan_blelloch", "bitonic_block", "reduce_strided"}


def test_dram_reads_are_near(launches: dict[str, LaunchMetrics]) -> None:
    """Of all cases that read more than what every launch does (a few KB of code and constants). How much of a buffer is touched
    is not known: where neighbouring requests share sectors, too much is counted."""
    name, around = "dram__bytes_read.sum", 3000
    errors = {
        case: abs(nsight_counters(launch)[name] + around - READ[case][name]) / READ[case][name]
        for case, launch in launches.items()
        if READ[case][name] > 30000 and case not in ("strided_read_32",)  # there DRAM reads two sectors for each one asked for
    }
    assert len(errors) > 40
    assert statistics.median(errors.values()) < 0.02
    assert max(errors.values()) < 0.25, {case: round(error, 3) for case, error in errors.items() if error >= 0.25}


def test_the_time_of_short_launches(launches: dict[str, LaunchMetrics]) -> None:
    """Most of these times are the kernel's start; the lock is left out: contention decides it."""
    name = "gpu__time_duration.sum"
    errors = [abs(nsight_counters(launch)[name] / READ[case][name] - 1) for case, launch in launches.items() if case != "spin_lock"]
    assert statistics.median(errors) < 0.2


def test_marks_are_those_of_the_table(launches: dict[str, LaunchMetrics]) -> None:
    marks = nsight_marks(launches["vec_add"])
    assert marks["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == "exact"
    assert marks["gpu__time_duration.sum"] == "estimated"
    assert marks["smsp__sass_branch_targets.sum"] == "modelled"
    assert {name for name in FLOATING if marks[name] != "exact"} == {name for name in FLOATING if "_op_h" in name or "fp16" in name}
    rooted = nsight_marks(launches["sobel"])
    assert rooted["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == "modelled"


def test_a_changed_line_takes_the_mark_away() -> None:
    load = InstructionCounts(9, "k.cu", 3, "ld.shared.f32", 4, 128, "shared", "load", 4, wavefronts=4, ideal_wavefronts=4)
    profile = LaunchProfile("k", "sim:h200", (1, 1, 1), (128, 1, 1), 512, 0, 16, 0.0, (load,))
    name = "smsp__sass_inst_executed_op_shared_ld.sum"
    assert nsight_marks(LaunchMetrics.of(profile))[name] == "exact"
    launch = LaunchMetrics.of(profile)
    changed = LaunchMetrics(launch.instructions, launch.profile, launch.spec, changed_lines={3: (1, 0)})
    assert nsight_marks(changed)[name] == "modelled"
    elsewhere = LaunchMetrics(launch.instructions, launch.profile, launch.spec, changed_lines={4: (1, 0)})
    assert nsight_marks(elsewhere)[name] == "exact"


def test_unknown_registers_are_left_out() -> None:
    profile = LaunchProfile("k", "sim:h200", (1, 1, 1), (128, 1, 1), 512, 0, None, 0.0, ())
    counters = nsight_counters(LaunchMetrics.of(profile))
    assert "launch__registers_per_thread" not in counters
    assert "sm__maximum_warps_per_active_cycle_pct" not in counters
    assert counters["launch__occupancy_limit_warps"] == 16


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(COUNTERS)
    assert len({counter.plain for counter in COUNTERS}) == len(COUNTERS)


def test_the_documentation_has_the_table() -> None:
    assert counters_table() in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
