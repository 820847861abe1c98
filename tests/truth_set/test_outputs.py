"""The truth set's launches on the simulator: every output buffer as an H200 left it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.cases import read_cases, run_case
from gridstride.runtime.request import LaunchRequest

TRUTH = Path(__file__).parent.parent / "truth"
# Relative to the largest value (truth/README.md): unordered double atomics, and instructions that PTX only gives a bound for.
LOOSE = {"math_mix": 2e-6, "nbody_tile": 1e-4, "dot_double_atomic": 1e-12}
CASES = read_cases(TRUTH / "cases.json")


@pytest.fixture(scope="module")
def module() -> gs.Module:
    return gs.device("sim:h200").compile(TRUTH / "kernels.ptx")


@pytest.fixture(scope="module")
def truth() -> dict[str, np.ndarray]:
    with np.load(TRUTH / "outputs.npz") as saved:
        return dict(saved)


def test_the_truth_set_covers_every_output_of_every_case(truth: dict[str, np.ndarray]) -> None:
    asked = {
        f"{request.name}.{position}"
        for request in CASES
        for position, argument in enumerate(request.arguments)
        if getattr(argument, "out", False)
    }
    assert asked == set(truth)


@pytest.mark.parametrize("request_", CASES, ids=lambda request: request.name)
def test_outputs_are_the_gpus(request_: LaunchRequest, module: gs.Module, truth: dict[str, np.ndarray]) -> None:
    result = run_case(request_, module.fresh())
    assert result.failure is None, result.failure
    for position, have in result.outputs.items():
        want = truth[f"{request_.name}.{position}"]
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        tolerance = LOOSE.get(re.sub(r"_\d+$", "", request_.name))
        if tolerance is None:
            wrong = np.flatnonzero(have.view(np.uint8) != want.view(np.uint8)) // want.itemsize
            assert wrong.size == 0, f"argument {position}: {np.unique(wrong).size} of {want.size} elements differ, first [{wrong[0]}]"
        else:
            assert np.abs(have - want).max() <= tolerance * np.abs(want).max()


def test_the_command_line_runs_the_whole_set_in_one_process(tmp_path: Path, truth: dict[str, np.ndarray]) -> None:
    # In a process of its own: native code of many kernels among the memories of many devices once ended it.
    command = [sys.executable, "-m", "gridstride.cli", "launch", str(TRUTH / "kernels.ptx"), "--cases", str(TRUTH / "cases.json")]
    files = ["--json", str(tmp_path / "r.json"), "--save", str(tmp_path / "r.npz")]
    ended = subprocess.run([*command, *files], capture_output=True, text=True, timeout=280, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    results = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert [case["name"] for case in results] == [request.name for request in CASES]
    assert all(case["status"] == "ok" and case["receipt"]["launches"] == 1 for case in results)
    with np.load(tmp_path / "r.npz") as saved:
        assert set(saved) == set(truth)
