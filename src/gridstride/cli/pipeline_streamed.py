"""`gridstride pipeline --stream`: many images through a device, decoding, computing and encoding at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy.typing as npt
from rich.markup import escape
from rich.progress import Progress, TaskID

from gridstride.errors import GridstrideError
from gridstride.pipeline import batch
from gridstride.pipeline.batch import Task
from gridstride.pipeline.conveyor import conveyed
from gridstride.pipeline.images import Samples
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.results import EdgeResult
from gridstride.pipeline.streaming import keyed_outcomes

Noted = tuple[Samples, str]
Made = tuple[EdgeResult, str]


def run(
    tasks: Sequence[Task],
    pipeline: EdgePipeline,
    graph: bool,
    progress: Progress,
    shown: TaskID,
    complain: Callable[[object], None],
    entries: list[dict[str, Any]],
) -> tuple[int, str]:
    """Do all tasks; returns the exit status and a line about all of it. Entries of the JSON result are added to `entries` as images are done.

    What stops one image, a fault of its kernel too, goes to `complain`, and the others go on.
    """

    def compute(decoded: Iterable[tuple[Task, Noted]]) -> Generator[tuple[Task, Made | GridstrideError], None, None]:
        images: Iterator[tuple[tuple[Task, str], npt.NDArray[Any]]] = (((task, note), image) for task, (image, note) in decoded)
        for (task, note), result in keyed_outcomes(images, pipeline, graph=graph):
            yield task, result if isinstance(result, GridstrideError) else (result, note)

    status, pixels, done = 0, 0, 0
    histograms: dict[Task, list[int]] = {}

    def encode(task: Task, made: Made) -> None:
        result, note = made
        batch.encode(task, result.output, note)
        histograms[task] = result.histogram.tolist()

    start = time.perf_counter()
    for task, error in conveyed(tasks, lambda task: batch.decode(task, pipeline.parameters), compute, encode):
        progress.update(shown, advance=1, description=escape(task.source.name))
        if error is not None:
            complain(error)
            entries.append(batch.failure_as_json(task, error))
            status = max(status, error.exit_status)
            continue
        done += 1
        histogram = histograms.pop(task)
        pixels += sum(histogram)
        entries.append(
            {
                "image": str(task.source),
                "output": str(task.target),
                "implementation": pipeline.impl,
                "status": "ok",
                "error": None,
                "histogram": histogram,
            }
        )
    seconds = time.perf_counter() - start
    line = f"{done} images, {pixels / 1e6:,.1f} Mpixel in {seconds:,.1f} s: {done / seconds:,.1f} images/s, {pixels / 1e6 / seconds:,.1f} Mpixel/s."
    return status, line
