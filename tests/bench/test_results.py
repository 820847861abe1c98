"""Statistics, goals, rivals' output and the report."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gridstride.bench.cases import contents, saxpy_case
from gridstride.bench.report import as_json, render
from gridstride.bench.results import KernelResult, Options, Results
from gridstride.bench.rivals import Rival, parse_oclgrind_dump
from gridstride.bench.stats import Sample, geometric_mean
from gridstride.bench.verify import difference

MILLI = 1e-3


def test_median_and_spread() -> None:
    sample = Sample.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (sample.median, sample.best) == (3.0, 1.0)
    assert sample.spread == pytest.approx((4 - 2) / 2 / 3)  # quartiles of 1..5 are 2 and 4
    assert Sample.of([7.0]).spread == 0


def test_one_slow_outlier_moves_neither_median_nor_spread() -> None:
    assert Sample.of([1.0] * 6 + [100.0]).median == 1.0
    assert Sample.of([1.0] * 6 + [100.0]).spread == 0.0


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Sample.of([])


@given(st.lists(st.floats(0.01, 100), min_size=1))
def test_geometric_mean_of_inverses_is_the_inverse(ratios: list[float]) -> None:
    assert geometric_mean(ratios) * geometric_mean(1 / r for r in ratios) == pytest.approx(1)


def test_geometric_mean() -> None:
    assert geometric_mean([1, 10, 100]) == pytest.approx(10)
    for bad in ([], [1, 0], [-1.0]):
        with pytest.raises(ValueError, match="positive"):
            geometric_mean(bad)


def test_oclgrind_dump() -> None:
    text = "\nArgument 'y': 12 bytes\n  y[0] = 0.5\n  y[1] = 2.5\n  y[2] = -1e+06\n\n"
    assert parse_oclgrind_dump(text) == [0.5, 2.5, -1e6]
    assert parse_oclgrind_dump("nothing") == []


def kernel(name: str, simulated: float, native: float, compile_seconds: float = 0.5) -> KernelResult:
    return KernelResult(name, 1 << 20, 1 << 22, 1, compile_seconds, Sample.of([simulated]), Sample.of([native]))


def results(kernels: list[KernelResult]) -> Results:
    found = Results({"processor": "some"}, Options(), kernels=kernels)
    found.saxpy = KernelResult("saxpy", 1_000_000, 8_000_000, 1, 0.1, Sample.of([2 * MILLI]), Sample.of([1 * MILLI]))
    found.numpy = {"a * x + y": Sample.of([3 * MILLI]), "in place": Sample.of([1 * MILLI])}
    found.rivals = [Rival("Numba simulator", "numba 1", 1000, Sample.of([0.1])), Rival("Oclgrind", "Oclgrind 2", 1000, Sample.of([0.0005]))]
    return found


def verdicts(found: Results) -> list[tuple[str, bool | None]]:
    return [(goal.measured, goal.met) for goal in found.goals()]


def test_goals() -> None:
    found = results([kernel(f"k{i}", 1.5, 1.0) for i in range(19)] + [kernel("slow", 9.0, 1.0, 1.2)])
    mean = math.exp((19 * math.log(1.5) + math.log(9)) / 20)
    assert verdicts(found) == [
        ("0.50", True),  # against the faster of NumPy's two forms
        ("50,000", True),  # 5e8 threads a second against 1e4
        ("250", True),  # against 2e6
        (f"{mean:.2f}", True),
        ("9.0 (slow)", True),
        ("1.20 s (slow)", False),
    ]


def test_goals_missed() -> None:
    found = results([kernel(f"k{i}", 2.5, 1.0) for i in range(20)] + [kernel("worst", 11.0, 1.0)])
    found.numpy["in place"] = Sample.of([0.99 * MILLI])
    found.rivals = [
        Rival("Numba simulator", "numba 1", 1000, Sample.of([0.01])),
        Rival("Oclgrind", "Oclgrind 2", 1000, Sample.of([0.0003])),
    ]
    assert [met for _, met in verdicts(found)] == [False, False, False, False, False, True]


def test_a_failed_kernel_keeps_the_goals_from_being_met() -> None:
    kernels = [kernel(f"k{i}", 1.0, 1.0) for i in range(20)]
    assert not results(kernels).failed
    broken = results([*kernels, KernelResult("broken", 1, 1, error="wrong result")])
    assert broken.failed
    assert [met for _, met in verdicts(broken)][3:] == [False, False, False]


def test_too_few_kernels_for_a_mean_are_not_called_met() -> None:
    assert results([kernel("one", 1.0, 1.0)]).goals()[3].met is None


def test_report_shows_figures_failures_and_what_was_skipped() -> None:
    found = results([kernel("fast", 0.05, 0.1), KernelResult("broken", 1, 1, error="argument 2 differs")])
    found.skipped.append("Oclgrind: not there")
    text = io.StringIO()
    Console(file=text, width=160).print(render(found))
    for expected in (
        "fast",
        "50.0 ms",
        "100.0 ms",
        "0.50",
        "median 0.50, 0 of 1 kernels above 2",
        "broken: argument 2 differs",
        "skipped: Oclgrind: not there",
        "some",
    ):
        assert expected in text.getvalue()


def test_json_survives_a_round_trip() -> None:
    found = results([kernel("fast", 0.05, 0.1), KernelResult("broken", 1, 1, error="argument 2 differs")])
    data = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert data["kernels"][0]["ratio"] == pytest.approx(0.5)
    assert data["kernels"][1] | {"threads": 0, "bytes": 0} == {
        "kernel": "broken",
        "threads": 0,
        "bytes": 0,
        "launches": 1,
        "compile_seconds": None,
        "simulated": None,
        "native": None,
        "ratio": None,
        "error": "argument 2 differs",
    }
    assert data["rivals"][1]["seconds"] == [0.0005]


def test_a_wrong_bit_is_found() -> None:
    case = saxpy_case(300)
    want = [contents(argument) for argument in case.arguments]
    y = want[2]
    assert y is not None
    got = y.copy()
    assert difference(case, {2: got}, want) is None
    got.view(np.uint32)[17] ^= 1
    message = difference(case, {2: got}, want)
    assert message is not None
    assert message.startswith("wrong result: argument 2 differs in 1 of 300 elements, first in element 17")
