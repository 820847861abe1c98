"""Connecting to a cluster, or starting one; what stands in the way is said in a sentence."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gridstride.cluster.processes import Processes
from gridstride.cluster.spreading import Cluster, ClusterError
from gridstride.errors import UnsupportedError, UsageError

CONNECTING = 10.0
"""Seconds that a scheduler has to answer, and to have a worker."""

STARTING = 60.0
"""Seconds that a worker process of this machine has to start."""

DEATHS = 2
"""Workers that may die over a job in a local cluster before it is suspected; alone, it then has as many again."""

SAME_VERSIONS = ("gridstride", "dask", "distributed")
"""Packages that must have one version everywhere; of Python, the first two numbers."""


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
    """A scheduler in this process, and processes for the work."""
    import dask

    started = client = processes = None
    try:
        try:
            with dask.config.set({"distributed.scheduler.allowed-failures": DEATHS - 1}):
                started = distributed.LocalCluster(
                    n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
                )
            client = distributed.Client(started, set_as_default=False)
            processes = Processes(started.scheduler_address, workers)
            client.wait_for_workers(workers, timeout=STARTING)
        except (OSError, RuntimeError, TimeoutError) as error:
            raise ClusterError(f"{workers} worker processes cannot be started: {_one_line(error)}") from None
        yield Cluster(client, None)
    finally:
        if processes is not None:
            processes.end()
        for each in (client, started):
            if each is not None:
                with suppress(TimeoutError, OSError):
                    each.close(timeout=10)


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
        with suppress(TimeoutError, OSError):
            client.close(timeout=10)


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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
