"""Videos in and out: every frame's edges are NumPy's, times and numbers kept; turned, deep, odd and broken ones; resuming; nothing by half."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.cli import main
from gridstride.errors import GridstrideError, UnsupportedError, UsageError
from gridstride.pipeline import EdgePipeline, Parameters, batch, images, reference, video_job, video_reading
from gridstride.pipeline.conveyor import AHEAD
from gridstride.pipeline.streaming import SLOTS
from gridstride.pipeline.video_reading import open_video
from gridstride.pipeline.video_writing import Timing, VideoWriter, note_of_video
from pipeline import encode, videos

pytest.importorskip("av")


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim", "--impl", "fused"])
    return int(ended.value.code or 0)


def edges_of(frame: np.ndarray) -> np.ndarray:
    return reference.run(frame).edges


@pytest.fixture(scope="module")
def pipeline() -> EdgePipeline:
    return EdgePipeline(gs.device("sim", blocking=True), impl="fused")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return videos.write(tmp_path / "clip.mkv", videos.moving(5, 13, 37))


def read(path: Path) -> list[video_reading.Frame]:
    video = open_video(path)
    try:
        return list(video.frames())
    finally:
        video.close()


@pytest.mark.parametrize("options", [[], ["--stream"], ["--stream", "--graph"]])
def test_frames_of_a_video(options: list[str], clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(clip, "-o", tmp_path / "out", "--json", tmp_path / "r.json", *options) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"clip-{number:06d}-edges.png" for number in range(1, 6)]
    frames = videos.moving(5, 13, 37)
    for number, frame in enumerate(frames, 1):
        np.testing.assert_array_equal(images.read_image(tmp_path / "out" / f"clip-{number:06d}-edges.png"), edges_of(frame))
    (entry,) = json.loads((tmp_path / "r.json").read_text())["images"]
    assert (entry["status"], entry["frames"], entry["rate"], entry["width"], entry["height"]) == ("ok", 5, "24000/1001", 37, 13)
    assert entry["checked"] == (not options) and entry["output"] == str(tmp_path / "out" / "clip-%06d-edges.png")
    assert entry["histogram"] == sum(np.bincount(edges_of(frame).ravel(), minlength=256) for frame in frames).tolist()
    assert capsys.readouterr().out.startswith("clip.mkv: 5 frames of 37 × 13, each checked" if not options else "clip.mkv: 5 frames of 37 × 13; ")


def test_lossless_video_keeps_the_rate(clip: Path, tmp_path: Path) -> None:
    assert call(clip, "-o", tmp_path / "x.mkv", "--stream") == 0
    assert videos.facts(tmp_path / "x.mkv")["rate"] == videos.RATE and len(videos.read(tmp_path / "x.mkv")) == 5


def test_lossless_video_of_a_video_keeps_times_that_are_not_regular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = [7, 8, 9, 12, 13, 16]  # those of a piece that was cut out
    clip = videos.write(tmp_path / "clip.mov", videos.moving(6, 13, 37), codec="png", times=times, sound=True)
    assert call(clip, "-o", tmp_path / "x.mkv", "--stream") == 0
    for got, frame in zip(videos.read(tmp_path / "x.mkv"), videos.moving(6, 13, 37), strict=True):
        np.testing.assert_array_equal(got, edges_of(frame))
    facts = videos.facts(tmp_path / "x.mkv")
    assert facts["format"] == "gray" and facts["streams"] == 1
    np.testing.assert_allclose([float(time) for time in facts["times"]], [(time - 7) / float(videos.RATE) for time in times], atol=0.001)
    assert capsys.readouterr().out.endswith("Its sound is left out.\n")


@pytest.mark.parametrize(("size", "written"), [((24, 40), (24, 40)), ((13, 37), (14, 38)), ((1, 1), (2, 2))])
def test_mp4_plays_everywhere(size: tuple[int, int], written: tuple[int, int], tmp_path: Path) -> None:
    """H.264 with 4:2:0 has even sizes: the last row and column are there twice. It loses little, and keeps rate and number."""
    frames = [np.roll(images_of_slopes(*size), k, 1) for k in range(7)]
    clip = videos.write(tmp_path / "clip.mkv", frames)
    assert call(clip, "-o", tmp_path, "--video", "--stream") == 0
    facts = videos.facts(tmp_path / "clip-edges.mp4")
    assert (facts["size"], facts["rate"], facts["format"]) == (written, videos.RATE, "yuvj420p")
    assert len(facts["times"]) == 7
    for got, frame in zip(videos.read(tmp_path / "clip-edges.mp4", "gray"), frames, strict=True):
        expected = np.pad(edges_of(frame), ((0, written[0] - size[0]), (0, written[1] - size[1])), mode="edge")
        assert np.abs(got.astype(int) - expected).mean() < 3


def images_of_slopes(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return (5 * x + 3 * y + (x > width // 2) * 60).astype(np.uint8)


def test_deep_video_keeps_its_levels(tmp_path: Path) -> None:
    """10 bits become 16 by repeating the upper bits below: 0 stays 0 and 1023 becomes 65535."""
    ten = videos.moving(3, 9, 21, np.uint16, 1023)
    ten[0].flat[:2] = 0, 1023
    clip = videos.write(tmp_path / "clip.mkv", ten, pixels="gray10le")
    expected = [frame.astype(np.uint32) * 65535 // 1023 for frame in ten]
    for frame, value in zip(read(clip), expected, strict=True):
        assert frame.samples.dtype == np.uint16 and np.abs(frame.samples.astype(int) - value).max() <= 1
    assert read(clip)[0].samples.flat[:2].tolist() == [0, 65535]
    assert call(clip, "-o", tmp_path / "x.mkv", "--stream", "--depth", 16) == 0
    for got, frame in zip(videos.read(tmp_path / "x.mkv"), read(clip), strict=True):
        np.testing.assert_array_equal(got, reference.run(frame.samples, np.float32, Parameters(depth=16)).output)


@pytest.mark.parametrize(("pixels", "bits"), [("yuv420p", 8), ("yuv420p10le", 10), ("yuv444p", 8)])
def test_colours_are_those_of_bt601(pixels: str, bits: int, tmp_path: Path) -> None:
    """One colour all over: Y, Cb, Cr of limited range to R, G, B by ITU-R BT.601."""
    y, cb, cr = 120, 90, 180
    height, width, scale = 16, 32, 1 << bits - 8
    planes = [np.full((height, width), y * scale), *(np.full((height, width) if pixels == "yuv444p" else (height // 2, width // 2), c * scale) for c in (cb, cr))]
    dtype = np.uint8 if bits == 8 else np.uint16
    flat = np.concatenate([plane.ravel() for plane in planes]).astype(dtype)
    frame = flat.reshape((3, height, width) if pixels == "yuv444p" else (height * 3 // 2, width))
    import av

    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = height, width, pixels
        picture = av.VideoFrame.from_ndarray(frame, format=pixels)
        container.mux(stream.encode(picture))
        container.mux(stream.encode())
    (read_back,) = read(tmp_path / "a.mkv")
    luma, blue, red = (y - 16) / 219, (cb - 128) / 224, (cr - 128) / 224
    expected = np.array([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue])
    assert read_back.samples.shape == (height, width, 3) and read_back.samples.dtype == dtype
    most = 255 if bits == 8 else 65535
    assert np.abs(read_back.samples[8, 16] / most - expected).max() < 2 / 255  # FFmpeg's conversion of 8 bits is within two levels


@pytest.mark.parametrize("turned", [(turn, across, down) for turn in (0, 90, 180, -90) for across, down in ((False, False), (True, False), (False, True))])
def test_turned_videos_come_upright(turned: tuple[int, bool, bool], tmp_path: Path) -> None:
    """The matrix of the file says: turned counter-clockwise, then mirrored."""
    stored = np.random.default_rng(1).integers(0, 256, (6, 9, 3)).astype(np.uint8)
    clip = videos.write(tmp_path / "clip.mov", [stored], codec="png", pixels="rgb24", turned=turned)
    upright = np.rot90(stored, turned[0] // 90)
    upright = upright[:, ::-1] if turned[1] else upright
    upright = upright[::-1] if turned[2] else upright
    np.testing.assert_array_equal(read(clip)[0].samples, upright)


def cut(path: Path, share: float) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


@pytest.mark.parametrize(("name", "options"), [("clip.mp4", {"movflags": "faststart"}), ("clip.mkv", {})])
@pytest.mark.parametrize("target", ["out", "x.mkv"])
def test_frames_before_the_cut_are_done(name: str, options: dict[str, str], target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = videos.moving(30, 24, 40)
    codec = {"codec": "ffv1"} if name.endswith("mkv") else {"codec": "png"}
    clip = cut(videos.write(tmp_path / name, frames, **codec, **options), 0.6)  # type: ignore[arg-type]
    assert call(clip, "-o", tmp_path / target, "--stream", "--json", tmp_path / "r.json") == 2
    (entry,) = json.loads((tmp_path / "r.json").read_text())["images"]
    assert entry["status"] == "error" and entry["error"]["code"] == "usage" and 10 <= entry["frames"] <= 20
    error = capsys.readouterr().err
    assert error == f"gridstride: {entry['error']['message']}\n" and error.startswith(f"gridstride: {clip} is broken: ")
    assert error.endswith(f"{entry['frames']} frames are done\n")
    done = videos.read(tmp_path / target) if target == "x.mkv" else [images.read_image(path) for path in sorted((tmp_path / target).iterdir())]
    assert len(done) == entry["frames"]
    for got, frame in list(zip(done, frames, strict=False))[:-1]:  # the last one may be the one that was cut through
        np.testing.assert_array_equal(got, edges_of(frame))
    if target == "x.mkv":
        assert note_of_video(tmp_path / target) is None  # so that --resume makes it again


def test_frame_that_is_broken_in_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FFV1 has checksums: the frame with other bytes is told, those around it are done."""
    frames = videos.moving(9, 24, 40)
    clip = videos.write(tmp_path / "clip.mkv", frames, level="3", slicecrc="1", g="1")
    data = bytearray(clip.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 20):
        data[place] ^= 0x5A
    clip.write_bytes(data)
    assert call(clip, "-o", tmp_path / "out", "--stream") == 2
    assert "is broken: " in capsys.readouterr().err
    right = [np.array_equal(images.read_image(path), edges_of(frame)) for path, frame in zip(sorted((tmp_path / "out").iterdir()), frames, strict=False)]
    assert sum(right) >= 3 and right[0]


