"""`gridstride pipeline --workers N | --cluster ADDRESS`: images spread over the workers of a Dask cluster."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gridstride import cluster
from gridstride.cluster import Cluster
from gridstride.errors import GridstrideError
from gridstride.pipeline import batch, worker
from gridstride.pipeline.batch import Outcome, Task
from gridstride.pipeline.inputs import STANDARD
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.worker import Done, Job, Setup


@dataclass(frozen=True)
class Where:
    """Workers to be started, or the address of a scheduler; one of them is None."""

    workers: int | None
    address: str | None


class SpreadPipelines:
    """What `EdgePipeline`s are to a single process. device: an option's name; threads: of each worker for a launch, None for its share."""

    def __init__(self, where: Where, device: str, threads: int | None, parameters: Parameters, impls: Sequence[str], memory: int | None = None) -> None:
        self.parameters = parameters
        self._where = where
        if threads is None:
            threads = 1 if where.workers is None else max(1, _processors() // where.workers)
        self._setup = Setup(device, threads, parameters, tuple(impls), memory)
        self._devices: dict[str, None] = {}

    @property
    def device(self) -> str:
        """The name of the workers' device, or of all that there are; until one has told it, what was asked for."""
        return ", ".join(self._devices) or self._setup.device

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Each task's outcome when it is done, in no order. Raises `GridstrideError` for what concerns all of them."""
        with cluster.opened(workers=self._where.workers, address=self._where.address) as opened:
            send, folder = (False, None) if self._where.address is None else (not _shared(opened, tasks), Path.cwd())
            unread: list[Outcome] = []

            def readable() -> Iterator[Job]:
                for made in worker.jobs(self._setup, tasks, send=send, folder=folder):
                    if isinstance(made, Job):
                        yield made
                    else:
                        unread.append(made)

            for job, done, lost in opened.spread(worker.work, readable()):
                yield self._outcome(job, done, lost)
                while unread:
                    yield unread.pop()
            yield from unread

    def _outcome(self, job: Job, done: Done | None, lost: GridstrideError | None) -> Outcome:
        if done is None:
            assert lost is not None
            return Outcome(job.task, failure=cluster.ClusterError(f"{job.task.source}: {lost}"))
        if done.fatal is not None:
            raise done.fatal
        self._devices.setdefault(done.device)
        if done.file is not None and done.outcome.failure is None:
            try:
                batch.write(job.task, done.file)
            except GridstrideError as error:
                return Outcome(job.task, failure=error)
        return done.outcome


def in_order(outcomes: Iterator[Outcome], tasks: Sequence[Task]) -> Iterator[list[Outcome]]:
    """For each outcome that comes, those that can be told now, in the tasks' order: all tasks before them are done."""
    held: dict[Task, Outcome] = {}
    following = 0
    for outcome in outcomes:
        held[outcome.task] = outcome
        ready = []
        while following < len(tasks) and tasks[following] in held:
            ready.append(held.pop(tasks[following]))
            following += 1
        yield ready


def _shared(opened: Cluster, tasks: Sequence[Task]) -> bool:
    """Whether all workers see the files of this machine: those of each folder of images (one of them stands for all), and a new one
    where the edges go."""
    first_of = {task.source.parent: task.source for task in reversed(tasks) if task.source != STANDARD and task.source.is_file()}
    inputs = [(path.absolute(), path.stat().st_size) for path in first_of.values()]
    folder = next((task.target.parent.absolute() for task in tasks if task.target != STANDARD), Path.cwd())
    token, contents = f".gridstride-{uuid.uuid4().hex}", uuid.uuid4().hex
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / token).write_text(contents)
        return all(opened.ask(worker.sees, folder, token, contents, inputs))
    except OSError:
        return False  # written here, image by image, it is said what is wrong
    finally:
        with suppress(OSError):
            (folder / token).unlink()
            folder.rmdir()  # unless it holds something: a run that makes nothing leaves nothing


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
