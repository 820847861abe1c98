"""`gridstride pipeline` for videos: progress by frames, a line about each, and what is left out said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.text import Text

from gridstride.errors import GridstrideError
from gridstride.pipeline import batch
from gridstride.pipeline.batch import Task
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.video_job import VideoReport, process_video

VERIFICATION_FAILED = 1


def run(
    tasks: Sequence[Task],
    pipeline: EdgePipeline,
    progress: Progress,
    console: Console,
    complain: Callable[[object], None],
    entries: list[dict[str, Any]],
    *,
    graph: bool,
    check: bool,
    resume: bool,
) -> int:
    """Do all videos; returns the exit status. What concerns one video goes to `complain`, and the others are done."""
    status = 0
    for task in tasks:
        bar = progress.add_task(escape(task.source.name), total=None)

        def show(done: int, expected: int | None, bar: Any = bar) -> None:
            progress.update(bar, completed=done, total=None if expected is None else max(done, expected))

        try:
            report = process_video(task, pipeline, graph=graph, check=check, resume=resume, progress=show)
        except GridstrideError as error:
            complain(error)
            entries.append(batch.failure_as_json(task, error))
            status = max(status, error.exit_status)
            continue
        finally:
            progress.remove_task(bar)
        entries.append(report.as_json())
        if report.unlike:
            status = max(status, VERIFICATION_FAILED)
            complain(f"{task.source}: {len(report.unlike)} frames differ from the reference, frame {report.unlike[0]} first")
        if report.error is not None:
            status = max(status, report.error.exit_status)
            complain(report.error)
        console.print(Text(_line(report)), soft_wrap=True)
    return status


def _line(report: VideoReport) -> str:
    """What became of a video, in a sentence or two."""
    name = report.task.source.name
    if report.was_done:
        return f"{name}: done and unchanged: skipped."
    before = f", {report.skipped:,} more were done before and are unchanged" if report.skipped else ""
    checked = ", each checked against NumPy" if report.checked and report.frames else ""
    audio = " Its sound is left out." if report.has_audio else ""
    return (
        f"{name}: {report.frames:,} frames of {report.width} × {report.height}{checked}{before}; {float(report.rate):.6g} a second, "
        f"done at {report.frames / report.seconds:,.1f}/s. Edges: {report.task.target}.{audio}"
    )