def test_what_is_no_video_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.mp4").write_text("no video " * 100)
    (tmp_path / "empty.mkv").touch()
    headless = cut(videos.write(tmp_path / "headless.mp4", videos.moving(5, 16, 16), codec="libx264", pixels="yuv420p", given="gray"), 0.5)
    (tmp_path / "folder.mp4").mkdir()
    good = videos.write(tmp_path / "good.mkv", videos.moving(2, 9, 9))
    named = [tmp_path / "text.mp4", tmp_path / "empty.mkv", headless, tmp_path / "missing.mov", good]
    assert call(*named, "-o", tmp_path / "out", "--stream") == 2
    errors = capsys.readouterr().err.splitlines()
    assert [error.partition(": ")[2].partition(" is not")[0] for error in errors[:3]] == [str(path) for path in named[:3]]
    assert all(" is not a video that can be read: " in error for error in errors[:3])
    assert errors[3] == f"gridstride: {tmp_path / 'missing.mov'}: there is no such file"
    assert len(list((tmp_path / "out").iterdir())) == 2
    with pytest.raises(UsageError, match=r"folder\.mp4 is a folder, not a video$"):
        open_video(tmp_path / "folder.mp4")


def test_sound_alone_wrong(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        voice = container.add_stream("aac", rate=44100)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        silence.rate = 44100
        container.mux(voice.encode(silence))
        container.mux(voice.encode())
    with pytest.raises(UsageError) as caught:
        open_video(tmp_path / "a.mp4")
    assert str(caught.value) == f"{tmp_path / 'a.mp4'} holds no video, only sound"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{clip}", "-o", "{dir}/x.png"], "{dir}/x.png is one image: name a folder for the frames of {clip}, or a video"),
        (["{clip}", "{clip}", "-o", "{dir}/x.mp4"], "{dir}/x.mp4 is one video, but several inputs were named: name a folder"),
        (["{photo}", "-o", "{dir}/x.mp4"], "{dir}/x.mp4 is a video, but {photo} is an image: name a folder or an image"),
        (["{clip}", "-o", "{dir}/x.avi"], "videos are written as .m4v, .mkv, .mov, .mp4, not as .avi"),
        (["{clip}", "-o", "{dir}/x.mp4", "--depth", "16"], "a .mp4 video holds 8 bits: name a .mkv for 16, or a folder for the frames"),
        (["{clip}", "-o", "{dir}/x.mkv", "--depth", "float"], "a video holds 8 or 16 bits, not floats: name a folder for the frames"),
        (["{clip}", "-o", "-"], "standard output (-) takes one image, not a video: name a folder, or a video"),
        (["{clip}", "-o", "{dir}/out", "--impl", "all"], "--impl all compares implementations on images; for a video name one"),
    ],
)
def test_what_does_not_go_together_wrong(arguments: list[str], message: str, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(encode.png(np.zeros((2, 2, 1), np.uint8)))
    names = {"clip": clip, "photo": photo, "dir": tmp_path}
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *(argument.format(**names) for argument in arguments), "--device", "sim"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"gridstride: {message.format(**names)}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mkv", "photo.png"]


