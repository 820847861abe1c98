"""The order of a measurement: verified first, fresh contents before every launch, failures kept apart. The device here is a fake."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride.bench import Options, rivals, runner
from gridstride.bench.cases import contents, saxpy_case
from gridstride.bench.loops import Loops
from gridstride.bench.measure import measure
from gridstride.bench.simulated import Simulator, Staged, empty_cache
from gridstride.errors import LaunchError, UsageError
from gridstride.runtime.request import LaunchRequest


def saxpy(arrays: Sequence[Any]) -> None:
    arrays[2][...] = (2.0 * arrays[1].astype(np.float64) + arrays[2]).astype(np.float32)


class FakeLoops(Loops):
    def __init__(self) -> None:
        self.started_from: list[float] = []

    def call(self, case: LaunchRequest, arrays: Sequence[Any]) -> float:
        self.started_from.append(float(arrays[2][0]))
        saxpy(arrays)
        return 0.01


class FakeStaged(Staged):
    def __init__(self, case: LaunchRequest, arrays: Sequence[Any], wrong: bool, seconds: Sequence[float]) -> None:
        self._case, self.arrays, self.wrong = case, [None if a is None else a.copy() for a in arrays], wrong
        self.seconds, self.started_from, self.freed = iter(seconds), [], False

    def reset(self, index: int, array: Any) -> None:
        self.arrays[index][...] = array

    def launch(self) -> float:
        self.started_from.append(float(self.arrays[2][0]))
        saxpy(self.arrays)
        self.arrays[2][3] += self.wrong
        return next(self.seconds)

    def outputs(self) -> dict[int, Any]:
        return {2: self.arrays[2]}

    def free(self) -> None:
        self.freed = True


class FakeSimulator(Simulator):
    def __init__(self, seconds: Sequence[float], wrong: bool = False, error: str | None = None) -> None:
        self.seconds, self.wrong, self.error = seconds, wrong, error
        self.load_seconds = 0.0

    def start(self) -> float:
        return 0.0

    def stage(self, case: LaunchRequest, arrays: Sequence[Any]) -> Staged:
        if self.error:
            raise LaunchError(self.error)
        self.staged = FakeStaged(case, arrays, self.wrong, self.seconds)
        return self.staged


CASE = saxpy_case(1000)
FIRST = float(contents(CASE.arguments[2])[0])


def test_compile_time_is_what_the_first_launch_took_beyond_the_others() -> None:
    simulator = FakeSimulator([0.75, 9.0, 8.0, 9.0, 0.25, 0.5, 0.25])  # cold, three warm-ups, three measurements
    result = measure(CASE, simulator, FakeLoops(), 3)
    assert result.simulated and result.native
    assert result.simulated.seconds == (0.25, 0.5, 0.25)
    assert (result.launches, result.compile_seconds, result.ratio) == (1, 0.5, 25)


def test_every_launch_starts_from_the_first_contents() -> None:
    simulator, loops = FakeSimulator([0.1] * 7), FakeLoops()
    measure(CASE, simulator, loops, 3)
    assert simulator.staged.started_from == [FIRST] * 7
    assert loops.started_from == [FIRST] * 4
    assert simulator.staged.freed


def test_short_launches_are_taken_several_at_a_time() -> None:
    simulator = FakeSimulator([1.0, 0.03, 0.022, 0.04] + [0.01, 0.02, 0.03] * 2)
    result = measure(CASE, simulator, FakeLoops(), 2)
    assert result.launches == 3
    assert result.simulated and result.simulated.seconds == pytest.approx((0.02, 0.02))


def test_a_wrong_output_is_not_timed() -> None:
    simulator = FakeSimulator([1.0], wrong=True)  # a second launch would raise StopIteration
    result = measure(CASE, simulator, FakeLoops(), 3)
    assert result.simulated is None and result.ratio is None
    assert result.error and "differs in 1 of 1,000 elements, first in element 3" in result.error


def test_without_loops_the_simulator_is_still_timed() -> None:
    result = measure(CASE, FakeSimulator([0.1] * 6), None, 2)
    assert result.simulated and result.native is None and result.ratio is None


def test_a_kernel_that_fails_does_not_stop_the_others() -> None:
    assert measure(CASE, FakeSimulator([], error="too large"), FakeLoops(), 3).error == "too large"


def test_what_is_not_installed_is_skipped_in_sight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "Simulator", lambda sources: FakeSimulator([0.1] * 20))
    monkeypatch.setattr(runner, "find_compiler", lambda: None)
    monkeypatch.setattr(rivals.shutil, "which", lambda name: None)
    monkeypatch.setenv("GRIDSTRIDE_BENCH_NUMBA", "/bin/false")
    results = runner.run(Options(only=("saxpy",), quick=True))
    assert [skipped.split(":")[0] for skipped in results.skipped] == ["C++ loops", "Numba simulator", "Oclgrind"]
    assert results.saxpy and results.saxpy.simulated and not results.kernels
    assert len(results.goals()) == 1  # NumPy is always there


def test_unknown_kernel_wrong() -> None:
    with pytest.raises(UsageError, match=r"^The benchmark has no kernel called nosuch; it has aos_field, .*, volume3d\.$"):
        runner.run(Options(only=("nosuch", "saxpy")))


def test_the_cache_is_put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", "before")
    with empty_cache(tmp_path):
        assert os.environ["GRIDSTRIDE_CACHE_DIR"] == str(tmp_path)
    assert os.environ["GRIDSTRIDE_CACHE_DIR"] == "before"
    monkeypatch.delenv("GRIDSTRIDE_CACHE_DIR")
    with empty_cache(tmp_path):
        pass
    assert "GRIDSTRIDE_CACHE_DIR" not in os.environ
