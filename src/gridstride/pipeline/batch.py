"""Files through the pipeline: which images, where their edges go, and a record of each."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gridstride.errors import GridstrideError, UsageError
from gridstride.pipeline import images, video_reading
from gridstride.pipeline.differences import Difference, differences
from gridstride.pipeline.images import Samples
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.inputs import STANDARD, images_named
from gridstride.pipeline.parameters import DEFAULT, Parameters
from gridstride.pipeline.results import EdgeResult, StageRun
from gridstride.pipeline.verify import StageCheck, verify

FRAME_NUMBER = "%06d"
"""In the name of a video's target: the number of the frame, from 1 on."""

_LAYOUTS = {1: "grey", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Task:
    """One image to do, and the file for its edges; or one video, and the file for its edges as a video or, with `FRAME_NUMBER` in the name, the
    files for those of its frames."""

    source: Path
    target: Path

    @property
    def is_video(self) -> bool:
        return self.source.suffix.lower() in video_reading.SUFFIXES


@dataclass(frozen=True)
class ImageReport:
    """What happened to one image. Seconds: `read` to decode the file, `prepare` for compiling, `verify` for NumPy's references."""

    task: Task
    height: int
    width: int
    channels: int
    bits: int
    stages: tuple[StageRun, ...]
    checks: tuple[StageCheck, ...]
    result: EdgeResult
    impl: str
    written: str
    read_seconds: float
    prepare_seconds: float
    verify_seconds: float
    tile: tuple[int, int] | None = None

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def checked_launches(self) -> list[tuple[StageCheck, StageRun | None]]:
        """Each check with the launch that it judges; None where an earlier launch made that, too."""
        launches = {run.stage: run for run in self.stages}
        return [(check, launches.get(check.stage)) for check in self.checks]

    @property
    def layout(self) -> str:
        """As a person says it: "RGB, 8 bit"."""
        return _layout(self.channels, self.bits)

    def as_json(self) -> dict[str, Any]:
        """The image's entry in the JSON result."""
        pixels = self.height * self.width
        return {
            "image": str(self.task.source),
            "output": str(self.task.target),
            "implementation": self.impl,
            "status": "ok" if self.passed else "failed",
            "error": None,
            "width": self.width,
            "height": self.height,
            "channels": self.channels,
            "bits": self.bits,
            "tile": None if self.tile is None else list(self.tile),
            "seconds": {"read": self.read_seconds, "prepare": self.prepare_seconds, "verify": self.verify_seconds},
            "stages": [
                {
                    "stage": check.stage,
                    "kernel": None if run is None else run.kernel,
                    "grid": None if run is None else list(run.grid),
                    "block": None if run is None else list(run.block),
                    "max_error": check.max_error if math.isfinite(check.max_error) else None,
                    "tolerance": check.tolerance,
                    "differing_from_float32": check.differing,
                    "passed": check.passed,
                    "seconds": None if run is None else run.seconds,
                    "pixels_per_second": None if run is None else pixels / run.seconds,
                }
                for check, run in self.checked_launches
            ],
            "histogram": self.result.histogram.tolist(),
        }


def json_text(device: str, entries: Sequence[dict[str, Any]], report: dict[str, Any] | None = None) -> str:
    """The JSON result (schema 1) as text."""
    document = {"schema": 1, "device": device, "images": list(entries), **({} if report is None else {"report": report})}
    return json.dumps(document, indent=1, allow_nan=False)


def write_json(path: Path, device: str, entries: Sequence[dict[str, Any]], report: dict[str, Any] | None = None) -> None:
    """Write the JSON result (schema 1): the device, one entry for each image, and the report card's numbers where there is one. Raises `UsageError`
    where it cannot be written."""
    text = json_text(device, entries, report) + "\n"
    images.write_whole(path, lambda file: file.write(text.encode()))


def skipped_as_json(task: Task) -> dict[str, Any]:
    """The entry in the JSON result of an image that was done before."""
    return {"image": str(task.source), "output": str(task.target), "status": "skipped", "error": None}


def interrupted_as_json(task: Task) -> dict[str, Any]:
    """The entry in the JSON result of an image that was not done before the run was interrupted."""
    return {"image": str(task.source), "output": None, "status": "error", "error": {"code": "interrupted", "message": "interrupted before it was done"}}


def failure_as_json(task: Task, error: GridstrideError) -> dict[str, Any]:
    """The entry in the JSON result of an image that could not be done."""
    failure = {"code": error.code, "message": str(error)}
    return {"image": str(task.source), "output": None, "status": "error", "error": failure}


def entries(outcome: Outcome) -> list[dict[str, Any]]:
    """The entries of one task in the JSON result: one for each implementation, or one that tells what stopped it."""
    if outcome.failure is not None:
        return [failure_as_json(outcome.task, outcome.failure)]
    return [report.as_json() for report in outcome.reports]


def demo_photograph() -> AbstractContextManager[Path]:
    """The photograph that comes with the package, as a file for the time of a `with` block."""
    return as_file(files("gridstride.pipeline") / "photographs" / "dandelion.jpg")


def plan(inputs: Sequence[Path], output: Path, ending: str = DEFAULT.ending, video: str | None = None) -> list[Task]:
    """The images and videos named by `inputs` (files, and folders for the images and videos in them), each with the file for its edges.

    `output` is an image file if it ends as `ending` does (.png, say) and one image is asked for by name, a video if it is called like one and one
    video is, and a folder otherwise: there `photo.jpg` becomes `photo-edges.png`; where two images have one name, `photo.jpg-edges.png`, and
    then `photo.jpg-2-edges.png`. Of a video there come its frames, `clip-000001-edges.png`, or with `video` (".mkv", say) `clip-edges.mkv`.
    Raises `UsageError` where a folder holds no images, or `output` cannot hold the results or is one of the inputs.
    """
    sources: list[Path] = []
    for path in inputs:
        beside = path if path.is_dir() else path.parent
        into_itself = output.is_dir() and beside.is_dir() and beside.samefile(output)  # results of an earlier run are no new images
        sources += images_named([path], ending if into_itself else None)
    if sources.count(STANDARD) > 1:
        raise UsageError("standard input (-) holds one image and can be named once")
    if output == STANDARD:
        if len(sources) != 1:
            raise UsageError(f"standard output (-) takes one image, not {len(sources)}: name a folder")
        if Task(sources[0], STANDARD).is_video:
            raise UsageError("standard output (-) takes one image, not a video: name a folder, or a video")
        return [Task(sources[0], STANDARD)]
    suffix, written = output.suffix.lower(), Path(ending).suffix
    if not output.is_dir() and suffix in video_reading.SUFFIXES:
        if len(sources) > 1 or inputs[0].is_dir():
            raise UsageError(f"{output} is one video, but several inputs were named: name a folder")
        if not Task(sources[0], output).is_video:
            raise UsageError(f"{output} is a video, but {sources[0]} is an image: name a folder or an image")
        return _require_apart([Task(sources[0], output)])
    if not output.is_dir() and suffix in images.SUFFIXES:
        if suffix != written:
            as_what = "edges are written as PNG" if written == ".png" else "floats are written as TIFF"
            raise UsageError(f"{as_what}: name the output {output.with_suffix(written)}, or a folder")
        if len(sources) > 1 or inputs[0].is_dir():
            raise UsageError(f"{output} is one file, but several images were asked for: name a folder")
        if Task(sources[0], output).is_video:
            raise UsageError(f"{output} is one image: name a folder for the frames of {sources[0]}, or a video")
        return _require_apart([Task(sources[0], output)])
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file, but neither a PNG nor a folder that could hold the edges")
    return _require_apart([Task(source, output / name) for source, name in zip(sources, _names(sources, ending, video), strict=True)])


@dataclass(frozen=True)
class Outcome:
    """What became of one task: a report for each implementation and where they differ from the first, or the failure that stopped it."""

    task: Task
    reports: tuple[ImageReport, ...] = ()
    differences: tuple[Difference, ...] = ()
    failure: GridstrideError | None = None


def process(task: Task, pipelines: Sequence[EdgePipeline], prepared: set[str]) -> Outcome:
    """Read one image, run and check it with each implementation, write what the first makes.

    `prepared` holds the layouts whose machine code was made, and is added to. The edges are written even where a check fails: they show
    what is wrong. What stops it, a `GridstrideError` of whatever kind, is in the outcome.
    """
    try:
        start = time.perf_counter()
        data = file_of(task)
        outcome, file = made(task, data, pipelines, prepared, start)
        write(task, file)
    except GridstrideError as error:
        return Outcome(task, failure=error)
    return outcome


def made(task: Task, data: bytes, pipelines: Sequence[EdgePipeline], prepared: set[str], start: float) -> tuple[Outcome, bytes]:
    """What `process` makes of the bytes of a file, and the file for its edges; start: when reading it began, by `time.perf_counter`."""
    image, note = decoded(task, data, pipelines[0].parameters)
    read = time.perf_counter() - start
    reports = tuple(_run(task, image, pipeline, prepared, read) for pipeline in pipelines)
    different = tuple(difference for report in reports[1:] for difference in differences(reports[0].result, report.result))
    # An output that is wrong has no note, so that it is made again.
    return Outcome(task, reports, different), images.encoded(reports[0].result.output, note if all(report.passed for report in reports) else None)


def file_of(task: Task) -> bytes:
    """A task's image file as it is. Raises `GridstrideError` where it cannot be read."""
    if task.source != STANDARD:
        return images.file_bytes(task.source)
    data = sys.stdin.buffer.read()
    if not data:
        raise UsageError("standard input is empty: no image came")
    return data


def decoded(task: Task, data: bytes, parameters: Parameters) -> tuple[Samples, str]:
    """The samples of a task's image from its file, and the note that its output gets. Raises `GridstrideError` for what is no image."""
    return images.decoded(data, Path("standard input") if task.source == STANDARD else task.source), note_for(data, parameters)


def decode(task: Task, parameters: Parameters) -> tuple[Samples, str]:
    """`decoded` of a task's file."""
    return decoded(task, file_of(task), parameters)


def encode(task: Task, output: npt.NDArray[Any], note: str | None) -> None:
    """Write a task's output, whole or not at all. Raises `UsageError` where it cannot be written."""
    write(task, images.encoded(output, note))


def write(task: Task, file: bytes) -> None:
    """Put the file of an output into its place, whole or not at all. Raises `UsageError` where it cannot be written."""
    if task.target == STANDARD:
        sys.stdout.buffer.write(file)
        sys.stdout.buffer.flush()
    else:
        images.write_whole(task.target, lambda opened: opened.write(file))


def is_done(task: Task, parameters: Parameters) -> bool:
    """Whether a task's output is there, whole, and made with these parameters from the image as it is now."""
    if STANDARD in (task.source, task.target) or not task.source.is_file() or not task.target.is_file():
        return False
    try:
        return images.note_of(task.target) == note_for(task.source.read_bytes(), parameters)
    except OSError:
        return False


def note_for(data: bytes, parameters: Parameters) -> str:
    """What an output depends on, in short: the image's bytes (of a video its digest and the frame's number) and the choices."""
    return hashlib.sha256(repr(parameters).encode() + data).hexdigest()


def _run(task: Task, image: Samples, pipeline: EdgePipeline, prepared: set[str], read: float) -> ImageReport:
    prepare = _prepare(image, pipeline, prepared)
    run = pipeline.run(image)
    start = time.perf_counter()
    checks = verify(image, run.result, pipeline.parameters)
    verify_seconds = time.perf_counter() - start
    return ImageReport(
        task=task,
        height=image.shape[0],
        width=image.shape[1],
        channels=_channels(image),
        bits=image.dtype.itemsize * 8,
        stages=run.stages,
        checks=checks,
        result=run.result,
        impl=pipeline.impl,
        written=pipeline.parameters.output,
        read_seconds=read,
        prepare_seconds=prepare,
        verify_seconds=verify_seconds,
        tile=run.tile,
    )


def _prepare(image: Samples, pipeline: EdgePipeline, prepared: set[str]) -> float:
    """Seconds to make the machine code for images like this one; 0 if that is done."""
    layout = f"{pipeline.impl} {_channels(image)} {image.dtype}"
    if layout in prepared:
        return 0.0
    seconds = pipeline.warm_up(image)
    prepared.add(layout)
    return seconds


def layout_of(image: Samples) -> str:
    """As `ImageReport.layout`."""
    return _layout(_channels(image), image.dtype.itemsize * 8)


def _layout(channels: int, bits: int) -> str:
    return f"{_LAYOUTS[channels]}, {bits} bit"


def _channels(image: Samples) -> int:
    return image.shape[2] if image.ndim == 3 else 1


def _require_apart(tasks: list[Task]) -> list[Task]:
    """The tasks, or `UsageError` where one would overwrite what is to be read."""
    read = {os.path.realpath(task.source) for task in tasks if task.source != STANDARD}
    for task in tasks:
        if task.target != STANDARD and os.path.realpath(task.target) in read:
            raise UsageError(f"{task.target} is an input and would be overwritten: name another output")
    return tasks


def _names(sources: Sequence[Path], ending: str, video: str | None) -> Iterable[str]:
    """A file name of its own for the edges of each image."""
    sources = [Path("stdin") if source == STANDARD else source for source in sources]
    stems = [source.stem.lower() for source in sources]
    taken: set[str] = set()
    for source, stem in zip(sources, stems, strict=True):
        base = source.stem if stems.count(stem) == 1 else source.name
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.lower())
        if not Task(source, source).is_video:
            yield name + ending
        elif video is None:
            yield f"{name}-{FRAME_NUMBER}{ending}"
        else:
            yield name + Path(ending).stem + video
