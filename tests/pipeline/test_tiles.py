"""Images in tiles where memory is short: the same bits as as a whole, in the memory that is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridstride as gs
from gridstride.cli import main
from gridstride.errors import LaunchError, UsageError
from gridstride.pipeline import IMPLEMENTATIONS, EdgePipeline, Parameters, edges, images, memory, reference, stream_edges
from gridstride.pipeline.frames import Frame, Kind
from gridstride.pipeline.tiles import tile_size, tiles
from pipeline import cases, encode, test_parameters


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9), st.integers(1, 25), st.integers(1, 25))
def test_tiles_make_each_pixel_once_and_read_what_it_needs(height: int, width: int, halo: int, rows: int, columns: int) -> None:
    made = np.zeros((height, width), int)
    y, x = np.mgrid[:height, :width]
    for tile in tiles(height, width, halo, rows, columns):
        made[tile.made] += 1
        np.testing.assert_array_equal(y[tile.read][tile.kept], y[tile.made])
        np.testing.assert_array_equal(x[tile.read][tile.kept], x[tile.made])
        for coordinate, size in ((y, height), (x, width)):
            mine, read = coordinate[tile.made], coordinate[tile.read]
            assert read.min() == max(0, mine.min() - halo) and read.max() == min(size - 1, mine.max() + halo)
    assert (made == 1).all()


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 17), st.integers(1, 10**7), st.integers(1, 24))
def test_tiles_fit_the_memory(height: int, width: int, halo: int, limit: int, pixel: int) -> None:
    def row_bytes(width: int) -> int:
        return -(-width * pixel // 512) * 512

    try:
        rows, columns = tile_size(height, width, halo, limit, row_bytes)
    except UsageError as error:
        assert limit < row_bytes(min(width, 1 + 2 * halo)) * min(height, 1 + 2 * halo)
        assert str(error).startswith(f"{limit:,} bytes of memory are too little: the smallest tile needs ")
    else:
        assert 1 <= rows <= height and 1 <= columns <= width
        assert row_bytes(min(width, columns + 2 * halo)) * min(height, rows + 2 * halo) <= limit


@pytest.mark.parametrize(
    ("impl", "choice"),
    [
        pytest.param(impl, choice, id=f"{impl}-{name}", marks=() if name == "default" or impl in ("cuda", "reference") else pytest.mark.long)
        for impl in IMPLEMENTATIONS
        for name, choice in {"default": {}, "reflect": test_parameters.CHOICES[0], "constant": test_parameters.CHOICES[5]}.items()
    ],
)
def test_every_implementation_has_the_same_bits_in_tiles(impl: str, choice: dict[str, Any]) -> None:
    device, parameters = gs.device("sim"), Parameters(**choice)
    whole = EdgePipeline(device, parameters, impl)
    for image in (cases.image(70, 257, 3, 8), cases.image(1, 900, 1, 16), cases.image(300, 2, 4, 8)):
        expected = whole.run(image).result
        kind = Kind.of(image)
        run = EdgePipeline(device, parameters, impl, int(0.6 * kind.height * whole._row_bytes(kind, kind.width))).run(image)
        assert run.tile is not None
        np.testing.assert_array_equal(run.result.edges, expected.edges)
        np.testing.assert_array_equal(run.result.histogram, expected.histogram)
        np.testing.assert_array_equal(run.result.output.view(np.uint8), expected.output.view(np.uint8))


def test_a_tile_is_narrower_than_the_image_where_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    image = cases.image(40, 3000, 1, 8)
    pipeline = EdgePipeline(gs.device("sim"), impl="cuda", memory=100_000)
    taken: list[int] = []
    right = Frame.run
    monkeypatch.setattr(Frame, "run", lambda self, samples: (taken.append(self.nbytes), right(self, samples))[1])
    run = pipeline.run(image)
    assert run.tile is not None and run.tile[1] < 3000 and len(taken) > 4
    assert max(taken) <= 100_000 + 1024 and min(taken) > 1000  # the histogram's 1,024 bytes are left out of account
    np.testing.assert_array_equal(run.result.edges, reference.run(image).edges)


def test_images_that_fit_are_not_tiled() -> None:
    image = cases.image(64, 96, 3, 8)
    run = EdgePipeline(gs.device("sim"), impl="cuda", memory=64 * 96 * (3 + 16 + 1)).run(image)
    assert run.tile is None and run.result.grey.shape == (64, 96)
    run = EdgePipeline(gs.device("sim"), impl="cuda", memory=64 * 96 * (3 + 16 + 1) - 1).run(image)
    assert run.tile is not None
    with pytest.raises(UsageError) as caught:
        run.result.grey  # noqa: B018
    assert str(caught.value) == "`cuda` in tiles does not keep the stage grey: ask for output='grey' with depth='float'"


def test_memory_that_holds_no_tile_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        edges(cases.image(64, 96, 3, 8), "sim", memory=900)
    assert str(caught.value) == "900 bytes of memory are too little: the smallest tile needs 980"  # 7 x 7 pixels of 20 bytes
    with pytest.raises(UsageError, match=r"^memory is a number of bytes, at least 1, not 0$"):
        edges(cases.image(64, 96, 3, 8), "sim", memory=0)


def test_a_device_that_has_less_than_it_should_gets_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else uses the device: what is asked for is not there, until less is asked for."""
    device = gs.device("sim")
    pipeline = EdgePipeline(device, impl="fused")
    right = EdgePipeline.frame

    def frame(self: EdgePipeline, kind: Kind) -> Frame:
        if kind.pixels > 3000:
            raise LaunchError("out of device memory")
        return right(self, kind)

    monkeypatch.setattr(EdgePipeline, "frame", frame)
    monkeypatch.setattr("gridstride.pipeline.implementations.memory_limit", lambda device: 1 << 24)
    image = cases.image(130, 257, 3, 8)
    run = pipeline.run(image)
    assert run.tile is not None
    np.testing.assert_array_equal(run.result.edges, reference.run(image).edges)
    for streamed in stream_edges([image, image], pipeline):
        np.testing.assert_array_equal(streamed.edges, run.result.edges)


