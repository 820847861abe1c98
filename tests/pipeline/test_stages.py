"""The kernels on the simulator: bits as on an H200, every layout, odd sizes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.pipeline import EdgePipeline, edges, reference, results, stages
from gridstride.pipeline.verify import verify
from pipeline import cases

MEASURED = json.loads((Path(__file__).parent / "edges_h200.json").read_text())


@pytest.fixture(scope="module")
def pipeline() -> EdgePipeline:
    return EdgePipeline(gs.device("sim"))


@pytest.mark.parametrize("bits", cases.DEPTHS)
@pytest.mark.parametrize("channels", cases.CHANNELS)
@pytest.mark.parametrize(("height", "width"), cases.SHAPES)
def test_every_stage_has_the_bits_of_an_h200(pipeline: EdgePipeline, height: int, width: int, channels: int, bits: int) -> None:
    result = pipeline.run(cases.image(height, width, channels, bits)).result
    measured = MEASURED[cases.name(height, width, channels, bits)]
    assert {stage: cases.digest(getattr(result, stage)) for stage in cases.STAGES} == {stage: measured[stage] for stage in cases.STAGES}


@pytest.mark.parametrize(("height", "width", "bits"), [(1, 1, 8), (1, 77, 16), (77, 1, 8), (17, 33, 16), (64, 64, 8)])
def test_verification_passes_and_finds_no_differing_bit(pipeline: EdgePipeline, height: int, width: int, bits: int) -> None:
    image = cases.image(height, width, 3, bits)
    checks = verify(image, pipeline.run(image).result)
    assert [check.stage for check in checks] == list(results.STAGES)
    assert all(check.passed and check.differing == 0 for check in checks)


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (33, 17, 3), (8, 32, 4)])
def test_constant_image_has_no_edges(pipeline: EdgePipeline, shape: tuple[int, ...]) -> None:
    result = pipeline.run(np.full(shape, 201, np.uint8)).result
    assert not result.magnitude.any() and not result.edges.any()
    assert result.histogram[0] == shape[0] * shape[1] == result.histogram.sum()


def test_histogram_sums_to_the_pixels_over_several_blocks(pipeline: EdgePipeline) -> None:
    """130 x 257 pixels are 9 histogram blocks, the last one partly filled."""
    run = pipeline.run(cases.image(130, 257, 1, 8))
    assert run.stages[-1].grid == (9, 1)
    assert run.result.histogram.sum() == 130 * 257
    np.testing.assert_array_equal(run.result.histogram, np.bincount(run.result.edges.ravel(), minlength=256))


def test_image_taller_than_the_grid_may_be(pipeline: EdgePipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of 3 blocks along y instead of 65,535, threads must go on downwards: 3 * 8 rows at a time."""
    monkeypatch.setattr(stages, "MAX_GRID_Y", 3)
    image = cases.image(130, 33, 3, 8)
    run = pipeline.run(image)
    assert run.stages[0].grid == (2, 3)
    assert all(check.passed and check.differing == 0 for check in verify(image, run.result))


def test_grid_covers_the_image(pipeline: EdgePipeline) -> None:
    run = pipeline.run(np.zeros((17, 33), np.uint8))
    assert [(stage.kernel, stage.grid, stage.block) for stage in run.stages] == [
        ("grey_u8_1", (2, 3), (32, 8)),
        ("blur_rows", (2, 3), (32, 8)),
        ("blur_columns", (2, 3), (32, 8)),
        ("sobel", (2, 3), (32, 8)),
        ("edges_and_histogram", (1, 1), (256, 1)),
    ]


def test_edges_takes_views_and_foreign_byte_order() -> None:
    image = cases.image(20, 30, 3, 16)
    expected = reference.run(image[::2, ::-1]).edges
    np.testing.assert_array_equal(edges(image[::2, ::-1], "sim").edges, expected)
    np.testing.assert_array_equal(edges(image.astype(">u2")[::2, ::-1], gs.device("sim")).edges, expected)


def test_edges_of_a_grey_image_with_one_channel_or_none_are_the_same() -> None:
    image = cases.image(12, 40, 1, 8)
    np.testing.assert_array_equal(edges(image).edges, edges(image[..., 0]).edges)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4), np.float32), "the pipeline takes 8- and 16-bit images (uint8, uint16), not float32"),
        (np.zeros(4, np.uint8), "an image has the shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, not (4,)"),
        (np.zeros((4, 4, 2), np.uint8), "an image has the shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, not (4, 4, 2)"),
        (np.zeros((0, 4), np.uint8), "the image has no pixels: it is 4 x 0"),
        (np.broadcast_to(np.uint8(0), (20_000, 20_000)), "the image has 400,000,000 pixels; 268,435,456 is the most that can be processed"),
    ],
)
def test_images_that_cannot_be_processed_wrong(image: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        edges(image, "sim")
    assert str(caught.value) == message


def test_verification_notices_each_stage_that_is_wrong(pipeline: EdgePipeline) -> None:
    image = cases.image(17, 33, 3, 8)
    fields = ("grey", "blurred_rows", "blurred", "magnitude", "edges", "histogram")
    for position, field in enumerate(fields):
        result = pipeline.run(image).result
        array = getattr(result, field)
        array.flat[array.size // 2] += 1
        failed = [check.stage for check in verify(image, result) if not check.passed]
        assert failed == [results.STAGES[min(position, 4)]]


def test_verification_fails_for_a_nan(pipeline: EdgePipeline) -> None:
    image = cases.image(3, 5, 1, 8)
    result = pipeline.run(image).result
    result.grey[1, 1] = np.nan
    assert not verify(image, result)[0].passed
