"""Two devices side by side: the arithmetic of a comparison and what is printed of it."""

from __future__ import annotations

import io
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gridstride.report import comparison_text
from gridstride.report.comparison import CaseComparison, Comparison, CounterPair, as_json, compare_outputs, pair_counters, totals

LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
WAVES = "launch__waves_per_multiprocessor"
TIME = "gpu__time_duration.sum"


def pair(simulator: float | None, gpu: float | None, mark: str = "exact") -> CounterPair:
    return CounterPair(LOADS, "global load requests", mark, simulator, gpu)


def test_counters_are_equal_to_the_last_digit_that_nsight_prints() -> None:
    assert pair(3125, 3125).equal is True
    assert pair(3125, 3126).equal is False
    assert pair(0.3698, 0.37).equal is True  # Nsight prints waves with two digits behind the point
    assert pair(0.3601, 0.37).equal is False
    assert pair(None, 3).equal is None
    assert pair(3, None).equal is None


def test_relative_difference_is_of_the_gpus_value() -> None:
    assert pair(150, 100).relative == 0.5
    assert pair(50, 100).relative == -0.5
    assert pair(7, 0).relative is None
    assert pair(7, None).relative is None


def test_counters_are_paired_by_name_with_the_marks_of_the_launch() -> None:
    pairs = pair_counters({LOADS: 10, WAVES: 0.5}, {LOADS: "modelled"}, {LOADS: 12, TIME: 2400, "smsp__no_such.sum": 1})
    assert {p.name: (p.mark, p.simulator, p.gpu) for p in pairs} == {
        LOADS: ("modelled", 10, 12),
        WAVES: ("exact", 0.5, None),
        TIME: ("estimated", None, 2400),
    }
    assert pair_counters({LOADS: 10}, {}, {}) == ()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u8", "u1"])
def test_equal_outputs(dtype: str) -> None:
    values = np.arange(100).astype(dtype).reshape(10, 10)
    found = compare_outputs(1, "y", values, values.copy())
    assert (found.equal, found.differing, found.first, found.largest_relative, found.count) == (True, 0, None, 0.0, 100)


def test_the_first_difference_and_the_largest() -> None:
    ours = np.array([1, 2, 3, 4], np.float32)
    theirs = np.array([1, 2.5, 3, 8], np.float32)
    found = compare_outputs(1, "y", ours, theirs)
    assert (found.differing, found.first, found.largest_relative) == (2, (1, 2.0, 2.5), 0.5)
    assert found.within(0.5) and not found.within(0.49)


def test_other_bits_of_one_value_differ_but_are_no_distance_apart() -> None:
    ours = np.array([0x7FFFFFFF, 0x80000000], np.uint32).view(np.float32)
    theirs = np.array([0x7FC00000, 0x00000000], np.uint32).view(np.float32)
    found = compare_outputs(0, "y", ours, theirs)
    assert (found.differing, found.largest_relative) == (2, 0.0)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_number_and_none_are_infinitely_far_apart(odd: float) -> None:
    assert compare_outputs(0, "y", np.array([1.0]), np.array([odd])).largest_relative == math.inf


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_wide_integers_are_compared_exactly(a: int, b: int) -> None:
    found = compare_outputs(0, "y", np.array([a], np.uint64), np.array([b], np.uint64))
    assert found.equal == (a == b)
    if a != b:
        assert math.isclose(found.largest_relative, Fraction(abs(a - b), max(a, b)), rel_tol=1e-15)


def case(name: str = "one", **fields: Any) -> CaseComparison:
    return CaseComparison(name, "saxpy", **fields)


def test_what_makes_a_case_the_same() -> None:
    off = compare_outputs(1, "y", np.array([1.0]), np.array([1.0 + 1e-12]))
    assert case(counters=(pair(1, 1), pair(5, 9, "modelled"))).verdict(0) == "same"
    assert case(counters=(pair(1, 2),)).verdict(0) == "differs"
    assert case(outputs=(off,)).verdict(0) == "differs"
    assert case(outputs=(off,)).verdict(1e-11) == "same"
    assert case(gpu_error="no").verdict(0) == "error"


