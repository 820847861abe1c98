"""`gridstride pipeline` as a user calls it: what it prints, writes and ends with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gridstride.cli import main
from gridstride.pipeline import images, reference
from pipeline import cases, encode


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(encode.png(cases.image(40, 70, 3, 8)))
    return path


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


def test_edges_are_written_and_every_stage_is_shown(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(photo, "-o", tmp_path / "out") == 0
    written = images.read_image(tmp_path / "out" / "photo-edges.png")
    np.testing.assert_array_equal(written, reference.run(cases.image(40, 70, 3, 8)).edges)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "photo.png: 70 × 40, RGB, 8 bit" in shown.out and str(tmp_path / "out" / "photo-edges.png") in shown.out
    rows = [line for line in shown.out.splitlines() if " ok " in line]
    assert [next(stage for stage in row.split("│") if stage.strip()).strip() for row in rows] == [
        "grey",
        "blur rows",
        "blur columns",
        "sobel",
        "edges and histogram",
    ]


@pytest.mark.parametrize(("channels", "bits"), [(1, 8), (1, 16), (3, 16), (4, 8), (4, 16)])
def test_every_layout(tmp_path: Path, channels: int, bits: int) -> None:
    image = cases.image(9, 35, channels, bits)
    (tmp_path / "a.png").write_bytes(encode.png(image))
    assert call(tmp_path / "a.png", "-o", tmp_path / "b.png") == 0
    np.testing.assert_array_equal(images.read_image(tmp_path / "b.png"), reference.run(image).edges)


def test_json_result(photo: Path, tmp_path: Path) -> None:
    assert call(photo, "-o", tmp_path / "out", "--json", tmp_path / "out" / "result.json") == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["schema"] == 1 and result["device"].startswith("sim")
    (entry,) = result["images"]
    assert (entry["status"], entry["width"], entry["height"], entry["channels"], entry["bits"]) == ("ok", 70, 40, 3, 8)
    assert sum(entry["histogram"]) == 70 * 40
    assert [stage["kernel"] for stage in entry["stages"]] == ["grey_u8_3", "blur_rows", "blur_columns", "sobel", "edges_and_histogram"]
    for stage in entry["stages"]:
        assert stage["passed"] and stage["max_error"] <= stage["tolerance"] and stage["differing_from_float32"] == 0
        assert stage["pixels_per_second"] == pytest.approx(70 * 40 / stage["seconds"])


def test_json_to_standard_output(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(photo, "-o", tmp_path / "out", "--json", "-") == 0
    assert [entry["status"] for entry in json.loads(capsys.readouterr().out)["images"]] == ["ok"]
    assert not (tmp_path / "-").exists()


def test_broken_file_among_others(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:200])
    other = tmp_path / "other.png"
    other.write_bytes(encode.png(cases.image(5, 5, 1, 8)))
    assert call(photo, broken, other, "-o", tmp_path / "out", "--json", tmp_path / "r.json") == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"gridstride: {broken} is broken and cannot be decoded: ") and shown.err.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["other-edges.png", "photo-edges.png"]
    entries = json.loads((tmp_path / "r.json").read_text())["images"]
    assert [entry["status"] for entry in entries] == ["ok", "error", "ok"]
    assert entries[1]["error"]["code"] == "usage" and str(broken) in entries[1]["error"]["message"]


def test_folder(photo: Path, tmp_path: Path) -> None:
    assert call(photo.parent, "-o", tmp_path / "out") == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["photo-edges.png"]


def test_failed_verification_ends_with_1_and_names_the_stages(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = (0.06, 0.25, 0.38, 0.25, 0.06)  # not what the kernels compute
    monkeypatch.setattr(reference, "weights_of", lambda parameters, image: np.array(wrong, image.dtype))
    assert call(photo, "-o", tmp_path / "out", "--json", tmp_path / "r.json") == 1
    shown = capsys.readouterr()
    assert shown.err == f"gridstride: {photo}: blur rows, blur columns, sobel, edges and histogram differ from the reference\n"
    assert shown.out.count("FAILED") == 4
    assert json.loads((tmp_path / "r.json").read_text())["images"][0]["status"] == "failed"


def test_unsupported_samples_end_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(encode.tiff(np.ones((3, 3, 1), np.float32), kind=3))
    assert call(path, "-o", tmp_path / "out") == 3
    assert capsys.readouterr().err == f"gridstride: {path} has floating-point samples; images of 8 and 16 bits a channel can be processed\n"


def test_missing_file_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path / "[red]no.png", "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err == f"gridstride: {tmp_path / '[red]no.png'}: there is no such file\n"


def test_no_image_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("-o", tmp_path / "out") == 2
    expected = "gridstride: no image was named: give image files or folders, or --demo for the photograph that comes with Gridstride\n"
    assert capsys.readouterr().err == expected


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--demo", "-o", tmp_path / "out") == 0
    assert "dandelion.jpg: 1600 × 900, RGB, 8 bit" in capsys.readouterr().out
    assert images.read_image(tmp_path / "out" / "dandelion-edges.png").shape == (900, 1600)
