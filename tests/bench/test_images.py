"""The image pipeline against OpenCV: verified before it is timed; the goal and what it is made of."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gridstride.bench import Options, images
from gridstride.bench.images import COUNTED, OPENCV, ImageResults
from gridstride.bench.stats import Sample
from gridstride.cli import main

pytest.importorskip("cv2")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_HEIGHT", 240)
    monkeypatch.setattr(images, "_WIDTH", 480)


def test_what_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--pipeline", "--quick", "--json", str(tmp_path / "r.json")])
    assert not ended.value.code and COUNTED in capsys.readouterr().out
    made = json.loads((tmp_path / "r.json").read_text())
    assert (made["height"], made["width"], made["error"]) == (60, 120, None) and made["environment"]["opencv"]
    assert list(made["seconds"]) == [OPENCV, "fused", COUNTED] and all(len(sample["seconds"]) == 3 for sample in made["seconds"].values())
    assert [goal["met"] for goal in made["goals"]] == [None]


@pytest.mark.parametrize(("counted", "met"), [(0.39, True), (0.41, False)])
def test_goal(counted: float, met: bool) -> None:
    results = ImageResults({}, Options(), 2160, 3840, {OPENCV: Sample.of([0.2, 0.1]), COUNTED: Sample.of([counted, 1.0])})
    (goal,) = results.goals()
    assert goal.met is met and goal.measured == f"{counted / 0.1:.2f}"
    text = io.StringIO()
    Console(file=text, width=200).print(images.render(results))
    assert f"{counted / 0.1:.2f}" in text.getvalue()


def test_wrong_edges_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = images.opencv_chain

    def wrong(cv2: Any, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        edges, histogram = right(cv2, image)
        return 255 - edges, histogram

    monkeypatch.setattr(images, "opencv_chain", wrong)
    results = images.run(Options(quick=True))
    assert results.failed and results.error == "OpenCV's edges are not those of the same chain" and not results.seconds and not results.goals()


def test_two_benchmarks_at_once_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--pipeline", "--observers"])
    assert ended.value.code == 2 and capsys.readouterr().err == "gridstride: --observers and --pipeline are two benchmarks: run one at a time\n"
