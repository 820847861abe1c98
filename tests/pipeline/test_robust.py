"""What goes wrong around a run: full disks, cut and unreadable files, folders that are none, links in circles, signals. The others are done, nothing is there
by half, and --resume makes the rest."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gridstride.cli import main
from gridstride.pipeline import images, reference
from gridstride.pipeline.inputs import images_named
from pipeline import cases, encode, videos

ROOT = Path(__file__).parents[2]


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim", "--impl", "fused"])
    return int(ended.value.code or 0)


def photographs(folder: Path, count: int, height: int = 40, width: int = 70) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number:03d}.png").write_bytes(encode.png(np.roll(cases.image(height, width, 3, 8), number, 0)))
    return sorted(folder.iterdir())


def assert_whole(sources: list[Path], out: Path) -> list[Path]:
    """Whatever is in `out` is the whole edges of its image, and nothing else is there. Returns what is there."""
    found = sorted(out.iterdir()) if out.is_dir() else []
    by_name = {f"{source.stem}-edges.png": source for source in sources}
    for path in found:
        np.testing.assert_array_equal(images.read_image(path), reference.run(images.read_image(by_name[path.name])).edges, err_msg=path.name)
    return found


# ---- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_cut_files_of_every_format(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    picture = Image.fromarray(cases.image(60, 80, 3, 8))
    names = []
    for number, (kind, suffix) in enumerate((("PNG", "png"), ("JPEG", "jpg"), ("TIFF", "tif"), ("WEBP", "webp"), ("BMP", "bmp"))):
        file = io.BytesIO()
        picture.save(file, kind)
        for share in (0, 0.03, 0.6):
            names.append(tmp_path / "in" / f"{number}-{share}.{suffix}")
            names[-1].parent.mkdir(exist_ok=True)
            names[-1].write_bytes(file.getvalue()[: int(len(file.getvalue()) * share)])
    (good,) = photographs(tmp_path / "good", 1)
    assert call(*names, good, "-o", tmp_path / "out", "--json", tmp_path / "r.json", *options) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == len(names)
    for error, path in zip(errors, names, strict=True):
        assert error.startswith((f"gridstride: {path} is broken and cannot be decoded: ", f"gridstride: {path} is not an image that can be read (")), error
    assert [path.name for path in assert_whole([good], tmp_path / "out")] == ["000-edges.png"]
    entries = json.loads((tmp_path / "r.json").read_text())["images"]
    assert [entry["image"] for entry in entries] == [str(path) for path in (*names, good)]
    assert [entry["status"] for entry in entries] == ["error"] * len(names) + ["ok"]


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = photographs(tmp_path / "in", 2)
    circle, device, folder = (tmp_path / "in" / name for name in ("circle.png", "memory.png", "folder.png"))
    circle.symlink_to(circle)
    device.symlink_to("/proc/self/mem")  # a file that even root cannot read from its beginning
    folder.mkdir()
    (folder / "inside.txt").touch()
    named = [sources[0], circle, *([device] if device.exists() else []), sources[1]]
    assert call(*named, "-o", tmp_path / "out", "--stream") == 2
    errors = capsys.readouterr().err
    assert f"gridstride: {circle}: Too many levels of symbolic links\n" in errors and errors.count("\n") == len(named) - 2
    assert len(assert_whole(sources, tmp_path / "out")) == 2
    assert call(folder, "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err.startswith(f"gridstride: {folder} holds no image: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_and_folders_that_are_somebody_elses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = photographs(tmp_path / "in", 2)
    sources[0].chmod(0)
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut").chmod(0o555)
    assert call(tmp_path / "in", "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err == f"gridstride: {sources[0]}: you may not read this file\n"
    assert call(sources[1], "-o", tmp_path / "shut") == 2
    assert capsys.readouterr().err == f"gridstride: cannot write {tmp_path / 'shut' / '001-edges.png'}: Permission denied\n"
    (tmp_path / "in").chmod(0)
    assert call(tmp_path / "in", "-o", tmp_path / "out") == 2
    assert capsys.readouterr().err == f"gridstride: {tmp_path / 'in'}: you may not look into this folder\n"
    (tmp_path / "in").chmod(0o755)


def test_links_in_a_circle_give_each_file_once(tmp_path: Path) -> None:
    sources = photographs(tmp_path / "in" / "deep", 2)
    (tmp_path / "in" / "deep" / "again").symlink_to(tmp_path / "in")
    assert images_named([tmp_path / "in" / "**" / "*.png"], None) == sources


def test_same_names_of_different_folders(tmp_path: Path) -> None:
    first, second = photographs(tmp_path / "a", 1), photographs(tmp_path / "b", 2)
    assert call(*first, second[0], second[1], "-o", tmp_path / "out", "--stream") == 0
    written = {path.name: images.read_image(path) for path in (tmp_path / "out").iterdir()}
    assert sorted(written) == ["000.png-2-edges.png", "000.png-edges.png", "001-edges.png"]
    for name, source in (("000.png-edges.png", first[0]), ("000.png-2-edges.png", second[0]), ("001-edges.png", second[1])):
        np.testing.assert_array_equal(written[name], reference.run(images.read_image(source)).edges)


# ---- places to write to ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_output_folder_inside_a_file(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = photographs(tmp_path / "in", 1)
    clip = videos.write(tmp_path / "clip.mkv", videos.moving(2, 9, 9))
    (tmp_path / "notes").write_text("mine")
    assert call(source, clip, "-o", tmp_path / "notes" / "out", *options) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == f"gridstride: cannot write {tmp_path / 'notes' / 'out' / '000-edges.png'}: Not a directory"
    assert errors[1].startswith(f"gridstride: cannot write {tmp_path / 'notes' / 'out' / 'clip-000001-edges.png'}: ") and len(errors) == 2
    assert (tmp_path / "notes").read_text() == "mine"
    assert call(source, "-o", tmp_path / "notes", *options) == 2
    assert capsys.readouterr().err == f"gridstride: {tmp_path / 'notes'} is a file, but neither a PNG nor a folder that could hold the edges\n"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_folder_in_which_nobody_can_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = photographs(tmp_path / "in", 1)
    clip = videos.write(tmp_path / "clip.mkv", videos.moving(2, 9, 9))
    assert call(source, "-o", "/proc/gridstride") == 2
    assert capsys.readouterr().err.startswith("gridstride: cannot write /proc/gridstride/000-edges.png: ")
    assert call(clip, "-o", "/proc/gridstride/x.mkv") == 2
    assert capsys.readouterr().err.startswith("gridstride: cannot write /proc/gridstride/x.mkv: ")


# ---- full disks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KB in memory, where that may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_a_full_disk(options: list[str], small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = photographs(tmp_path / "in", 12, 80, 120)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(30_000))
    out = small_disk / "out"
    assert call(tmp_path / "in", "-o", out, "--json", tmp_path / "r.json", *options) == 2
    done = assert_whole(sources, out)
    errors = capsys.readouterr().err.splitlines()
    assert 0 < len(done) < 12 and len(errors) == 12 - len(done)
    assert all(error.startswith(f"gridstride: cannot write {out}/") and error.endswith(": No space left on device") for error in errors)
    states = [entry["status"] for entry in json.loads((tmp_path / "r.json").read_text())["images"]]
    assert states.count("ok") == len(done) and states.count("error") == len(errors)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    assert call(tmp_path / "in", "-o", out, "--resume", *options) == 0
    assert len(assert_whole(sources, out)) == 12


@pytest.mark.parametrize("name", ["x.mkv", "x.mp4"])
def test_a_disk_too_small_for_a_video(name: str, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = videos.write(tmp_path / "clip.mkv", videos.moving(30, 96, 160))
    (small_disk / name).write_text("what was there before")
    assert call(clip, "-o", small_disk / name, "--stream") == 2
    assert capsys.readouterr().err == f"gridstride: cannot write {small_disk / name}: No space left on device\n"
    assert [path.name for path in small_disk.iterdir()] == [name] and (small_disk / name).read_text() == "what was there before"
    assert call(clip, "-o", small_disk / "frames", "--stream") == 2
    assert all(images.read_image(path).shape == (96, 160) for path in (small_disk / "frames").iterdir())


def run_as_process(*arguments: object, most_bytes: int | None = None) -> subprocess.Popen[str]:
    """The command in a process of its own. most_bytes: that it can write into one file, as where there is a quota."""
    limit = "" if most_bytes is None else f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes})); "
    command = [sys.executable, "-c", f"{limit}from gridstride.cli import main; main()", "pipeline", *map(str, arguments), "--device", "sim", "--impl", "fused"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_quota(tmp_path: Path) -> None:
    sources = [*photographs(tmp_path / "small", 2), *(path.rename(tmp_path / "small" / f"large{path.name}") for path in photographs(tmp_path / "large", 2, 90, 160))]
    call(sources[0], "-o", tmp_path / "warm")  # the kernels are compiled, so that the limit is about the images
    process = run_as_process(tmp_path / "small", "-o", tmp_path / "out", "--stream", most_bytes=6_000)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2, errors
    assert [error.endswith(": File too large") for error in errors.splitlines()] == [True, True]
    assert [path.name for path in assert_whole(sources, tmp_path / "out")] == ["000-edges.png", "001-edges.png"]
    assert call(tmp_path / "small", "-o", tmp_path / "out", "--resume") == 0
    assert len(assert_whole(sources, tmp_path / "out")) == 4


# ---- signals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "options"), [(signal.SIGINT, []), (signal.SIGTERM, ["--stream"]), (signal.SIGINT, ["--stream", "--graph"])])
def test_a_run_that_is_stopped_in_the_middle(number: int, options: list[str], tmp_path: Path) -> None:
    sources = photographs(tmp_path / "in", 120, 160, 240)
    out, told = tmp_path / "out", tmp_path / "r.json"
    process = run_as_process(tmp_path / "in", "-o", out, "--json", told, *options)
    end = time.monotonic() + 120
    while len(list(out.glob("*.png"))) < 3 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "gridstride: interrupted\n")
    done = assert_whole(sources, out)
    assert 3 <= len(done) < 120
    entries = json.loads(told.read_text())["images"]
    assert [entry["image"] for entry in entries] == [str(source) for source in sources]
    finished = {Path(entry["output"]).name for entry in entries if entry["status"] == "ok"}
    assert finished <= {path.name for path in done} and len(finished) >= len(done) - 4  # written, and not yet told
    assert {entry["error"]["code"] for entry in entries if entry["status"] != "ok"} == {"interrupted"}
    for source in sources[20:]:
        source.unlink()
    for path in done:
        if not (tmp_path / "in" / path.name.replace("-edges", "")).exists():
            path.unlink()
    assert call(tmp_path / "in", "-o", out, "--resume", "--stream") == 0
    assert len(assert_whole(sources[:20], out)) == 20


def test_a_video_that_is_stopped_in_the_middle(tmp_path: Path) -> None:
    clip = videos.write(tmp_path / "clip.mkv", videos.moving(200, 96, 160))
    process = run_as_process(clip, "-o", tmp_path / "out" / "x.mkv", "--stream")
    end = time.monotonic() + 120
    while not [path for path in (tmp_path / "out").glob(".x.mkv.*") if path.stat().st_size > 20_000] and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "gridstride: interrupted\n")
    assert list((tmp_path / "out").iterdir()) == []


# ---- kernels that are stopped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--stream"], ["--stream", "--graph"]])
def test_a_stopped_kernel_costs_its_own_image(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A device with a budget of loops that large images exceed and small ones do not."""
    import gridstride as gs

    right = gs.device
    monkeypatch.setattr(gs, "device", lambda name, **given: right(name, **given, budget=3))
    small, large = photographs(tmp_path / "small", 5, 13, 37), photographs(tmp_path / "large", 2, 600, 400)
    named = [small[0], small[1], large[0], small[2], small[3], large[1], small[4]]
    for number, path in enumerate(named):
        named[number] = path.rename(tmp_path / f"{number}.png")
    assert call(*named, "-o", tmp_path / "out", "--json", tmp_path / "r.json", *options) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2 and all("loop iterations, its budget" in error for error in errors)
    entries = json.loads((tmp_path / "r.json").read_text())["images"]
    assert [entry["status"] for entry in entries] == ["ok", "ok", "error", "ok", "ok", "error", "ok"]
    assert [entry["error"]["code"] for entry in entries if entry["error"]] == ["budget", "budget"]
    assert len(assert_whole(named, tmp_path / "out")) == 5


def test_trace_of_a_streamed_run(tmp_path: Path) -> None:
    photographs(tmp_path / "in", 4)
    assert call(tmp_path / "in", "-o", tmp_path / "out", "--stream", "--trace", tmp_path / "t.json") == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"stream into", "stream work", "stream out"} <= set(rows.values())
    kernels = [event for event in events if event["ph"] == "X" and event["cat"] == "kernel"]
    assert len(kernels) == 4 and {rows[event["tid"]] for event in kernels} == {"stream work"} and all(event["dur"] > 0 for event in kernels)
    assert call(tmp_path / "in", "-o", tmp_path / "out", "--trace", tmp_path / "no" / "t.json") == 2
