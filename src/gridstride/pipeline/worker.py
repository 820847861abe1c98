"""One image on a worker of a cluster: a job in, what became of it out.

A worker keeps the device and the compiled kernels of the last choices, one for each of its threads, so that only its first image waits
for them. Jobs and results can be pickled; the arrays of an image stay where they were made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gridstride.errors import GridstrideError
from gridstride.pipeline import batch
from gridstride.pipeline.batch import ImageReport, Outcome, Task
from gridstride.pipeline.devices import device_for_images
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.inputs import STANDARD
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import EdgeResult


@dataclass(frozen=True)
class Setup:
    """What all images of a run have in common. device: a name as in `gs.device`; threads: processor cores for a launch; memory: as of `EdgePipeline`."""

    device: str
    threads: int
    parameters: Parameters
    impls: tuple[str, ...]
    memory: int | None = None


@dataclass(frozen=True)
class Job:
    """One image. file: its bytes, where the worker cannot read it itself; then the file of its edges comes back, too.

    folder: what relative paths are relative to, where the worker shares the file system but not the working directory.
    """

    setup: Setup
    task: Task
    file: bytes | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Done:
    """What became of a job. device: the name of the worker's; fatal: an error that every image would meet, such as a device that is not
    there; file: of the edges, to be written by who gave the bytes."""

    outcome: Outcome
    device: str = ""
    fatal: GridstrideError | None = None
    file: bytes | None = None


_warm = threading.local()


def work(job: Job) -> Done:
    """Do one image. What stops it is in the result."""
    try:
        pipelines, prepared = _pipelines(job.setup)
    except GridstrideError as error:
        return Done(Outcome(job.task), fatal=error)
    device = str(pipelines[0].device)
    if job.file is None:
        return Done(_light(_renamed(batch.process(_there(job), pipelines, prepared), job)), device)
    try:
        outcome, file = batch.made(job.task, job.file, pipelines, prepared, time.perf_counter())
    except GridstrideError as error:
        return Done(Outcome(job.task, failure=error), device)
    return Done(_light(outcome), device, file=file)


def sees(folder: Path, token: str, contents: str, inputs: Sequence[tuple[Path, int]]) -> bool:
    """Whether this worker shares the file system: it finds the token with its contents in the folder, and files of these sizes."""
    try:
        return (folder / token).read_text() == contents and all(path.stat().st_size == size for path, size in inputs)
    except OSError:
        return False


def _pipelines(setup: Setup) -> tuple[list[EdgePipeline], set[str]]:
    """The pipelines of this thread, and the layouts whose machine code is made."""
    if getattr(_warm, "setup", None) != setup:
        device = device_for_images(setup.device, setup.threads)
        _warm.pipelines = [EdgePipeline(device, setup.parameters, impl, setup.memory) for impl in setup.impls]
        _warm.prepared, _warm.setup = set[str](), setup
    return _warm.pipelines, _warm.prepared


def _there(job: Job) -> Task:
    """The task with paths that mean the same files on the worker."""
    return job.task if job.folder is None else Task(job.folder / job.task.source, job.folder / job.task.target)


def _renamed(outcome: Outcome, job: Job) -> Outcome:
    """The outcome with the paths as the user wrote them, also in what is said."""
    there, failure = outcome.task, outcome.failure
    if there == job.task:
        return outcome
    if failure is not None:
        for path, written in ((there.source, job.task.source), (there.target, job.task.target)):
            failure.args = tuple(part.replace(str(path), str(written)) if isinstance(part, str) else part for part in failure.args)
    return replace(outcome, task=job.task, reports=tuple(replace(report, task=job.task) for report in outcome.reports), failure=failure)


def _light(outcome: Outcome) -> Outcome:
    """The outcome without the images in it: nobody asks for them any more."""
    return replace(outcome, reports=tuple(replace(report, result=_histogram_of(report)) for report in outcome.reports))


def _histogram_of(report: ImageReport) -> EdgeResult:
    none = np.empty((0, 0), np.uint8)
    return EdgeResult(none, report.result.histogram, none, {}, report.impl)


def jobs(setup: Setup, tasks: Iterable[Task], *, send: bool, folder: Path | None) -> Iterable[Job | Outcome]:
    """A job for each task, made when it is asked for. send: files go to the worker and come back; standard input does in any case.

    A file that cannot be read gives its outcome instead.
    """
    for task in tasks:
        if not send and STANDARD not in (task.source, task.target):
            yield Job(setup, task, folder=folder)
            continue
        try:
            yield Job(setup, task, batch.file_of(task))
        except GridstrideError as error:
            yield Outcome(task, failure=error)
