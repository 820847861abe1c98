"""`library`: the chain of array functions, here with NumPy's and SciPy's, which have the names and meanings of CuPy's; refused without a GPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.cli import main
from gridstride.errors import UnsupportedError
from gridstride.pipeline import EdgePipeline, Parameters, differences, library, reference
from gridstride.pipeline.library import Libraries
from gridstride.pipeline.results import EdgeResult
from gridstride.pipeline.verify import verify
from pipeline import cases, encode

ndimage = pytest.importorskip("scipy.ndimage")
ON_HOST = Libraries(np, ndimage, np.asarray, lambda: None, lambda edges: np.bincount(edges.ravel(), minlength=256))
CHOICES: list[dict[str, Any]] = [
    {},
    {"sigma": 2.0, "border": "reflect", "output": "blurred", "depth": "float"},
    {"sigma": 3.3, "border": "constant", "border_value": 99.5, "output": "magnitude", "depth": 16},
    {"output": "thresholded", "threshold": 61.25},
    {"radius": 0, "output": "grey", "depth": 8},
]
SHAPES = ((1, 1), (1, 40), (40, 1), (3, 5), (130, 257))


def made(image: np.ndarray, chosen: Parameters = Parameters()) -> EdgeResult:  # noqa: B008 - it cannot be changed
    return library.run(image, chosen, ON_HOST).result


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(map(str, choice.values())) or "default")
@pytest.mark.parametrize("channels", cases.CHANNELS)
@pytest.mark.parametrize("bits", cases.DEPTHS)
def test_the_chain_is_the_pipeline_within_the_tolerance(choice: dict[str, Any], channels: int, bits: int) -> None:
    chosen = Parameters(**choice)
    exact = EdgePipeline(gs.device("sim"), chosen, "reference")
    for shape in SHAPES:
        image = cases.image(*shape, channels, bits)
        result = made(image, chosen)
        checks = verify(image, result, chosen)
        assert all(check.passed for check in checks), (shape, checks)
        assert result.output.dtype == chosen.output_type and result.edges.dtype == np.uint8
        assert differences(exact.run(image).result, result) == []


def test_verification_still_notices_what_is_wrong() -> None:
    image = cases.image(130, 257, 3, 8)
    result = made(image)
    fraction = reference.run(image, np.float64).magnitude % 1
    place = np.unravel_index(np.argmin(np.abs(fraction - 0.25)), fraction.shape)  # far from where it is rounded
    edges = result.edges.copy()
    edges[place] -= 1
    (failed,) = [check for check in verify(image, dataclasses.replace(result, edges=edges, output=edges)) if not check.passed]
    assert (failed.stage, failed.max_error) == ("edges and histogram", 1)
    histogram = result.histogram.copy()
    histogram[3] += 2
    (failed,) = [check for check in verify(image, dataclasses.replace(result, histogram=histogram)) if not check.passed]
    assert (failed.stage, failed.max_error) == ("edges and histogram", 2)
    wrong = made(image, Parameters(1.1, 2))
    assert [check.stage for check in verify(image, wrong) if not check.passed] == ["blur rows", "blur columns", "sobel", "edges and histogram"]
    assert {difference.array for difference in differences(made(image), wrong)} == {"blurred_rows", "blurred", "magnitude"}


def test_constant_image_has_no_edges() -> None:
    result = made(np.full((33, 65, 3), 201, np.uint8))
    assert not result.edges.any() and result.histogram[0] == 33 * 65 == result.histogram.sum()


def test_on_the_simulator_wrong() -> None:
    with pytest.raises(UnsupportedError) as caught:
        EdgePipeline(gs.device("sim"), impl="library")
    expected = "the implementation `library` is CuPy on a GPU, and sim:h200 is the simulator: name another, or --device gpu where there is one"
    assert str(caught.value) == expected


def test_without_cupy_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(UnsupportedError) as caught:
        library.libraries(SimpleNamespace(name="gpu:0"))  # type: ignore[arg-type]
    assert str(caught.value) == "the implementation `library` needs CuPy, which is not installed: pip install cupy-cuda13x"


def test_on_the_command_line_it_is_refused_or_left_out_visibly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").write_bytes(encode.png(cases.image(9, 20, 1, 8)))
    arguments = ["pipeline", str(tmp_path / "a.png"), "-o", str(tmp_path), "--device", "sim", "--impl"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "library"])
    assert ended.value.code == 3 and capsys.readouterr().err.startswith("gridstride: the implementation `library` is CuPy on a GPU, and sim:h200 is ")
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "all"])
    assert not ended.value.code and capsys.readouterr().out.startswith("Left out: the implementation `library` is CuPy on a GPU")


def test_on_a_gpu() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        device = gs.device("gpu")
    except UnsupportedError as error:
        pytest.skip(str(error))
    for choice in CHOICES:
        chosen = Parameters(**choice)
        for shape in SHAPES:
            image = cases.image(*shape, 3, 8)
            assert all(check.passed for check in verify(image, EdgePipeline(device, chosen, "library").run(image).result, chosen)), (choice, shape)
