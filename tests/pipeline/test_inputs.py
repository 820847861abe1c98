"""What names images: patterns, sequences, standard input and output; resuming; files that are broken or cannot be written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gridstride.cli import main
from gridstride.errors import UsageError
from gridstride.pipeline import batch, images, reference
from gridstride.pipeline.inputs import images_named
from pipeline import cases, encode


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


def write(path: Path, number: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode.png(np.roll(cases.image(9, 20, 3, 8), number, 1)))
    return path


def named(*inputs: Path) -> list[str]:
    return [path.name for path in images_named(inputs, None)]


def test_patterns(tmp_path: Path) -> None:
    for name in ("b.png", "a.png", "c.jpg", "deep/er/d.png"):
        write(tmp_path / name)
    assert named(tmp_path / "*.png") == ["a.png", "b.png"]
    assert named(tmp_path / "[bc].*") == ["b.png", "c.jpg"]
    assert sorted(named(tmp_path / "**" / "*.png")) == ["a.png", "b.png", "d.png"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    assert named(write(tmp_path / "[a].png"), write(tmp_path / "50%d.png")) == ["[a].png", "50%d.png"]


def test_sequences_come_by_their_numbers(tmp_path: Path) -> None:
    for name in ("f10.png", "f9.png", "f0100.png", "g1.png", "f.png"):
        write(tmp_path / name)
    assert named(tmp_path / "f%d.png") == ["f9.png", "f10.png", "f0100.png"]
    assert named(tmp_path / "f%04d.png") == ["f0100.png"]


@pytest.mark.parametrize(("name", "message"), [("*.tif", "no file matches {}"), ("f%03d.png", "no file is one of the sequence {}")])
def test_nothing_named_wrong(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        images_named([tmp_path / name], None)
    assert str(caught.value) == message.format(tmp_path / name)


def standard_streams(monkeypatch: pytest.MonkeyPatch, data: bytes) -> io.BytesIO:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    monkeypatch.setattr(batch, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=io.BytesIO(data)), stdout=SimpleNamespace(buffer=written)))
    return written


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_standard_input_and_output(options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    image = cases.image(9, 20, 3, 16)
    written = standard_streams(monkeypatch, encode.png(image))
    assert call("-", "-o", "-", *options) == 0
    np.testing.assert_array_equal(images.decoded(written.getvalue(), Path("-")), reference.run(image).edges)
    assert capsys.readouterr().out == ""


def test_standard_input_into_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_streams(monkeypatch, encode.png(cases.image(9, 20, 3, 8)))
    assert call("-", "-o", tmp_path / "out") == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["stdin-edges.png"]


def test_empty_standard_input_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    standard_streams(monkeypatch, b"")
    assert call("-", "-o", "-") == 2
    assert capsys.readouterr().err == "gridstride: standard input is empty: no image came\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "-", "-o", "out"], "standard input (-) holds one image and can be named once"),
        (["a.png", "b.png", "-o", "-"], "standard output (-) takes one image, not 2: name a folder"),
        (["a.png", "-o", "-", "--json", "-"], "standard output (-) takes the image or the JSON result, not both"),
        (["a.png", "--graph"], "--graph is for --stream"),
        (["a.png", "--stream", "--impl", "all"], "--stream is for implementations with kernels, not `all`"),
    ],
)
def test_what_does_not_go_together_wrong(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    assert capsys.readouterr().err == f"gridstride: {message}\n"


@pytest.mark.parametrize("options", [[], ["--stream"], ["--stream", "--graph", "--impl", "fused"]])
def test_a_run_is_resumed(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [write(tmp_path / "in" / f"{number}.png", number) for number in range(4)]
    out = tmp_path / "out"
    assert call(sources[0], sources[1], "-o", out, *options) == 0
    kept = (out / "0-edges.png").stat().st_mtime_ns
    write(sources[1], 7)  # changed since
    (out / "2-edges.png").write_bytes((out / "0-edges.png").read_bytes()[:-40])  # as if something had cut it off
    capsys.readouterr()
    assert call(tmp_path / "in", "-o", out, "--resume", "--json", tmp_path / "r.json", *options) == 0
    assert "1 of 4 images are done and unchanged: skipped." in capsys.readouterr().out
    assert [entry["status"] for entry in json.loads((tmp_path / "r.json").read_text())["images"]] == ["skipped", "ok", "ok", "ok"]
    assert (out / "0-edges.png").stat().st_mtime_ns == kept
    for number, source in enumerate(sources):
        expected = reference.run(images.read_image(source)).edges
        np.testing.assert_array_equal(images.read_image(out / f"{number}-edges.png"), expected)
    assert call(tmp_path / "in", "-o", out, "--resume", "--sigma", 2, *options) == 0  # other choices: all of them again
    assert (out / "0-edges.png").stat().st_mtime_ns != kept


def test_floats_are_resumed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "a.png")
    for _ in range(2):
        assert call(source, "-o", tmp_path / "out", "--resume", "--depth", "float") == 0
    assert "1 of 1 images are done and unchanged: skipped." in capsys.readouterr().out


def test_streamed_broken_files_are_told_and_the_rest_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [write(tmp_path / "in" / f"{number}.png", number) for number in range(5)]
    sources[2].write_bytes(sources[2].read_bytes()[:90])
    assert call(tmp_path / "in" / "*.png", "-o", tmp_path / "out", "--stream", "--json", tmp_path / "r.json") == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"gridstride: {sources[2]} is broken and cannot be decoded: ") and shown.err.count("\n") == 1
    assert shown.out.startswith("4 images, ")
    assert [entry["status"] for entry in json.loads((tmp_path / "r.json").read_text())["images"]] == ["ok", "ok", "error", "ok", "ok"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{number}-edges.png" for number in (0, 1, 3, 4)]


def test_output_that_cannot_be_written_is_not_there_by_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "a.png")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert call(source, "-o", tmp_path / "out", "--stream") == 2
    assert capsys.readouterr().err == f"gridstride: cannot write {tmp_path / 'out' / 'a-edges.png'}: No space left on device\n"
    assert list((tmp_path / "out").iterdir()) == []
