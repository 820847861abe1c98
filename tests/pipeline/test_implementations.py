"""One differential test for all implementations: the same bits on many images, no finding of any check, and what must hold of every image."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gridstride as gs
from gridstride.cli import main
from gridstride.errors import UsageError
from gridstride.pipeline import IMPLEMENTATIONS, EdgePipeline, Parameters, batch, differences, edges, images, one_pass, reference, stages
from gridstride.pipeline.verify import verify
from pipeline import cases, encode

MEASURED = json.loads((Path(__file__).parent / "edges_h200.json").read_text())
OTHERS = [name for name in IMPLEMENTATIONS if name != "reference"]


def gradients(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return (x * 255 // max(1, width - 1) // 2 + y * 255 // max(1, height - 1) // 2).astype(np.uint8)


def spots(height: int, width: int) -> np.ndarray:
    image = np.zeros((height, width), np.uint16)
    image[::7, ::5] = 65535
    return image


def photograph() -> np.ndarray:
    with batch.demo_photograph() as path:
        return images.read_image(path)[300:391, 500:777]


def decoded(mode: str, file: str = "PNG", **options: Any) -> np.ndarray:
    """What comes of the photograph through a file of one of Pillow's modes."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(photograph()).convert(mode).save(written, file, **options)
    return images.decoded(written.getvalue(), Path(file))


MADE = {
    **{cases.name(*shape, c, b): cases.image(*shape, c, b) for shape in cases.SHAPES for c, b in ((1, 8), (3, 8), (4, 16), (3, 16))},
    "photograph": photograph(),
    "palette": decoded("P"),
    "grey": decoded("L"),
    "grey-alpha": decoded("LA"),
    "one-bit": decoded("1"),
    "alpha": decoded("RGBA", "WEBP", lossless=True),
    "print": decoded("CMYK", "TIFF"),
    "jpeg": decoded("RGB", "JPEG", quality=30),
    "constant": np.full((67, 121, 3), 77, np.uint8),
    "constant-16-alpha": np.full((9, 250, 4), 40_001, np.uint16),
    "white": np.full((33, 129), 255, np.uint8),
    "gradients": gradients(71, 243),
    "gradient-row": gradients(1, 300),
    "gradient-column": gradients(300, 1),
    "spots": spots(50, 119),
    "alpha-only": np.dstack([np.full((20, 37, 3), 9, np.uint8), cases.image(20, 37, 1, 8)]),
    "width-of-a-tile": cases.image(65, 120, 3, 8),
    "one-more": cases.image(64, 121, 1, 8),
    "one-less": cases.image(63, 119, 3, 16),
    "width-of-a-segment": cases.image(3, 513, 3, 8),
}


def test_there_are_enough_images() -> None:
    assert len(MADE) >= 30 and {array.dtype for array in MADE.values()} == {np.dtype(np.uint8), np.dtype(np.uint16)}


@pytest.mark.parametrize("impl", OTHERS)
def test_every_implementation_has_the_same_bits_and_no_finding(impl: str) -> None:
    pipeline = EdgePipeline(gs.device("sim"), impl=impl)
    for name, image in MADE.items():
        with gs.checking() as findings:
            result = pipeline.run(image).result
        assert not findings, (name, str(findings))
        expected = EdgePipeline(pipeline.device, impl="reference").run(image).result
        assert differences(expected, result) == [], name
        assert all(check.passed and check.differing == 0 for check in verify(image, result)), name
        assert result.histogram.sum() == image.shape[0] * image.shape[1], name
        np.testing.assert_array_equal(result.histogram, np.bincount(result.edges.ravel(), minlength=256), name)
        if name.startswith(("constant", "white", "alpha-only")):
            assert not result.edges.any(), name


