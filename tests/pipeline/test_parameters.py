"""Sigma, radius, border, output and depth: against SciPy's and NumPy's formulas, on every implementation; and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridstride as gs
from gridstride.cli import main
from gridstride.errors import UsageError
from gridstride.pipeline import IMPLEMENTATIONS, EdgePipeline, Parameters, edges, images, reference
from gridstride.pipeline.parameters import BORDERS, DEPTHS, MAX_RADIUS, OUTPUTS
from gridstride.pipeline.verify import verify
from pipeline import cases, encode

CHOICES = [
    {"sigma": 0.5, "radius": 1, "border": "reflect", "output": "magnitude", "depth": 16},
    {"sigma": 3.3, "border": "constant", "border_value": 99.5, "output": "blurred", "depth": "float"},
    {"sigma": 2.0, "radius": 0, "output": "thresholded", "threshold": 61.25, "depth": 8},
    {"sigma": 9.0, "radius": 16, "border": "reflect", "output": "blurred_rows", "depth": 8},
    {"border": "constant", "output": "grey", "depth": 16},
    {"sigma": 1.5, "radius": 3, "border": "constant", "border_value": 255.0, "output": "magnitude", "depth": "float"},
]
SHAPES = ((1, 1), (1, 40), (40, 1), (3, 5), (70, 131))


@given(st.floats(0.1, 8))
def test_weights_are_symmetric_and_sum_to_one(sigma: float) -> None:
    weights = Parameters(sigma).weights
    assert len(weights) == 2 * math.ceil(2 * sigma) + 1 and weights == weights[::-1]
    assert sum(weights) == pytest.approx(1, abs=1e-15) and all(a <= b for a, b in itertools.pairwise(weights[: len(weights) // 2 + 1]))


def test_weights_are_a_normal_distribution_over_each_pixel() -> None:
    """Against the integral of the density by the midpoint rule, with 1,000 points a pixel."""
    sigma, radius = 1.7, 4
    points = (np.arange(-radius * 1000 - 500, radius * 1000 + 500) + 0.5) / 1000
    averages = np.exp(-0.5 * (points / sigma) ** 2).reshape(2 * radius + 1, 1000).sum(1)
    np.testing.assert_allclose(Parameters(sigma, radius).weights, averages / averages.sum(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 3), (17, 33)])
@pytest.mark.parametrize(("border", "mode"), [("replicate", "nearest"), ("reflect", "reflect"), ("constant", "constant")])
def test_reference_agrees_with_scipy(shape: tuple[int, int], border: Any, mode: str) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    chosen = Parameters(2.5, border=border, border_value=40)
    image = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
    ours = reference.run(image, np.float64, chosen)
    blurred = image.astype(np.float64)
    for axis in (1, 0):
        blurred = ndimage.correlate1d(blurred, np.array(chosen.weights), axis, mode=mode, cval=40)
    np.testing.assert_allclose(ours.blurred, blurred, rtol=0, atol=1e-10)
    expected = np.hypot(ndimage.sobel(blurred, 1, mode=mode, cval=40), ndimage.sobel(blurred, 0, mode=mode, cval=40))
    if border != "constant":  # SciPy's Sobel has two passes, and takes the constant anew for the second
        np.testing.assert_allclose(ours.magnitude, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("border", ["replicate", "reflect", "constant"])
def test_blur_is_the_sum_over_the_neighbours_by_their_definition(border: Any) -> None:
    """Pixel by pixel, with the index that each border means worked out in Python."""
    row, chosen = [10.0, 200.0, 30.0], Parameters(3.0, 5, border, 7.0)
    found = {
        "replicate": lambda i: row[min(max(i, 0), 2)],
        "reflect": lambda i: (row + row[::-1])[i % 6],
        "constant": lambda i: row[i] if 0 <= i < 3 else 7.0,
    }[border]
    expected = [sum(weight * found(x + tap) for weight, tap in zip(chosen.weights, range(-5, 6), strict=True)) for x in range(3)]
    np.testing.assert_allclose(reference.blur_rows(np.array([row]), chosen)[0], expected, rtol=1e-14)
    np.testing.assert_allclose(reference.blur_columns(np.array([row]).T, chosen)[:, 0], expected, rtol=1e-14)


def every_choice(of_each: Collection[int]) -> list[Any]:
    """Each implementation with each choice. Compiling takes the time: of `fused`, `cub` and `python` those with the numbers `of_each`, the rest long."""
    return [
        pytest.param(impl, choice, id="-".join(map(str, (impl, *choice.values()))), marks=() if impl in ("cuda", "reference") or number in of_each else pytest.mark.long)
        for impl in IMPLEMENTATIONS
        for number, choice in enumerate(CHOICES)
    ]


@pytest.mark.parametrize(("impl", "choice"), every_choice(()))
def test_every_implementation_has_the_bits_of_the_reference_and_no_finding(impl: str, choice: dict[str, Any]) -> None:
    chosen = Parameters(**choice)
    pipeline = EdgePipeline(gs.device("sim"), chosen, impl)
    for number, shape in enumerate(SHAPES):
        image = cases.image(*shape, cases.CHANNELS[number % 3], cases.DEPTHS[number % 2])
        with gs.checking() as findings:
            result = pipeline.run(image).result
        assert not findings, (shape, str(findings))
        assert result.output.dtype == chosen.output_type and result.output.shape == shape
        checks = verify(image, result, chosen)
        assert all(check.passed and check.differing == 0 for check in checks), (shape, checks)


@pytest.mark.parametrize("number", [0, 3, 5])
def test_fused_of_other_choices(number: int) -> None:
    """Under checks these take up to minutes to compile, so that is a long test."""
    chosen, image = Parameters(**CHOICES[number]), cases.image(70, 131, 3, 8)
    result = EdgePipeline(gs.device("sim"), chosen, "fused").run(image).result
    assert all(check.passed and check.differing == 0 for check in verify(image, result, chosen))


def test_thresholds_and_depths_of_known_magnitudes() -> None:
    """A step from 0 to 50 without blur has the gradient 4 * 50 on both sides of it."""
    image = np.repeat([[0, 0, 0, 50, 50, 50]], 4, axis=0).astype(np.uint8)

    def row(**choice: Any) -> list[float]:
        return list(edges(image, radius=0, impl="reference", **choice).output[1])

    assert row() == [0, 0, 200, 200, 0, 0]
    assert row(depth=16) == [0, 0, 51400, 51400, 0, 0]
    assert row(output="thresholded", threshold=200) == [0, 0, 255, 255, 0, 0]
    assert row(output="thresholded", threshold=200, depth=16) == [0, 0, 65535, 65535, 0, 0]
    assert row(output="thresholded", threshold=200.5, depth="float") == [0] * 6
    assert row(output="grey", depth=16) == [0, 0, 0, 12850, 12850, 12850]


def test_choices_that_change_nothing_leave_the_default_bits() -> None:
    image = cases.image(17, 33, 3, 8)
    measured = json.loads((Path(__file__).parent / "edges_h200.json").read_text())[cases.name(17, 33, 3, 8)]
    result = edges(image, "sim", sigma=1, radius=2, border="replicate", output="magnitude", depth="float")
    assert cases.digest(result.edges) == measured["edges"] and cases.digest(result.output) == measured["magnitude"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"sigma": 0}, "sigma is a number of pixels from 0.1 to 100, not 0"),
        ({"sigma": math.nan}, "sigma is a number of pixels from 0.1 to 100, not nan"),
        ({"radius": 17}, "radius is a whole number from 0 to 16, not 17"),
        ({"radius": 1.5}, "radius is a whole number from 0 to 16, not 1.5"),
        ({"sigma": 20}, "sigma 20 reaches 40 pixels to each side; 16 is the most: name a radius to cut it off there"),
        ({"border": "wrap"}, f"border is one of {', '.join(BORDERS)}, not wrap"),
        ({"output": "sobel"}, f"output is one of {', '.join(OUTPUTS)}, not sobel"),
        ({"depth": 32}, f"depth is one of {', '.join(map(str, DEPTHS))}, not 32"),
        ({"border_value": -1}, "border_value is a number from 0 to 2000, on the scale of 0 to 255 of the stages, not -1"),
        ({"impl": "fast"}, f"there is no implementation `fast`; there are {', '.join(IMPLEMENTATIONS)}, and library on a GPU"),
    ],
)
def test_choices_that_cannot_be_wrong(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        edges(np.zeros((2, 2), np.uint8), "sim", **choice)
    assert str(caught.value) == message


def test_radius_of_the_manual_is_the_limit() -> None:
    assert len(Parameters(8.0).weights) == 2 * MAX_RADIUS + 1


@pytest.mark.parametrize(
    ("options", "name", "dtype"),
    [
        (["--stage", "blurred", "--sigma", "2", "--border", "reflect"], "photo-blurred.png", np.uint8),
        (["--stage", "thresholded", "--threshold", "70", "--depth", "16"], "photo-thresholded.png", np.uint16),
        (["--depth", "float", "--impl", "reference"], "photo-edges.tif", np.float32),
    ],
)
def test_on_the_command_line(tmp_path: Path, options: list[str], name: str, dtype: Any) -> None:
    image = cases.image(20, 30, 3, 8)
    (tmp_path / "photo.png").write_bytes(encode.png(image))
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", str(tmp_path / "photo.png"), "-o", str(tmp_path / "out"), "--device", "sim", *options])
    assert not ended.value.code and [path.name for path in (tmp_path / "out").iterdir()] == [name]
    choice = {
        "photo-blurred.png": Parameters(2.0, border="reflect", output="blurred"),
        "photo-thresholded.png": Parameters(output="thresholded", threshold=70, depth=16),
        "photo-edges.tif": Parameters(depth="float"),
    }[name]
    expected = reference.run(image, np.float32, choice).output
    if dtype == np.float32:
        from PIL import Image

        written = np.asarray(Image.open(tmp_path / "out" / name))
    else:
        written = images.read_image(tmp_path / "out" / name)
    assert written.dtype == dtype
    np.testing.assert_array_equal(written, expected)