def test_streams_take_fewer_at_once_and_then_tiles() -> None:
    device = gs.device("sim")
    given = [cases.image(64, 96, 3, 8), cases.image(130, 257, 3, 8), cases.image(64, 96, 3, 8)] * 2
    one = EdgePipeline(device, impl="fused").frame(Kind.of(given[0]))
    for limit in (one.nbytes, 2 * one.nbytes):  # one or two of the small ones at once; the large ones in tiles
        pipeline = EdgePipeline(device, impl="fused", memory=limit)
        assert pipeline.frames_that_fit(Kind.of(given[0])) == limit // one.nbytes and not pipeline.frames_that_fit(Kind.of(given[1]))
        for image, result in zip(given, stream_edges(given, pipeline), strict=True):
            np.testing.assert_array_equal(result.edges, reference.run(image).edges)
            assert result.histogram.sum() == image.shape[0] * image.shape[1]


def test_the_limit_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 << 30)
    assert memory.memory_limit(gs.device("sim")) == 5 << 30
    monkeypatch.setattr(memory, "free_bytes", lambda: 1 << 50)
    assert memory.memory_limit(gs.device("sim:t4")) == int(gs.device("sim:t4").spec.memory_bytes * 0.9)
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    assert memory.memory_limit(gs.device("sim")) == int(gs.device("sim").spec.memory_bytes * 0.9)


def test_free_bytes_of_a_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = memory.free_bytes()
    assert machine is not None and machine > 1 << 20
    for name, text in (("memory.max", "3000000\n"), ("memory.current", "2500000\n"), ("memory.stat", "anon 1\ninactive_file 400000\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.free_bytes() == 900_000


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_on_the_command_line(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = cases.image(130, 257, 3, 8)
    (tmp_path / "a.png").write_bytes(encode.png(image))
    arguments = ["pipeline", str(tmp_path / "a.png"), "-o", str(tmp_path), "--device", "sim", "--memory", "200K", "--json", str(tmp_path / "r.json"), *options]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    np.testing.assert_array_equal(images.read_image(tmp_path / "a-edges.png"), reference.run(image).edges)
    if not options:
        assert "Memory is short: done in tiles of at most 257 × " in capsys.readouterr().out
        (entry,) = json.loads((tmp_path / "r.json").read_text())["images"]
        assert entry["tile"][1] == 257 and [stage["stage"] for stage in entry["stages"]] == ["edges and histogram"]
