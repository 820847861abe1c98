"""A video through the pipeline: frames are decoded, computed and encoded at once, in memory that does not grow with their number."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gridstride.errors import GridstrideError, UsageError
from gridstride.pipeline import images
from gridstride.pipeline.batch import FRAME_NUMBER, Task, encode, note_for
from gridstride.pipeline.conveyor import ahead, behind
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.results import BINS, EdgeResult
from gridstride.pipeline.streaming import keyed_outcomes
from gridstride.pipeline.verify import verify
from gridstride.pipeline.video_reading import Frame, Video, digest_of, open_video
from gridstride.pipeline.video_writing import Timing, VideoWriter, note_of_video, require_writable

Progress = Callable[[int, int | None], None]
"""Is told how many frames are done, and of how many."""


@dataclass
class VideoReport:
    """What happened to one video. frames: those that were done; skipped: that were done before; unlike: numbers of those that differ from NumPy;
    stopped: the errors of those that could not be computed; faults: what is wrong with the file, if anything is; was_done: the video had been made
    before, and nothing was looked at."""

    task: Task
    impl: str
    checked: bool
    width: int = 0
    height: int = 0
    rate: Fraction = Fraction(0)
    has_audio: bool = False
    frames: int = 0
    skipped: int = 0
    unlike: list[int] = field(default_factory=list)
    stopped: list[GridstrideError] = field(default_factory=list)
    faults: str = ""
    was_done: bool = False
    seconds: float = 0.0
    histogram: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    @property
    def error(self) -> GridstrideError | None:
        """Why the video is not done as a whole."""
        others = f"{self.frames + self.skipped:,} frames are done"
        if self.stopped:
            first = self.stopped[0]
            told = UsageError(f"{self.task.source}: {len(self.stopped)} of its frames could not be computed, {others}: {first}")
            told.code, told.exit_status = first.code, first.exit_status
            return told
        return UsageError(f"{self.task.source} is broken: {self.faults}; {others}") if self.faults else None

    def as_json(self) -> dict[str, Any]:
        """The video's entry in the JSON result."""
        error = self.error
        done_before = self.was_done or (self.skipped and not self.frames)
        return {
            "image": str(self.task.source),
            "output": str(self.task.target),
            "implementation": self.impl,
            "status": "error" if error else "failed" if self.unlike else "skipped" if done_before else "ok",
            "error": None if error is None else {"code": error.code, "message": str(error)},
            "width": self.width,
            "height": self.height,
            "frames": self.frames,
            "frames_skipped": self.skipped,
            "frames_differing": self.unlike,
            "rate": str(self.rate),
            "audio_left_out": self.has_audio,
            "checked": self.checked,
            "seconds": self.seconds,
            "histogram": self.histogram.tolist(),
        }


def process_video(
    task: Task, pipeline: EdgePipeline, *, graph: bool = False, check: bool = True, resume: bool = False, progress: Progress = lambda done, total: None
) -> VideoReport:
    """Make the edges of all frames of a video, as frames or as a video, as the task's target says.

    check: hold each frame's edges and output against NumPy. resume: leave out what is done and unchanged.
    Raises `UsageError` for what is no video, and where the result cannot be written, in which case nothing of a video is there.
    """
    start = time.perf_counter()
    report = VideoReport(task, pipeline.impl, check)
    as_video = FRAME_NUMBER not in task.target.name
    if as_video:
        require_writable(task.target, pipeline.parameters)
    digest = digest_of(task.source)
    whole = note_for(digest.encode(), pipeline.parameters)
    if as_video and resume and task.target.is_file() and note_of_video(task.target) == whole:
        report.was_done = True
        return report
    with ExitStack() as stack:
        video = stack.enter_context(closing(open_video(task.source)))
        report.rate, report.has_audio = video.rate, video.has_audio
        sink: _Sink = _AsVideo(task.target, video) if as_video else _AsFrames(task.target)
        stack.callback(sink.discard)

        def note_of(number: int) -> str:
            return note_for(f"{digest} {number}".encode(), pipeline.parameters)

        def coming() -> Generator[tuple[Frame, npt.NDArray[Any]], None, None]:
            for frame in video.frames():
                if resume and not as_video and images.note_of(frame_file(task.target, frame.number)) == note_of(frame.number):
                    report.skipped += 1
                else:
                    yield frame, frame.samples

        def put(frame: Frame, result: EdgeResult) -> None:
            right = not check or all(one.passed for one in verify(frame.samples, result, pipeline.parameters))
            sink.write(frame, result.output, note_of(frame.number) if right else None)
            if not right:
                report.unlike.append(frame.number)
            report.height, report.width = result.edges.shape
            report.histogram += result.histogram

        with closing(behind(_outcomes(ahead(coming()), pipeline, graph), put)) as done:
            for _, error in done:
                if error is None:
                    report.frames += 1
                elif isinstance(error, images.CannotWrite):
                    raise error
                else:
                    report.stopped.append(error)
                progress(report.frames + report.skipped, video.expected)
        report.faults = str(video.faults)
        sink.finish(whole if report.error is None and not report.unlike else None)
    report.seconds = time.perf_counter() - start
    return report


def frame_file(target: Path, number: int) -> Path:
    """The file for one frame of a video."""
    before, _, behind_it = target.name.rpartition(FRAME_NUMBER)
    return target.with_name(f"{before}{number:06d}{behind_it}")


def _outcomes(
    frames: Generator[tuple[Frame, npt.NDArray[Any]], None, None], pipeline: EdgePipeline, graph: bool
) -> Generator[tuple[Frame, EdgeResult | GridstrideError], None, None]:
    with closing(frames):
        if pipeline.on_device:
            yield from keyed_outcomes(frames, pipeline, graph=graph)
            return
        for frame, samples in frames:
            yield frame, pipeline.run(samples).result


class _Sink(Protocol):
    """Where the edges of the frames go."""

    def write(self, frame: Frame, output: npt.NDArray[Any], note: str | None) -> None: ...

    def finish(self, note: str | None) -> None: ...

    def discard(self) -> None: ...


class _AsFrames:
    """A file for each frame."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def write(self, frame: Frame, output: npt.NDArray[Any], note: str | None) -> None:
        encode(Task(self._target, frame_file(self._target, frame.number)), output, note)

    def finish(self, note: str | None) -> None: ...

    def discard(self) -> None: ...


class _AsVideo:
    """One file for all, with the times of the frames."""

    def __init__(self, target: Path, video: Video) -> None:
        self._writer = VideoWriter(target, Timing(video.rate, video.time_base, video.shape_of_pixels))

    def write(self, frame: Frame, output: npt.NDArray[Any], note: str | None) -> None:
        self._writer.write(output, frame.time)

    def finish(self, note: str | None) -> None:
        self._writer.finish(note)

    def discard(self) -> None:
        self._writer.discard()
