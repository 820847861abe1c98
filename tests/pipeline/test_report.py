"""`gridstride pipeline --report`: one sound page with the numbers of the JSON result, whatever the image is called or holds."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.cli import main
from gridstride.cli import pipeline as command
from gridstride.pipeline import EdgePipeline, measure, reference
from gridstride.pipeline.pictures import small_picture
from pipeline import cases, encode
from report.page_reader import Element, read, require_sound

LIMIT = 500_000


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.0)


def rows(document: Element, name: str) -> dict[str, list[Element]]:
    """The cells of a table's rows, by their headings; name: the id of its caption."""
    (table,) = (table for table in document.all("table") if any(e.attributes.get("id") == name for e in table.all("span")))
    return {row.all("th")[0].text.strip(): row.all("td") for row in table.all("tbody")[0].all("tr")}


def value(cell: Element) -> float:
    return float(cell.all("data")[0].attributes["value"])


def mark(cell: Element) -> str:
    """The class of the number, which is also said to those who hear it."""
    (data,) = cell.all("data")
    assert f"({data.attributes['class']})" in cell.text
    return data.attributes["class"]


def test_numbers_are_those_of_the_json_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photo.png").write_bytes(encode.png(cases.image(130, 257, 3, 8)))
    assert call(tmp_path / "photo.png", "-o", tmp_path / "out", "--report", tmp_path / "r.html", "--json", tmp_path / "r.json") == 0
    assert capsys.readouterr().out.endswith(f"Report card: {tmp_path / 'r.html'}\n")
    page = (tmp_path / "r.html").read_text()
    document = read(page)
    require_sound(document)
    assert len(page.encode()) < LIMIT
    report = json.loads((tmp_path / "r.json").read_text())["report"]
    assert report["image"] == "photo.png" and report["measured"] == {"width": 257, "height": 130, "whole": True}
    (one,) = report["implementations"]
    assert (one["implementation"], one["device"], one["verified"]) == ("cuda", "sim:h200", True)
    times, work, counters = (rows(document, f"t-{name}-0") for name in ("time", "work", "counters"))
    assert [stage["stage"] for stage in one["stages"]] == ["grey", "blur rows", "blur columns", "sobel", "edges and histogram"]
    for letter, stage in zip("ABCDE", one["stages"], strict=True):
        _, _, _, host, p10, p90, kernel, _, _ = times[stage["stage"]]
        for cell, name in ((host, "median"), (p10, "p10"), (p90, "p90")):
            assert value(cell) == pytest.approx(1000 * stage["host_seconds"][name]) and mark(cell) == "measured"
        assert value(kernel) == stage["device_us"]["median"] and mark(kernel) == stage["device_us"]["mark"] == "estimated"
        assert stage["host_seconds"]["p10"] <= stage["host_seconds"]["median"] <= stage["host_seconds"]["p90"]
        moved, needed, flops, intensity, _, roof, reached, share, _ = work[f"{stage['stage']} ({letter})"]
        assert [value(cell) for cell in (moved, needed, flops)] == [stage[name] for name in ("bytes_moved", "bytes_needed", "flops")]
        assert value(intensity) == stage["intensity"] == pytest.approx(stage["flops"] / stage["bytes_moved"])
        assert value(roof) == stage["attainable_tflops"] == pytest.approx(4800 * stage["intensity"] / 1000)
        assert value(reached) == stage["tflops"] == pytest.approx(stage["flops"] / stage["device_us"]["median"] / 1e6) and mark(reached) == "estimated"
        assert value(share) == pytest.approx(100 * stage["bandwidth_share"])
        cells = counters[stage["stage"]]
        assert value(cells[1]) == stage["sectors_per_load"] and mark(cells[1]) == "exact"
        assert (value(cells[4]), value(cells[8]), value(cells[10])) == (stage["bank_conflicts"], stage["occupancy_pct"], stage["registers"])
    assert value(times["all stages"][6]) == one["device_us"]["median"] == pytest.approx(sum(stage["device_us"]["median"] for stage in one["stages"]))
    totals = rows(document, "t-timeline-0")
    assert [value(cells[0]) for cells in totals.values()] == [one["timeline"][name] for name in ("total_us", "copy_us", "kernel_us", "overlap_us")]
    assert one["timeline"]["kernel_us"] == pytest.approx(4 * one["device_us"]["median"], rel=0.01)  # four frames, kernels one after the other
    environment = rows(document, "t-environment")
    assert {name: cells[0].text for name, cells in environment.items()} == report["environment"]
    assert {"processor", "load before", "python", "numpy", "gridstride", "device"} <= set(environment)


def test_counts_are_those_of_the_kernels() -> None:
    """From the shapes alone: a 64 × 96 RGB image through `cuda` is 192 warps of full rows; a warp's bytes of one colour lie in 3 sectors, its floats in 4."""
    found = measure.measure(EdgePipeline(gs.device("sim")), cases.image(64, 96, 3, 8))
    assert found.passed and found.counts is not None
    grey = found.counts.launches[0]
    assert (grey.load_requests, grey.load_sectors, grey.store_requests, grey.store_sectors) == (3 * 192, 9 * 192, 192, 4 * 192)
    assert [len(stage.host_seconds) for stage in found.stages] == [measure.FEWEST_RUNS] * 5