def test_sums_over_launches() -> None:
    cases = [case(counters=(pair(1, 1), pair(3, 2), pair(4, None))), case(counters=(pair(0, 0), pair(5, 9, "modelled")))]
    assert totals(cases, "exact") == (2, 3, 0.25)
    assert totals(cases, "modelled") == (0, 1, 4 / 9)
    assert totals(cases, "estimated") == (0, 0, None)


def example() -> Comparison:
    counters = (
        pair(1250, 1250),
        CounterPair(WAVES, "waves", "exact", 0.3698, 0.37),
        CounterPair(TIME, "time", "estimated", 3000.5, 2400),
        CounterPair("dram__bytes_read.sum", "DRAM bytes read", "modelled", 40_000, 400),
        CounterPair("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "bank conflicts of shared loads", "modelled", 7, 0),
        CounterPair("smsp__sass_branch_targets.sum", "branches", "modelled", 0, 0),
    )
    outputs = (
        compare_outputs(2, "y", np.array([1, 2], np.float32), np.array([1, 4], np.float32)),
        compare_outputs(3, "z", np.zeros(5, np.int32), np.zeros(5, np.int32)),
    )
    good = case(counters=counters, outputs=outputs, estimate_us=7.25, gpu_us=(9.0, 11.0, 8.0))
    return Comparison("sim:h200", "NVIDIA H200", "sm_90", "13.0", (good, case("two", simulator_error="out of bounds"), case("three", gpu_error="too new")))


def rendered(compared: Comparison) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(comparison_text.comparison(compared), highlight=False)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_what_is_printed() -> None:
    lines = [" ".join(line.split()) for line in rendered(example()).splitlines()]
    assert lines[0] == "sim:h200 and NVIDIA H200 (sm_90, driver for CUDA 13.0)"
    assert "one (saxpy): differs" in lines
    assert "output y (float32[2]): 1 of 2 elements differ, the first at 1: simulator 2, GPU 4; largest relative difference 0.5" in lines
    assert "output z (int32[5]): equal to the last bit" in lines
    assert "time: 9 µs (median of 3 by events, launch included); estimated 7.25 µs" in lines
    assert f"global load requests exact 1,250 1,250 = {LOADS}" in lines
    assert f"waves exact 0.37 0.37 = {WAVES}" in lines
    assert f"time estimated 3,000.50 2,400 +25 % {TIME}" in lines
    assert "DRAM bytes read modelled 40,000 400 ×100 dram__bytes_read.sum" in lines
    assert "bank conflicts of shared loads modelled 7 0 +7 l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum" in lines
    assert "and 1 that are 0 on both sides" in lines
    assert "stopped on the simulator, so not launched on the GPU: out of bounds" in lines
    assert "no result from the GPU: too new" in lines
    assert lines[-5:] == [
        "outputs: 1 of 2 equal to the last bit",
        "exact counters: 2 of 2 equal",
        "modelled counters: 1 of 3 equal; median difference 9.9e+03 %",
        "estimated counters: 0 of 1 equal; median difference 25 %",
        "2 of 3 launches could not be compared",
    ]


def test_why_there_are_no_counters_is_said() -> None:
    compared = Comparison("sim:h200", "NVIDIA H200", "sm_90", "13.0", (case(),), not_read="ncu (Nsight Compute) is not on PATH")
    assert "No counters of the GPU: ncu (Nsight Compute) is not on PATH. Outputs and times only.\n" in rendered(compared)


def test_json() -> None:
    document = json.loads(json.dumps(as_json(example())))
    assert (document["schema"], document["simulator"], document["gpu"]) == (1, "sim:h200", {"name": "NVIDIA H200", "arch": "sm_90", "cuda": "13.0"})
    first, second, third = document["cases"]
    assert first["counters"][TIME] == {"simulator": 3000.5, "gpu": 2400, "mark": "estimated", "equal": False, "relative": 600.5 / 2400}
    assert first["outputs"][0]["first"] == {"index": 1, "simulator": 2.0, "gpu": 4.0}
    assert (first["gpu_us"], first["gpu_samples_us"], first["verdict"]) == (9.0, [9.0, 11.0, 8.0], "differs")
    assert (second["verdict"], second["simulator_error"], third["gpu_error"]) == ("error", "out of bounds", "too new")