@pytest.mark.parametrize("impl", OTHERS)
def test_every_implementation_has_the_edges_of_an_h200(impl: str) -> None:
    pipeline = EdgePipeline(gs.device("sim"), impl=impl)
    for name, image in MADE.items():
        if name in MEASURED:
            result = pipeline.run(image).result
            assert (cases.digest(result.edges), cases.digest(result.histogram)) == (MEASURED[name]["edges"], MEASURED[name]["histogram"]), name


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 80), st.integers(1, 260), st.integers(0, 2**32 - 1))
def test_fused_is_the_reference_on_any_size(height: int, width: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    np.testing.assert_array_equal(edges(image, "sim", impl="fused").edges, reference.run(image).edges)


@pytest.mark.parametrize("impl", OTHERS)
def test_images_taller_than_the_grid(impl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_GRID_Y", 1)
    image = cases.image(150, 33, 3, 8)
    np.testing.assert_array_equal(EdgePipeline(gs.device("sim"), impl=impl).run(image).result.edges, reference.run(image).edges)


@pytest.mark.parametrize(("channels", "loads_of_a_row"), [(1, 1), (3, 3), (4, 1)])
def test_fused_reads_each_sector_once_a_load_without_bank_conflicts(channels: int, loads_of_a_row: int) -> None:
    """A warp's 128 pixels of a row are 4 sectors a channel, or one more where they do not begin on one. The three loads of an RGB pixel's words
    ask for the same sectors. Strips of 120 columns; 15 rows of which each need 6 more; 1 byte a pixel is written."""
    image = cases.image(240, 960, channels, 8)
    with gs.profiling() as profile:
        EdgePipeline(gs.device("sim"), impl="fused").run(image)
    (launch,) = profile.launches
    sectors = 8 * 16 * (15 + 6) * 4 * channels * loads_of_a_row
    written = 8 * 240 * 4
    assert sectors + written <= launch.bytes_moved / 32 <= sectors * 1.26 + written * 1.26
    assert launch.bank_conflicts == 0


@pytest.mark.parametrize(("strips", "height", "at_once", "rows"), [(32, 2160, 132 * 24, 22), (16, 1080, 132 * 24, 15), (1, 7, 132 * 24, 7), (5000, 300, 3168, 300)])
def test_strips_are_as_long_as_all_at_once_can_be(strips: int, height: int, at_once: int, rows: int) -> None:
    """3840 x 2160 on an H200: 99 strips one below the other; small images: five times the halo of 3."""
    assert one_pass.strip_rows(strips, height, at_once, Parameters()) == rows


def test_stages_that_fused_does_not_keep_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        edges(np.zeros((2, 2), np.uint8), "sim", impl="fused").blurred  # noqa: B018
    assert str(caught.value) == "`fused` does not keep the stage blurred: ask for output='blurred' with depth='float'"


def test_all_in_python_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        edges(np.zeros((2, 2), np.uint8), "sim", impl="all")
    assert str(caught.value) == "`all` compares implementations on the command line; here name one, and compare results with `differences`"


def test_differences_tell_the_place_and_both_values() -> None:
    image = cases.image(5, 7, 1, 8)
    one = edges(image, "sim", impl="reference", output="blurred", depth="float")
    other = dataclasses.replace(one, impl="fused", edges=one.edges.copy(), floats={})
    before = int(one.edges[3, 2])
    other.edges[3, 2] ^= 1
    (difference,) = differences(one, other)
    expected = f"`fused` differs from `reference` in 1 of 35 values of edges, by 1 at most, first at pixel (2, 3): {before ^ 1} instead of {before}"
    assert str(difference) == expected


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


def test_all_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(encode.png(cases.image(9, 35, 3, 8)))
    assert call(tmp_path / "a.png", "-o", tmp_path / "out", "--impl", "all", "--json", tmp_path / "r.json") == 0
    assert "cuda, fused, cub, python, reference agree bit for bit." in capsys.readouterr().out
    assert [entry["implementation"] for entry in json.loads((tmp_path / "r.json").read_text())["images"]] == list(IMPLEMENTATIONS)
    right = reference.weights_of
    monkeypatch.setattr(reference, "weights_of", lambda parameters, image: right(Parameters(1.1, 2), image))
    assert call(tmp_path / "a.png", "-o", tmp_path / "out", "--impl", "all") == 1
    assert "`reference` differs from `cuda` in " in capsys.readouterr().err


def test_without_numba_the_others_are_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("gridstride.pipeline.python_stages.find_spec", lambda name: None)
    source = tmp_path / "small.png"
    source.write_bytes(images.encoded(cases.image(5, 7, 3, 8)))
    assert call(source, "-o", tmp_path / "out", "--impl", "all", "--device", "sim") == 0
    out = capsys.readouterr().out
    why = "its kernels need numba-cuda, which is not installed here: run `pip install 'gridstride[python]'`"
    assert f"Left out: python: {why}." in out
    assert "cuda, fused, cub, reference agree bit for bit." in out
    assert call(source, "-o", tmp_path / "out", "--impl", "python", "--device", "sim") == 3
    assert capsys.readouterr().err == f"gridstride: the implementation `python` cannot be used: {why}\n"
