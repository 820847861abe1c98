"""What observing costs: which observers are on in which mode, ratios, goals. The clock here is a fake that the launches move."""

import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console

from gridstride.bench import Options, observer_report, observers
from gridstride.bench.cases import contents, saxpy_case, scaled_cases
from gridstride.bench.observers import MODES, PLAIN, ObservedKernel, ObserverResults, measure
from gridstride.bench.simulated import Simulator, Staged
from gridstride.bench.stats import Sample
from gridstride.cli.bench import command
from gridstride.errors import LaunchError, UsageError
from gridstride.runtime import checking, profiling
from gridstride.runtime.request import LaunchRequest

CASE = saxpy_case(1000)
FIRST = contents(CASE.arguments[2])
NAMES = [PLAIN, *(mode.name for mode in MODES)]


def open_now() -> str:
    """The mode that is on, told from what a launch would see."""
    kinds = frozenset(kind for kind in ("race-shared", "race-global", "uninitialised", "divergent-barrier") if checking.is_checking(kind))
    if profiling.is_profiling():
        assert not kinds
        return "profile"
    known = {
        frozenset[str](): PLAIN,
        frozenset({"uninitialised"}): "uninitialised",
        frozenset({"race-shared", "race-global"}): "races",
        frozenset({"race-shared", "race-global", "uninitialised", "divergent-barrier"}): "all checks",
    }
    return known[kinds]


class FakeSimulator(Simulator):
    """Launches take 1, 2, 3… times 0.1 s by mode, in the order of `NAMES`; a second more while native code is made."""

    def __init__(self, wrong_under: str = "", error: str = "") -> None:
        self.now, self.wrong_under, self.error = 0.0, wrong_under, error
        self.launched: list[str] = []

    def stage(self, case: LaunchRequest, arrays: Sequence[Any]) -> Staged:
        if self.error:
            raise LaunchError(self.error)
        return FakeStaged(self, case, [None if a is None else a.copy() for a in arrays])


class FakeStaged(Staged):
    def __init__(self, simulator: FakeSimulator, case: LaunchRequest, arrays: list[Any]) -> None:
        self.simulator, self._case, self.arrays = simulator, case, arrays

    def reset(self, index: int, array: Any) -> None:
        self.arrays[index][...] = array
        self.simulator.now += 7  # must not be measured

    def launch(self) -> float:
        mode = open_now()
        np.testing.assert_array_equal(self.arrays[2], FIRST)
        self.arrays[2][...] = 5 + (mode == self.simulator.wrong_under)
        self.simulator.now += 0.1 * (1 + NAMES.index(mode)) + (mode not in self.simulator.launched)
        self.simulator.launched.append(mode)
        return math.nan

    def outputs(self) -> dict[int, Any]:
        return {2: self.arrays[2]}

    def free(self) -> None:
        self.arrays = []


def measured(monkeypatch: pytest.MonkeyPatch, simulator: FakeSimulator, rounds: int = 2) -> ObservedKernel:
    monkeypatch.setattr(observers.time, "process_time", lambda: simulator.now)
    return measure(CASE, simulator, rounds)


def test_every_mode_turns_on_what_it_is_called_after_and_compilation_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = FakeSimulator()
    found = measured(monkeypatch, simulator)
    assert found.error is None
    assert {name: sample.seconds for name, sample in found.seconds.items()} == {
        name: pytest.approx([0.1 * (1 + k)] * 2) for k, name in enumerate(NAMES)
    }
    assert [found.ratio(mode.name) for mode in MODES] == pytest.approx([2, 3, 4, 5])


def test_modes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = FakeSimulator()
    measured(monkeypatch, simulator)
    assert simulator.launched[2 * len(NAMES) :] == NAMES * 2  # after two launches of each: native code, and how many make a measurement


def test_a_launch_that_leaves_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, FakeSimulator(wrong_under="races"))
    assert (found.error, found.seconds) == ("argument 2 is another under races", {})


def test_a_kernel_that_fails_is_told_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, FakeSimulator(error="too large")).error == "too large"


def test_the_ratio_is_of_the_least_of_both() -> None:
    kernel = ObservedKernel("k", 1, 1, {PLAIN: Sample.of([0.2, 0.1, 9.0]), "races": Sample.of([5.0, 0.4, 0.5])})
    assert kernel.ratio("races") == pytest.approx(4)


def observed(name: str, *ratios: float) -> ObservedKernel:
    return ObservedKernel(name, 1, 1, {mode: Sample.of([ratio / 100]) for mode, ratio in zip(NAMES, (1.0, *ratios), strict=True)})


def results(*kernels: ObservedKernel, options: Options | None = None) -> ObserverResults:
    return ObserverResults({"processor": "some"}, options or Options(), list(kernels))


def test_goals_are_of_the_geometric_mean() -> None:
    found = results(observed("a", 1, 1, 3, 9), observed("b", 1.96, 16, 12, 9))
    assert [(goal.measured, goal.met) for goal in found.goals()] == [("1.40", True), ("4.00", False), ("6.00", True), ("9.00", True)]
    assert [goal.met for goal in results(observed("a", 1, 1, 1, 1), options=Options(only=("a",))).goals()] == [None] * 4


def test_a_failed_kernel_keeps_the_goals_from_being_met() -> None:
    found = results(observed("a", 1, 1, 1, 1), ObservedKernel("b", 1, 1, error="wrong"))
    assert found.failed
    assert [goal.met for goal in found.goals()] == [False] * 4


def test_report_and_json() -> None:
    found = results(observed("a", 1.25, 2.5, 5, 7.5), ObservedKernel("b", 2048, 1, error="argument 1 is another under races"))
    text = io.StringIO()
    Console(file=text, width=160).print(observer_report.render(found))
    for expected in ("some", "10.0 ms", "1.25", "2.50", "5.00", "7.50", "geometric mean", "2,048", "b: argument 1 is another under races", "missed"):
        assert expected in text.getvalue()
    document = json.loads(json.dumps(observer_report.as_json(found), allow_nan=False))
    assert document["means"] == pytest.approx({"profile": 1.25, "uninitialised": 2.5, "races": 5, "all checks": 7.5})
    assert document["kernels"][0]["ratios"] == pytest.approx(document["means"])
    assert document["kernels"][0]["seconds"]["plain"]["seconds"] == [0.01]
    assert (document["kernels"][1]["ratios"], document["kernels"][1]["error"]) == ({}, "argument 1 is another under races")


def test_unknown_kernel_wrong() -> None:
    with pytest.raises(UsageError, match=r"^The benchmark has no kernel called saxpy; it has aos_field, .*, volume3d\.$"):
        observers.run(Options(only=("saxpy",)))


def test_from_the_command_line_with_the_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Small launches of three kernels; that their outputs are the same in all modes is looked at by the measurement."""
    monkeypatch.setattr(observers, "scaled_cases", lambda divide: scaled_cases(divide * 128))
    wanted = ["reduce_tree", "sgemm_tiled", "shared_atomic"]
    with pytest.raises(typer.Exit) as ended:
        command(only=wanted, quick=True, observers=True, json=str(tmp_path / "found.json"))
    assert ended.value.exit_code == 0
    document = json.loads((tmp_path / "found.json").read_text())
    assert sorted(kernel["kernel"] for kernel in document["kernels"]) == wanted
    assert all(kernel["error"] is None and list(kernel["seconds"]) == NAMES for kernel in document["kernels"])
    assert "geometric mean" in capsys.readouterr().out
