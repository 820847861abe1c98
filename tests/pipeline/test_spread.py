"""Images over workers: the same files, the same JSON, the same words and exit status as in one process, whatever becomes of the workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from gridstride.cli import main, pipeline, pipeline_spread
from gridstride.errors import KernelFault, UsageError
from gridstride.pipeline import Parameters, batch, worker
from pipeline import cases, encode

distributed = pytest.importorskip("distributed")

TIMES = {"seconds", "pixels_per_second"}


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *map(str, arguments), "--device", "sim"])
    return int(ended.value.code or 0)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def made(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images of several kinds, one that is broken and one of samples that are not supported, in the current folder."""
    monkeypatch.chdir(tmp_path)
    inside = Path("in")
    inside.mkdir()
    for number, shape in enumerate([(40, 70, 3, 8), (9, 35, 1, 16), (1, 1, 4, 8), (64, 96, 3, 8), (33, 17, 3, 16)]):
        (inside / f"image{number}.png").write_bytes(encode.png(cases.image(*shape)))
    (inside / "image2-broken.png").write_bytes((inside / "image0.png").read_bytes()[:200])
    (inside / "image3-float.tif").write_bytes(encode.tiff(np.ones((3, 3, 1), np.float32), kind=3))
    return inside


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a running cluster: a worker of two threads, in this process."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as running:
        yield running.scheduler_address


def told(shown: str) -> list[str]:
    """What is printed, without times: of tables' rows the stage, its error and the verdict."""
    lines = [line.rstrip() for line in shown.splitlines() if line[:1] not in "┏┡├└┃"]
    return [",".join(line.split("│")[1:5]) if line.startswith("│") else line for line in lines if not line.startswith("Beside the stages")]


def test_workers_do_as_one_process_does(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "-o", "one", "--json", "one.json") == 3
    alone = capfd.readouterr()
    assert call(folder, "-o", "two", "--json", "two.json", "--workers", 2) == 3
    spread = capfd.readouterr()
    assert made(Path("one")) == made(Path("two")) and len(made(Path("two"))) == 5
    one, two = (without_times(json.loads(Path(name).read_text())) for name in ("one.json", "two.json"))
    assert json.loads(json.dumps(two).replace("two/", "one/")) == one
    assert spread.err == alone.err and spread.err.count("\n") == 2
    assert [line.replace("two/", "one/") for line in told(spread.out)] == told(alone.out)


@pytest.mark.parametrize("shared", [True, False])
def test_running_cluster_does_as_one_process_does(
    folder: Path, scheduler: str, shared: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "usable", lambda: (("fused", "reference"), {}))  # `cub` takes half a minute to compile
    assert call(folder, "-o", "one", "--json", "one.json", "--impl", "all") == 3
    alone = capfd.readouterr()
    sent: list[bool] = []
    probe = pipeline_spread._shared
    monkeypatch.setattr(pipeline_spread, "_shared", lambda *given: sent.append(probe(*given)) or shared)
    assert call(folder, "-o", "two", "--json", "two.json", "--impl", "all", "--cluster", scheduler) == 3
    spread = capfd.readouterr()
    assert sent == [True]  # this process shares its files with itself
    assert made(Path("one")) == made(Path("two")) and len(made(Path("two"))) == 5
    one, two = (without_times(json.loads(Path(name).read_text())) for name in ("one.json", "two.json"))
    assert json.loads(json.dumps(two).replace("two/", "one/")) == one
    assert spread.err == alone.err
    assert spread.out.count("agree bit for bit") == 5


def test_files_that_a_worker_does_not_see_are_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mine")
    (tmp_path / "image.png").write_bytes(b"12345")
    assert worker.sees(tmp_path, "token", "mine", [(tmp_path / "image.png", 5)])
    assert not worker.sees(tmp_path, "token", "another's", [])
    assert not worker.sees(tmp_path, "no token", "mine", [])
    assert not worker.sees(tmp_path, "token", "mine", [(tmp_path / "image.png", 6)])
    assert not worker.sees(tmp_path, "token", "mine", [(tmp_path / "missing.png", 5)])