def test_folders_give_images_and_videos_but_not_results(tmp_path: Path) -> None:
    for name in ("a.png", "b.mp4", "b-edges.mp4", "c.ts", "b-000001-edges.png"):
        (tmp_path / name).touch()
    assert [(task.source.name, task.target.name) for task in batch.plan([tmp_path], tmp_path)] == [
        ("a.png", "a-edges.png"),
        ("b.mp4", "b-%06d-edges.png"),
    ]
    assert [task.target.name for task in batch.plan([tmp_path / "b.mp4", tmp_path / "c.ts"], tmp_path, video=".mkv")] == ["b-edges.mkv", "c-edges.mkv"]


def test_frames_are_resumed(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert call(clip, "-o", out, "--stream") == 0
    files = sorted(out.iterdir())
    files[1].unlink()
    cut(files[3], 0.7)
    kept = {path: path.stat().st_mtime_ns for path in (files[0], files[2], files[4])}
    capsys.readouterr()
    assert call(clip, "-o", out, "--resume", "--json", tmp_path / "r.json") == 0
    assert capsys.readouterr().out.startswith("clip.mkv: 2 frames of 37 × 13, each checked against NumPy, 3 more were done before and are unchanged; ")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for path, frame in zip(files, videos.moving(5, 13, 37), strict=True):
        np.testing.assert_array_equal(images.read_image(path), edges_of(frame))
    assert call(clip, "-o", out, "--resume", "--json", tmp_path / "r.json") == 0
    assert json.loads((tmp_path / "r.json").read_text())["images"][0]["status"] == "skipped"


@pytest.mark.parametrize("name", ["x.mkv", "x.mp4"])
def test_videos_are_resumed(name: str, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / name
    assert call(clip, "-o", made, "--stream") == 0
    assert len(videos.read(made)) == 5  # what stands at the file's end is passed over
    kept = made.stat().st_mtime_ns
    capsys.readouterr()
    assert call(clip, "-o", made, "--resume", "--stream") == 0
    assert capsys.readouterr().out == "clip.mkv: done and unchanged: skipped.\n" and made.stat().st_mtime_ns == kept
    cut(made, 0.95)
    assert call(clip, "-o", made, "--resume", "--stream") == 0
    assert capsys.readouterr().out.startswith("clip.mkv: 5 frames")
    kept = made.stat().st_mtime_ns
    assert call(clip, "-o", made, "--resume", "--stream", "--sigma", 2) == 0
    assert made.stat().st_mtime_ns != kept


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_video_that_is_not_finished_is_not_there(stop: Any, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: EdgePipeline) -> None:
    right, calls = VideoWriter._samples, []

    def samples(self: VideoWriter, image: np.ndarray) -> np.ndarray:
        calls.append(image)
        if len(calls) == 3:
            raise stop
        return right(self, image)

    monkeypatch.setattr(VideoWriter, "_samples", samples)
    before = tmp_path / "x.mkv"
    before.write_text("what was there before")
    with pytest.raises(KeyboardInterrupt if stop is KeyboardInterrupt else GridstrideError) as caught:
        video_job.process_video(batch.Task(clip, before), pipeline)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mkv", "x.mkv"] and before.read_text() == "what was there before"
    if stop is not KeyboardInterrupt:
        assert str(caught.value) == f"cannot write {before}: No space left on device"


def test_frames_in_flight_are_bounded(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: EdgePipeline) -> None:
    taken, written, most = 0, 0, 0
    right = video_reading.Video.frames

    def frames(self: video_reading.Video) -> Iterator[video_reading.Frame]:
        nonlocal taken, most
        (one,) = list(right(self))[:1]
        for number in range(1, 31):
            taken += 1
            most = max(most, taken - written)
            yield video_reading.Frame(number, number, one.samples)

    def write(self: Any, frame: Any, output: Any, note: Any) -> None:
        nonlocal written
        written += 1

    monkeypatch.setattr(video_reading.Video, "frames", frames)
    monkeypatch.setattr(video_job._AsFrames, "write", write)
    report = video_job.process_video(batch.Task(clip, tmp_path / "a-%06d.png"), pipeline, check=False)
    assert (report.frames, written) == (30, 30)
    assert most <= AHEAD + SLOTS + 1 + AHEAD + 2  # decoded, on the device and the one that comes in, waiting for the encoder and in its hands


def test_stopped_kernels_are_told_and_end_nothing(tmp_path: Path) -> None:
    """A device with a budget that frames of this size exceed."""
    clip = videos.write(tmp_path / "clip.mkv", videos.moving(3, 600, 400))
    strict = EdgePipeline(gs.device("sim", blocking=True, budget=3), impl="fused")
    report = video_job.process_video(batch.Task(clip, tmp_path / "a-%06d.png"), strict, check=False)
    assert report.frames == 0 and [error.code for error in report.stopped] == ["budget"] * 3
    assert report.error is not None and report.error.exit_status == 1
    assert str(report.error).startswith(f"{clip}: 3 of its frames could not be computed, 0 frames are done: ")
    assert report.as_json()["error"]["code"] == "budget"


def test_frames_that_differ_from_numpy_are_told(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = (0.06, 0.25, 0.38, 0.25, 0.06)
    monkeypatch.setattr(reference, "weights_of", lambda parameters, image: np.array(wrong, image.dtype))
    assert call(clip, "-o", tmp_path / "x.mkv", "--json", tmp_path / "r.json") == 1
    assert capsys.readouterr().err == f"gridstride: {clip}: 5 frames differ from the reference, frame 1 first\n"
    assert json.loads((tmp_path / "r.json").read_text())["images"][0]["status"] == "failed"
    assert note_of_video(tmp_path / "x.mkv") is None


def test_reference_does_videos(clip: Path, tmp_path: Path) -> None:
    report = video_job.process_video(batch.Task(clip, tmp_path / "x.mkv"), EdgePipeline(gs.device("sim"), impl="reference"))
    assert report.frames == 5 and not report.unlike
    for got, frame in zip(videos.read(tmp_path / "x.mkv"), videos.moving(5, 13, 37), strict=True):
        np.testing.assert_array_equal(got, edges_of(frame))


def test_frames_of_two_sizes_in_one_video_wrong(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "x.mkv", Timing(Fraction(25), Fraction(1, 25)))
    writer.write(np.zeros((4, 6), np.uint8), 0)
    with pytest.raises(UsageError) as caught:
        writer.write(np.zeros((5, 6), np.uint8), 1)
    writer.discard()
    expected = f"cannot write {tmp_path / 'x.mkv'}: the video began with 6 x 4 pixels and goes on with 6 x 5; name a folder for the frames"
    assert str(caught.value) == expected and list(tmp_path.iterdir()) == []


def test_shape_of_pixels_is_kept(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "x.mp4", Timing(Fraction(25), Fraction(1, 25), Fraction(16, 15)))
    for time in range(3):
        writer.write(np.zeros((4, 6), np.uint8), time)
    writer.finish(None)
    assert videos.facts(tmp_path / "x.mp4")["shape_of_pixels"] == Fraction(16, 15)
    assert open_video(tmp_path / "x.mp4").shape_of_pixels == Fraction(16, 15)


def test_without_pyav_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(UnsupportedError) as caught:
        open_video(tmp_path / "a.mp4")
    assert str(caught.value) == "videos are read and written with PyAV, which is not installed: pip install 'gridstride[image]'"
