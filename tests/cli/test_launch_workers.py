"""`gridstride launch --cases … --workers N` gives what one process gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride.cli import main

pytest.importorskip("distributed")

SOURCE = """
__global__ void add(float* x, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += a; }
__global__ void past(float* x) { x[threadIdx.x + 1] = 1.0f; }
"""


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


@pytest.fixture
def cases(tmp_path: Path) -> tuple[Path, Path]:
    """A source, and six launches of it, one of which reads past its end."""
    (tmp_path / "k.cu").write_text(SOURCE)
    x: list[Any] = ["buf", "f32", 100, "arange", {"out": True}]
    launches = [{"name": f"add {n}", "kernel": "add", "grid": [1, 1, 1], "block": [128, 1, 1], "smem": 0, "args": [x, ["f32", float(n)], ["i32", 100]]} for n in range(5)]
    launches.insert(2, {"name": "past", "kernel": "past", "grid": [1, 1, 1], "block": [128, 1, 1], "smem": 0, "args": [x]})
    (tmp_path / "cases.json").write_text(json.dumps(launches))
    return tmp_path / "k.cu", tmp_path / "cases.json"


def test_workers_give_what_one_process_gives(cases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, file = cases
    results, arrays, said = [], [], []
    for name, more in (("one", ()), ("two", ("--workers", 2))):
        arguments = ("check", source, "--cases", file, "--profile", "--json", tmp_path / f"{name}.json", "--save", tmp_path / f"{name}.npz", *more)
        assert call(*arguments) == 1
        document = json.loads((tmp_path / f"{name}.json").read_text())
        for case in document["cases"]:
            case.pop("seconds")
            for finding in case["findings"]:
                finding.pop("address")  # of this run's memory
        results.append(document)
        arrays.append(dict(np.load(tmp_path / f"{name}.npz")))
        said.append(re.sub("address 0x[0-9a-f]+", "", capsys.readouterr().err))
    assert results[0] == results[1] and said[0] == said[1]
    assert [case["name"] for case in results[1]["cases"]] == ["add 0", "add 1", "past", "add 2", "add 3", "add 4"]
    assert arrays[0].keys() == arrays[1].keys()
    for number in range(5):
        np.testing.assert_array_equal(arrays[1][f"add {number}.0"], np.arange(100, dtype=np.float32) + number)


def test_workers_without_cases_wrong(cases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    source, file = cases
    assert call("launch", source, "past", "--grid", 1, "--block", 32, "--arg", "x=f32[64]:zeros", "--workers", 2) == 2
    assert capsys.readouterr().err == "gridstride: --workers spreads the launches of a case file: give --cases\n"
    assert call("launch", source, "--cases", file, "--workers", 2, "--trace", source.with_name("t.json")) == 2
    assert capsys.readouterr().err == "gridstride: --trace is for one process: leave out --workers\n"