def test_resume_skips_what_workers_have_done(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "image2-broken.png").unlink()
    (folder / "image3-float.tif").unlink()
    assert call(folder, "-o", "out") == 0
    (Path("out") / "image3-edges.png").unlink()
    capfd.readouterr()
    assert call(folder, "-o", "out", "--workers", 1, "--resume") == 0
    assert capfd.readouterr().out.startswith("4 of 5 images are done and unchanged: skipped.\n") and len(made(Path("out"))) == 5


def test_standard_input_and_output(folder: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert call(folder / "image0.png", "-o", "one.png") == 0
    capfdbinary.readouterr()
    with (folder / "image0.png").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert call("-", "-o", "-", "--cluster", scheduler) == 0
    assert capfdbinary.readouterr().out == Path("one.png").read_bytes()


def big(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:02}.png").write_bytes(encode.png(np.roll(cases.image(400, 500, 3, 8), number, 0)))


def test_worker_that_is_killed_is_no_loss(tmp_path: Path) -> None:
    big(tmp_path / "in", 12)
    assert call(tmp_path / "in", "-o", tmp_path / "one") == 0
    killed: list[int] = []

    def kill() -> None:
        """One of the workers, when the first image is written."""
        while not list((tmp_path / "two").glob("*.png")):
            time.sleep(0.005)
        workers = [child for child in psutil.Process().children() if "gridstride.cluster.process" in " ".join(child.cmdline())]
        workers[0].kill()
        killed.append(len(list((tmp_path / "two").glob("*.png"))))

    killer = threading.Thread(target=kill)
    killer.start()
    assert call(tmp_path / "in", "-o", tmp_path / "two", "--workers", 2) == 0
    killer.join()
    assert killed[0] < 12  # in the middle
    assert made(tmp_path / "one") == made(tmp_path / "two")


def test_interrupt_ends_workers_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    big(tmp_path / "in", 40)
    command = [sys.executable, "-m", "gridstride.cli", "pipeline", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--workers", "2", "--device", "sim"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not list((tmp_path / "out").glob("*.png")):
            assert running.poll() is None
            time.sleep(0.01)
        assert len(list(psutil.Process(running.pid).children())) >= 2
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does, to all of them
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (running.returncode, err) == (130, "gridstride: interrupted\n")
    deadline = time.monotonic() + 10  # Python's own watcher of shared resources ends a moment later
    while time.monotonic() < deadline and (left := [pid for pid in psutil.pids() if session_of(pid) == running.pid]):
        time.sleep(0.05)
    assert left == []
    written = list((tmp_path / "out").iterdir())
    assert 0 < len(written) < 40
    for file in written:
        task = batch.Task(tmp_path / "in" / file.name.replace("-edges", ""), file)
        assert batch.is_done(task, Parameters())


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def test_an_error_of_all_images_is_said_once(folder: Path, scheduler: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", str(folder), "-o", "out", "--cluster", scheduler, "--device", "sim:nothing"])
    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert said.startswith("gridstride: ") and "nothing" in said and said.count("\n") == 1
    assert not Path("out").exists()


def test_kernel_that_is_stopped_is_said_by_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The errors of a device have more in them than their words; they must come over all the same."""
    import pickle

    fault = pickle.loads(pickle.dumps(KernelFault("blur_rows was stopped", "trap")))
    assert (str(fault), fault.code, fault.exit_status) == ("blur_rows was stopped", "trap", 1)


def test_together_wrong(folder: Path) -> None:
    for options, message in [
        ({"workers": 2, "cluster": "tcp://127.0.0.1:1"}, "--workers starts a cluster, --cluster takes one that runs: give one of them"),
        ({"workers": 2, "stream": True}, "--stream is for one process; workers read, compute and write beside each other without it"),
    ]:
        with pytest.raises(UsageError) as caught:
            pipeline.command([folder], device="sim", **options)
        assert str(caught.value) == message
