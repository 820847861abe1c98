"""Work spread over a Dask cluster: one of this machine's processes, started and ended here, or one that runs already.

    with opened(workers=4) as cluster:
        for job, result, lost in cluster.spread(function, jobs):
            …

What the work is, nobody here knows: `function` is one of an installed module, a job and its result are anything that can be pickled.
"""

from __future__ import annotations

import logging
import queue
import signal
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from gridstride.errors import GridstrideError, UnsupportedError, UsageError

J = TypeVar("J")
R = TypeVar("R")

AHEAD = 2
"""Jobs that each thread of a worker has at once, at most: the one it does, and the next one."""

CONNECTING = 10.0
"""Seconds that a scheduler has to answer, and to have a worker."""

WITHOUT_WORKERS = 30.0
"""Seconds without any worker after which nobody is waited for any more."""

SAME_VERSIONS = ("gridstride", "dask", "distributed")
"""Packages that must have one version everywhere; of Python, the first two numbers."""


class ClusterError(GridstrideError):
    """A cluster that cannot be used, or not any more."""

    code = "cluster"


class Cluster:
    """A connection to a scheduler. address: None for a cluster of this machine's own; threads: of all workers."""

    def __init__(self, client: Any, address: str | None) -> None:
        self.client = client
        self.address = address
        self.threads = sum(client.nthreads().values())

    def __str__(self) -> str:
        return "the local cluster" if self.address is None else f"the cluster at {self.address}"

    def ask(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """What a short function says on each worker."""
        return list(self.client.run(function, *arguments).values())

    def spread(self, function: Callable[[J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R | None, GridstrideError | None]]:
        """Each job with its result, as they are done; `jobs` are taken as there is room, `AHEAD` for each thread of the workers.

        A job whose worker is lost is done again by another. One whose workers are lost again and again comes without a result and with the
        error that says so. Errors of `function` are raised, and end everything; so does a `ClusterError`, where no worker is left.
        """
        waiting = _Waiting(self, function)
        suspects: list[J] = []

        def ended() -> Iterator[tuple[J, R | None, GridstrideError | None]]:
            job, result, lost = waiting.next()
            if lost is None:
                yield job, result, lost
            else:
                suspects.append(job)

        try:
            for job in jobs:
                waiting.submit(job)
                if len(waiting) >= AHEAD * self.threads:
                    yield from ended()
            while len(waiting):
                yield from ended()
            # Dask blames a worker's death on all that it was given, also on what only stood behind: alone, each shows what it does.
            for job in suspects:
                waiting.submit(job)
                yield waiting.next()
        finally:
            waiting.cancel()


class _Waiting:
    """Jobs that were handed to a scheduler and have not come back."""

    def __init__(self, cluster: Cluster, function: Callable[..., Any]) -> None:
        self._cluster, self._client, self._function = cluster, cluster.client, function
        self._jobs: dict[Any, Any] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._run = uuid.uuid4().hex
        self._number = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, job: Any) -> None:
        self._number += 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a job may hold a file: the scheduler can send it again when a worker is lost
            future = self._client.submit(self._function, job, key=f"gridstride-{self._run}-{self._number}", pure=False)
        self._jobs[future] = job
        future.add_done_callback(self._ended.put)

    def next(self) -> tuple[Any, Any, GridstrideError | None]:
        """Wait for any job."""
        from distributed import KilledWorker

        future = self._wait()
        job = self._jobs.pop(future)
        try:
            return job, future.result(), None
        except KilledWorker:
            return job, None, ClusterError("each worker that began it died; it may need more memory than a worker has")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "gridstride":
                raise
            raise ClusterError(f"a worker of {self._cluster} has no gridstride: install the same version there") from None

    def _wait(self) -> Any:
        """The next future that has a result or an error."""
        alone_since: float | None = None
        while True:
            try:
                future = self._ended.get(timeout=1.0)
            except queue.Empty:
                alone_since = None if self._has_workers() else alone_since or time.monotonic()
                if alone_since is not None and time.monotonic() - alone_since > WITHOUT_WORKERS:
                    raise ClusterError(f"{self._cluster} has had no worker for {WITHOUT_WORKERS:.0f} seconds") from None
                continue
            if future.status in ("finished", "error"):
                return future
            if future.status == "cancelled":
                raise ClusterError(f"the connection to the scheduler of {self._cluster} was lost")
            future.add_done_callback(self._ended.put)  # its result was lost with a worker, and is being made again

    def _has_workers(self) -> bool:
        if self._client.status != "running":
            return False
        with suppress(OSError, TimeoutError):
            return bool(self._client.sync(self._client.scheduler.ncores, callback_timeout=5))
        return False

    def cancel(self) -> None:
        """Give up what has not begun."""
        if self._jobs and self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(list(self._jobs), force=True)
        self._jobs.clear()


@contextmanager
def opened(*, workers: int | None = None, address: str | None = None) -> Iterator[Cluster]:
    """A cluster for a `with` block: of `workers` processes with one thread each, which end with it, or the one whose scheduler is at `address`.

    Raises `UnsupportedError` where Dask is not installed, `ClusterError` where nobody answers, no worker is there, or versions differ.
    """
    if (workers is None) == (address is None):
        raise UsageError("name either the number of workers or the address of a scheduler")
    if workers is not None and workers < 1:
        raise UsageError(f"a cluster has at least 1 worker, not {workers}")
    try:
        import distributed
    except ImportError:
        raise UnsupportedError("work is spread over workers with Dask, which is not installed: pip install 'gridstride[cluster]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is raised; a worker that is lost is no news
    with _local(distributed, workers) if workers is not None else _running(distributed, str(address)) as cluster:
        yield cluster


@contextmanager
def _local(distributed: Any, workers: int) -> Iterator[Cluster]:
    started = client = None
    try:
        try:
            with _interrupts_held(), _quiet_workers():
                started = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
                client = distributed.Client(started, set_as_default=False)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ClusterError(f"{workers} worker processes cannot be started: {_one_line(error)}") from None
        yield Cluster(client, None)
    finally:
        for each in (client, started):
            if each is not None:
                each.close(timeout=5)


@contextmanager
def _running(distributed: Any, address: str) -> Iterator[Cluster]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions that differ, which `_require_same_versions` says in a sentence
            client = distributed.Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, TimeoutError):
        raise ClusterError(f"no Dask scheduler answers at {address}; start one with `dask scheduler` and name the address that it prints") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(f"{address} is no address of a Dask scheduler, such as tcp://10.0.0.1:8786: {_one_line(error)}") from None
    try:
        try:
            client.wait_for_workers(1, timeout=CONNECTING)
        except TimeoutError:
            raise ClusterError(f"the scheduler at {address} has no workers; start some with `dask worker {address}`") from None
        versions = client.get_versions(packages=["gridstride"])
        _require_same_versions(versions, address)
        yield Cluster(client, address)
    finally:
        client.close(timeout=5)


def _require_same_versions(versions: dict[str, Any], address: str) -> None:
    """Raise `ClusterError` where the scheduler or a worker has other versions than this process."""
    here = versions["client"]["packages"]
    places = {f"the scheduler at {address}": versions["scheduler"]}
    places |= {f"the worker at {worker}": found for worker, found in versions["workers"].items()}
    for place, found in places.items():
        there = found["packages"]
        works = found is not versions["scheduler"]
        if works and there.get("gridstride") is None:
            raise ClusterError(f"{place} has no gridstride: install version {here['gridstride']} there")
        for name in ("python", *SAME_VERSIONS):
            if name == "gridstride" and not works:
                continue  # a scheduler runs nothing of it
            ours, theirs = here[name], there.get(name)
            if name == "python":
                ours, theirs = (".".join(str(version).split(".")[:2]) for version in (ours, theirs))
            if ours != theirs:
                raise ClusterError(f"{place} has {name} {theirs}, this process {ours}: they must be the same")


@contextmanager
def _quiet_workers() -> Iterator[None]:
    """Workers that are started inside write no log."""
    import dask

    key = "distributed.nanny.pre-spawn-environ"
    with dask.config.set({key: {**dask.config.get(key, {}), "DASK_LOGGING__DISTRIBUTED": "critical"}}):
        yield


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block has ended, and never reaches threads and processes that are started inside.

    A terminal sends it to the workers, too, which would die with a traceback each; they are ended when this process has been told.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # would let interrupts through again in the thread that first starts a process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
