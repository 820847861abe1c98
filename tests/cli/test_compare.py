"""`gridstride compare`: what it prints, writes and ends with. A process that stands in for the one with the GPU adds with NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride import cli
from gridstride.errors import UnsupportedError
from gridstride.runtime import gpu_driver, gpu_session, ncu
from gridstride.runtime.gpu_driver import Gpu
from gridstride.runtime.gpu_jobs import JobResult, read_jobs, write_results

SOURCE = """extern "C" __global__ void add(const float *x, float *y) { y[threadIdx.x] += x[threadIdx.x]; }
extern "C" __global__ void overrun(float *y) { y[threadIdx.x] = 1.0f; }
"""
ADD = ["k.cu", "add", "--grid", "1", "--block", "64", "--arg", "x=f32[64]:uniform", "--arg", "y=f32[64]:ones:out"]
WORKER = "gridstride.runtime.gpu_launch"
LOADS, STORES = (f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))

Answer = tuple[int, str, str]
Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)

    def ended(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as exit_:
            cli.main(["compare", *arguments])
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return ended


def put_in_place(monkeypatch: pytest.MonkeyPatch, *, error: float = 0.0, loads: int = 4, name: str = "NVIDIA H200", profiler: bool = True) -> None:
    """A GPU that adds (`error` too much in element 5), and a profiler that reads `loads` requests."""

    def stands_in(command: Sequence[str], seconds: float) -> tuple[int, str]:
        folder = Path(command[command.index(WORKER) + 1])
        jobs = read_jobs(folder)
        if "--log-file" in command:
            rows = "".join(f'"{number}","{loads}","2","1,234"\n' for number in range(len(jobs)))
            table = f'"ID","{LOADS}","{STORES}","gpu__time_duration.sum"\n"","","","ns"\n{rows}'
            Path(command[command.index("--log-file") + 1]).write_text(table)
            return 0, ""
        results = []
        for number, job in enumerate(jobs):
            x, y = (np.fromfile(folder / str(buffer.file), np.float32) for buffer in job.buffers)
            total = x + y
            total[5] += np.float32(error)
            total.tofile(folder / f"job{number}.1.out")
            results.append(JobResult(job.name, None, (9.0, 8.0, 10.0), {"1": f"job{number}.1.out"}))
        write_results(folder, results)
        return 0, ""

    monkeypatch.setattr("gridstride.cli.compare.find_gpu", lambda index: Gpu(index, name, "sm_90", "13.0"))
    monkeypatch.setattr(ncu, "find_ncu", lambda: "ncu" if profiler else None)
    monkeypatch.setattr(gpu_session.launch_all, "__defaults__", (stands_in,))
    monkeypatch.setattr(gpu_session.read_counters, "__defaults__", (stands_in, None))


class NoDriver:
    """The bindings where no driver is installed: they load, and the first call finds no library."""

    def cuInit(self, flags: int) -> Any:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")


def test_without_a_driver_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_driver, "load_driver", NoDriver)
    assert run(*ADD) == (
        3,
        "",
        "gridstride: this needs an NVIDIA GPU, and NVIDIA's driver is not installed here; `gridstride profile` shows the simulator's side alone\n",
    )


def test_without_the_bindings_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise UnsupportedError("this needs an NVIDIA GPU and the package cuda-bindings (`pip install cuda-bindings`)")

    monkeypatch.setattr(gpu_driver, "load_driver", missing)
    status, out, err = run(*ADD)
    assert (status, out) == (3, "")
    assert err.startswith("gridstride: this needs an NVIDIA GPU and the package cuda-bindings (`pip install cuda-bindings`); ")


def test_the_same_on_both(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, loads=4)
    status, out, err = run(*ADD)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert lines[0] == "sim:h200 and NVIDIA H200 (sm_90, driver for CUDA 13.0)"
    assert "output y (float32[64]): equal to the last bit" in lines
    assert f"global load requests exact 4 4 = {LOADS}" in lines  # two warps, two loads each
    assert f"global store requests exact 2 2 = {STORES}" in lines
    assert "exact counters: 2 of 2 equal" in lines


def test_an_exact_counter_differs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, loads=5)
    status, out, _ = run(*ADD)
    assert status == 1
    assert "add: differs" in out and "exact counters: 1 of 2 equal" in out


def test_an_output_differs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, error=0.25)
    status, out, _ = run(*ADD)
    assert status == 1
    assert "1 of 64 elements differ, the first at 5: simulator " in out
    status, out, _ = run(*ADD, "--tolerance", "0.25")
    assert status == 0
    assert "outputs: 0 of 1 equal to the last bit, 1 within the tolerance of 0.25" in out


def test_without_ncu_outputs_and_times_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, profiler=False)
    status, out, _ = run(*ADD)
    assert status == 0
    assert "No counters of the GPU: ncu (Nsight Compute) is not on PATH. Outputs and times only." in out
    assert "time: 9 µs (median of 3 by events, launch included); estimated " in out
    assert LOADS not in out


def test_the_simulator_takes_the_gpus_entry_of_the_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, name="NVIDIA GeForce RTX 4090")
    assert run(*ADD)[1].startswith("sim:rtx4090 and NVIDIA GeForce RTX 4090")
    put_in_place(monkeypatch, name="NVIDIA Unheard-of 7")
    out = run(*ADD)[1]
    assert out.startswith("sim:h200 and NVIDIA Unheard-of 7")
    assert "note: NVIDIA Unheard-of 7 is not in the device table: " in out
    assert run(*ADD, "--device", "sim:a100")[1].startswith("sim:a100 and NVIDIA Unheard-of 7")


def test_case_files_and_json(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_in_place(monkeypatch)
    shape = {"grid": [1, 1, 1], "block": [64, 1, 1]}
    y = ["buf", "f32", 64, "ones", {"out": True}]
    good = {"kernel": "add", **shape, "args": [["buf", "f32", 64, "arange", {}], y]}
    bad = {"name": "bad", "kernel": "overrun", **shape, "args": [["buf", "f32", 32, "ones", {}]]}
    (tmp_path / "c.json").write_text(json.dumps([{"name": "one", **good}, bad, {"name": "two", **good}]))
    status, out, _ = run("k.cu", "--cases", "c.json", "--json", "-")
    document = json.loads(out)
    one, bad, two = document["cases"]
    assert status == 1
    assert (one["verdict"], bad["verdict"], two["verdict"]) == ("same", "error", "same")
    assert "overrun" in bad["simulator_error"] and bad["outputs"] == []
    assert two["counters"][LOADS] == {"simulator": 4, "gpu": 4, "mark": "exact", "equal": True, "relative": 0.0}
    assert (two["gpu_us"], two["outputs"][0]["equal"], document["counters_missing"]) == (9.0, True, None)
    status, out, _ = run("k.cu", "--cases", "c.json", "--only", "two")
    assert status == 0 and "two (add): same" in out and "one" not in out


def test_usage_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch)
    assert run("k.cu", "--grid", "1", "--block", "1") == (
        2,
        "",
        "gridstride: say which kernel of the source to launch, or give --cases FILE\n",
    )
    assert run("k.cu", "add", "--grid", "1")[2] == "gridstride: --block is missing; a launch needs --grid and --block\n"
