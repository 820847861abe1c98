"""Jobs handed to a cluster, few at a time, and their results."""

from __future__ import annotations

import pickle
import queue
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from gridstride.errors import GridstrideError

J = TypeVar("J")
R = TypeVar("R")

AHEAD = 2
"""Jobs that each thread of a worker has at once, at most: the one it does, and the next one."""

WITHOUT_WORKERS = 30.0
"""Seconds without any worker after which nobody is waited for any more."""

_ASKING = 1.0
"""Seconds to wait for a job before the scheduler is asked whether it has workers."""

_FETCHING = 10.0
"""Seconds for a result to come from its worker before it is asked whether it is still there."""


class ClusterError(GridstrideError):
    """A cluster that cannot be used, or not any more."""

    code = "cluster"


class Cluster:
    """A connection to a scheduler: the one at `address`, or (None) one of this process. threads: of all workers."""

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


def _opener() -> Callable[[bytes], Any]:
    """What runs a pickled function on its pickled job. It is defined in here, so that it travels as its code: a scheduler unpacks what it hands on,
    and need not have the function's module."""

    def run(packed: bytes) -> Any:
        import pickle

        function, job = pickle.loads(packed)
        return function(job)

    return run


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
            future = self._client.submit(_opener(), pickle.dumps((self._function, job)), key=f"gridstride-{self._run}-{self._number}", pure=False)
        self._jobs[future] = job
        future.add_done_callback(self._ended.put)

    def next(self) -> tuple[Any, Any, GridstrideError | None]:
        """Wait for any job."""
        while True:
            future = self._wait()
            failed = future.status == "error"
            try:
                result = future.exception(timeout=_FETCHING) if failed else future.result(timeout=_FETCHING)
            except TimeoutError:
                future.add_done_callback(self._ended.put)  # lost with its worker on the way here
                continue
            except CancelledError:
                raise self._lost() from None
            job = self._jobs.pop(future)
            return self._failed(job, result) if failed else (job, result, None)

    def _failed(self, job: Any, error: BaseException) -> tuple[Any, Any, GridstrideError | None]:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return job, None, ClusterError("each worker that began it died; it may need more memory than a worker has")
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "gridstride":
            raise ClusterError(f"a worker of {self._cluster} has no gridstride: install the same version there") from None
        raise error

    def _lost(self) -> ClusterError:
        return ClusterError(f"the connection to the scheduler of {self._cluster} was lost")

    def _wait(self) -> Any:
        """The next future that has a result or an error."""
        alone_since: float | None = None
        while True:
            try:
                future = self._ended.get(timeout=_ASKING)
            except queue.Empty:
                alone_since = None if self._has_workers() else alone_since or time.monotonic()
                if alone_since is not None and time.monotonic() - alone_since > WITHOUT_WORKERS:
                    raise ClusterError(f"{self._cluster} has had no worker for {WITHOUT_WORKERS:.0f} seconds") from None
                continue
            if future.status in ("finished", "error"):
                return future
            if future.status == "cancelled":
                raise self._lost()
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