def test_every_implementation_and_image_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also names that are code, a broken image before the first good one, and noise, which compresses badly."""
    monkeypatch.setattr(command, "usable", lambda: (("cuda", "fused", "reference"), {}))
    folder = tmp_path / "<b>in"
    folder.mkdir()
    noise = np.random.default_rng(5).integers(0, 256, (700, 700, 3), np.uint8)
    (folder / "<script>alert(1)<!--.png").write_bytes(encode.png(noise))
    (folder / "'a' \"b\" & {{ c }}.png").write_bytes(encode.png(cases.image(5, 5, 1, 16)))
    (folder / "!first.png").write_bytes(b"no image")
    assert call(folder, "-o", tmp_path / "out", "--report", tmp_path / "r.html", "--impl", "all") == 2
    page = (tmp_path / "r.html").read_text()
    document = read(page)
    require_sound(document)
    assert len(page.encode()) < LIMIT
    assert document.all("h1")[0].text == "Report card: 'a' \"b\" & {{ c }}.png"
    assert list(rows(document, "t-images")) == ["!first.png", "'a' \"b\" & {{ c }}.png", "<script>alert(1)<!--.png"]
    assert len([svg for svg in document.all("svg") if svg.all("title")[0].text == "Roofline"]) == 2
    (tmp_path / "alone").mkdir()
    (folder / "<script>alert(1)<!--.png").rename(tmp_path / "alone" / "<script>alert(1)<!--.png")
    assert call(tmp_path / "alone", "-o", tmp_path / "out", "--report", tmp_path / "noise.html", "--impl", "fused") == 0
    page = (tmp_path / "noise.html").read_text()
    require_sound(read(page))
    assert len(page.encode()) < LIMIT and read(page).all("h1")[0].text == "Report card: <script>alert(1)<!--.png"


def test_what_is_wrong_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(encode.png(cases.image(40, 70, 3, 8)))
    wrong = (0.06, 0.25, 0.38, 0.25, 0.06)
    monkeypatch.setattr(reference, "weights_of", lambda parameters, image: np.array(wrong, image.dtype))
    assert call(tmp_path / "a.png", "-o", tmp_path / "out", "--report", tmp_path / "r.html", "--json", tmp_path / "r.json") == 1
    document = read((tmp_path / "r.html").read_text())
    require_sound(document)
    assert [cells[3].text for cells in rows(document, "t-verified-0").values()] == ["ok", "FAILED", "FAILED", "FAILED", "FAILED"]
    (one,) = json.loads((tmp_path / "r.json").read_text())["report"]["implementations"]
    assert not one["verified"] and one["stages"] == [] and one["device_us"] is None
    assert "blur rows of cuda, blur columns of cuda, sobel of cuda, edges and histogram of cuda differ from the reference" in document.text


def test_no_image_for_a_report_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "missing.png", "-o", tmp_path / "out", "--report", tmp_path / "r.html") == 2
    assert capsys.readouterr().err.splitlines()[-1] == "gridstride: --report measures an image file, and none could be done"
    assert not (tmp_path / "r.html").exists()


def test_report_of_workers_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "a.png", "--workers", 2, "--report", tmp_path / "r.html") == 2
    assert capsys.readouterr().err == "gridstride: --report measures in one process: leave out --workers and --cluster\n"


def test_a_large_image_is_measured_in_its_upper_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LARGEST", (30, 40))
    image = cases.image(64, 96, 3, 8)
    found = measure.measure(EdgePipeline(gs.device("sim"), impl="fused"), image)
    np.testing.assert_array_equal(found.samples, image[:30, :40])


def test_times_by_events_are_of_each_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, with the simulator's events, whose times are the model's: kernels of a graph that follow each other take what they
    take alone, and a fraction of a microsecond to start."""
    monkeypatch.setattr(measure, "DEVICE_RUNS", 3)
    monkeypatch.setattr(measure, "MOST_FRAMES", 4)
    monkeypatch.setattr(measure.Measured, "simulated", False)
    found = measure.measure(EdgePipeline(gs.device("sim")), cases.image(300, 300, 3, 8))
    assert found.counted_on == "sim:h200" and found.counts is not None
    for stage, launch in zip(found.stages, found.counts.launches, strict=True):
        assert len(stage.device_us) == 3
        assert min(stage.device_us) == pytest.approx(launch.kernel_us, abs=0.3)


@pytest.mark.parametrize("values", [np.zeros((1, 1), np.uint8), np.full((1, 5000), 300.0, np.float32), np.full((9, 7, 4), 65535, np.uint16)])
def test_small_pictures_of_anything(values: np.ndarray[Any, Any]) -> None:
    Image = pytest.importorskip("PIL.Image")
    import io

    picture = small_picture(values, 4000)
    opened = Image.open(io.BytesIO(picture.data))
    assert opened.size == (picture.width, picture.height) and max(opened.size) <= 640 and len(picture.data) <= 4000
    assert statistics.mean(opened.convert("L").tobytes()) == (0 if values.max() == 0 else 255)


def test_noise_gets_small_by_any_means() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (900, 900, 3), np.uint8)
    picture = small_picture(noise, 20_000)
    assert len(picture.data) <= 20_000 and picture.width >= 100
