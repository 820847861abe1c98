"""Work spread over workers: every job's result once, few jobs at a time, lost workers' jobs done again, and what is said of clusters that cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cluster_jobs
from gridstride.cluster import Cluster, ClusterError, connecting, opened, processes, spreading
from gridstride.cluster.spreading import AHEAD
from gridstride.errors import UnsupportedError, UsageError
from gridstride.pipeline.worker import work

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def local() -> Iterator[Cluster]:
    with opened(workers=2) as found:
        yield found


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a running cluster: a worker of two threads, in this process."""
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0") as running:
        yield running.scheduler_address


def test_every_job_has_its_result(local: Cluster) -> None:
    assert sorted(local.spread(cluster_jobs.square, range(30))) == [(number, number * number, None) for number in range(30)]


def test_all_workers_work(local: Cluster) -> None:
    assert len({result for _, result, _ in local.spread(cluster_jobs.process, range(12))}) == 2


def test_few_jobs_are_taken_at_a_time(local: Cluster) -> None:
    taken = back = 0

    def jobs() -> Iterator[int]:
        nonlocal taken
        for number in range(40):
            taken += 1
            assert taken - back <= AHEAD * 2
            yield number

    for _ in local.spread(cluster_jobs.square, jobs()):
        back += 1
    assert back == 40


def test_job_of_a_worker_that_dies_is_done_again(local: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "die"
    file.touch()
    assert sorted(local.spread(cluster_jobs.die, [(number, file if number == 3 else None) for number in range(8)])) == [
        ((number, file if number == 3 else None), number, None) for number in range(8)
    ]
    assert not file.exists()


def test_job_that_kills_each_worker_is_given_up_and_no_other(local: Cluster) -> None:
    outcomes = {job[0]: (result, lost and str(lost)) for job, result, lost in local.spread(cluster_jobs.die, [(number, None) for number in (1, 2, -1, 3, 4)])}
    lost = outcomes.pop(-1)
    assert lost == (None, "each worker that began it died; it may need more memory than a worker has")
    assert outcomes == {number: (number, None) for number in (1, 2, 3, 4)}


def test_an_error_of_the_function_is_raised(local: Cluster) -> None:
    with pytest.raises(RuntimeError, match="is broken"):
        list(local.spread(cluster_jobs.broken, range(3)))
    assert list(local.spread(cluster_jobs.square, [3])) == [(3, 9, None)]  # the cluster is as good as before


def test_running_cluster(scheduler: str) -> None:
    with opened(address=scheduler) as found:
        assert found.threads == 2 and str(found) == f"the cluster at {scheduler}"
        assert sorted(found.spread(cluster_jobs.square, range(9))) == [(number, number * number, None) for number in range(9)]


WITHOUT_GRIDSTRIDE = "import sys; sys.modules.update(dict.fromkeys(('gridstride', 'cluster_jobs'))); from distributed.cli.{0} import main; main()"
"""A program of Dask's that cannot import what the jobs are made of."""


@pytest.fixture
def scheduler_elsewhere(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler in a process that has no gridstride, without workers."""
    file = tmp_path / "scheduler.json"
    with running("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard"):
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]


@contextmanager
def running(program: str, *arguments: object) -> Iterator[None]:
    command = [sys.executable, "-c", WITHOUT_GRIDSTRIDE.format(program), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_scheduler_needs_nothing_of_ours(scheduler_elsewhere: str) -> None:
    workers = processes.Processes(scheduler_elsewhere, 1)
    try:
        with opened(address=scheduler_elsewhere) as found:
            assert sorted(found.spread(cluster_jobs.square, range(5))) == [(number, number * number, None) for number in range(5)]
    finally:
        workers.end()


def test_worker_without_gridstride_wrong(scheduler_elsewhere: str) -> None:
    worker = ("dask_worker", scheduler_elsewhere, "--no-nanny", "--nthreads", "1", "--no-dashboard")
    with running(*worker), pytest.raises(ClusterError) as caught, opened(address=scheduler_elsewhere) as found:
        list(found.spread(work, [None, None]))
    assert str(caught.value) == f"a worker of the cluster at {scheduler_elsewhere} has no gridstride: install the same version there"


def test_scheduler_that_goes_away_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "WITHOUT_WORKERS", 2.0)
    local = distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0")
    address = local.scheduler_address
    with pytest.raises(ClusterError) as caught, opened(address=address) as found:
        for _ in found.spread(cluster_jobs.slow, range(100)):
            local.close()
    assert str(caught.value) in (
        f"the connection to the scheduler of the cluster at {address} was lost",
        f"the cluster at {address} has had no worker for 2 seconds",
    )


def test_nobody_answers_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECTING", 1.0)
    with pytest.raises(ClusterError) as caught, opened(address="tcp://127.0.0.1:9"):
        pass
    assert str(caught.value) == (
        "no Dask scheduler answers at tcp://127.0.0.1:9; start one with `dask scheduler` and name the address that it prints"
    )


def test_no_address_wrong() -> None:
    with pytest.raises(ClusterError, match=r"^ftp://nowhere is no address of a Dask scheduler, such as tcp://10\.0\.0\.1:8786: "), opened(address="ftp://nowhere"):
        pass


def test_no_workers_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECTING", 1.0)
    with distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0") as running:
        address = running.scheduler_address
        with pytest.raises(ClusterError) as caught, opened(address=address):
            pass
    assert str(caught.value) == f"the scheduler at {address} has no workers; start some with `dask worker {address}`"


def versions(**of_the_worker: str | None) -> dict[str, object]:
    here = {"python": "3.11.4.final.0", "gridstride": "0.1.0", "dask": "2026.8.0", "distributed": "2026.8.0"}
    scheduler = {name: version for name, version in here.items() if name != "gridstride"}
    return {"client": {"packages": here}, "scheduler": {"packages": scheduler}, "workers": {"tcp://10.0.0.2:1": {"packages": {**here, **of_the_worker}}}}


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"gridstride": None}, "the worker at tcp://10.0.0.2:1 has no gridstride: install version 0.1.0 there"),
        ({"gridstride": "0.0.9"}, "the worker at tcp://10.0.0.2:1 has gridstride 0.0.9, this process 0.1.0: they must be the same"),
        ({"distributed": "2024.1.0"}, "the worker at tcp://10.0.0.2:1 has distributed 2024.1.0, this process 2026.8.0: they must be the same"),
        ({"python": "3.12.1.final.0"}, "the worker at tcp://10.0.0.2:1 has python 3.12, this process 3.11: they must be the same"),
    ],
)
def test_versions_wrong(there: dict[str, str | None], message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        connecting._require_same_versions(versions(**there), "tcp://10.0.0.1:8786")
    assert str(caught.value) == message


def test_versions_of_no_importance() -> None:
    connecting._require_same_versions(versions(python="3.11.9.final.0"), "tcp://10.0.0.1:8786")


def test_dask_that_is_not_installed_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UnsupportedError) as caught, opened(workers=1):
        pass
    assert str(caught.value) == "work is spread over workers with Dask, which is not installed: pip install 'gridstride[cluster]'"


def test_what_is_asked_for_wrong() -> None:
    with pytest.raises(UsageError, match="^a cluster has at least 1 worker, not 0$"), opened(workers=0):
        pass
    with pytest.raises(UsageError, match="^name either the number of workers or the address of a scheduler$"), opened():
        pass
