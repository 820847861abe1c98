"""Launches in processes of their own, seen from the outside: a process that stands in for the one with the GPU does them with NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UnsupportedError, UsageError
from gridstride.runtime import gpu_driver, gpu_launch, gpu_session, ncu
from gridstride.runtime.gpu_driver import Gpu
from gridstride.runtime.gpu_jobs import Job, JobResult, outputs_of, prepare, read_jobs, write_jobs, write_results
from gridstride.runtime.initial import Initial
from gridstride.runtime.request import Buffer, LaunchRequest, RawPointer, Scalar

GPU = Gpu(0, "NVIDIA H200", "sm_90", "13.0")
SOURCE = 'extern "C" __global__ void saxpy(int n, float a, const float *x, float *y, int *nothing) { y[threadIdx.x] += a * x[threadIdx.x]; }'
WORKER = "gridstride.runtime.gpu_launch"
COUNTERS = ("launch__grid_size", "gpu__time_duration.sum")


def request(name: str = "one") -> LaunchRequest:
    f32 = np.dtype(np.float32)
    arguments = (
        Scalar(np.int32(-2)),
        Scalar(np.float32(1.5)),
        Buffer(f32, (4,), Initial("arange")),
        Buffer(f32, (2, 2), Initial("ones"), out=True),
        RawPointer(0x1234),
    )
    return LaunchRequest(name, "saxpy", (1, 1, 1), (4, 1, 1), 16, arguments)


@pytest.fixture(scope="module")
def kernel() -> gs.Kernel:
    return gs.device("sim").compile(SOURCE)["saxpy"]


def test_a_launch_as_data(kernel: gs.Kernel, tmp_path: Path) -> None:
    job = prepare(tmp_path, request(), kernel, "sm_90")
    # The layout of parameters is C's: int, float, three pointers at multiples of 8.
    expected = np.array([-2], "<i4").tobytes() + np.array([1.5], "<f4").tobytes() + bytes(16) + np.array([0x1234], "<u8").tobytes()
    assert (job.entry, job.grid, job.block, job.shared) == ("saxpy", (1, 1, 1), (4, 1, 1), 16)
    assert (bytes.fromhex(job.parameters), job.offsets) == (expected, (0, 4, 8, 16, 24))
    assert [(b.position, b.offset, b.bytes, b.out) for b in job.buffers] == [(2, 8, 16, False), (3, 16, 16, True)]
    assert np.fromfile(tmp_path / str(job.buffers[0].file), np.float32).tolist() == [0, 1, 2, 3]
    assert job.code_kind == "cubin" and (tmp_path / job.code).read_bytes()[:4] == b"\x7fELF"
    write_jobs(tmp_path, [job])
    assert read_jobs(tmp_path) == [job]


def test_ptx_goes_to_the_driver_as_it_is(kernel: gs.Kernel, tmp_path: Path) -> None:
    ptx = kernel.module.ptx
    job = prepare(tmp_path, request(), gs.device("sim").compile(ptx)["saxpy"], "sm_75")
    assert job.code_kind == "ptx" and (tmp_path / job.code).read_text() == ptx


def test_an_architecture_that_the_compiler_does_not_know_wrong(kernel: gs.Kernel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this compiler has no target sm_30"):
        prepare(tmp_path, request(), kernel, "sm_30")


def stand_in(*, loses: str = "", dies_at: str = "") -> Callable[[Sequence[str], float], tuple[int, str]]:
    """A runner that does saxpy with NumPy; the launch called `loses` breaks its process's context, the one called `dies_at` ends it."""

    def run(command: Sequence[str], seconds: float) -> tuple[int, str]:
        folder = Path(command[command.index(WORKER) + 1])
        results: list[JobResult] = []
        for number, job in enumerate(read_jobs(folder)):
            if job.name == dies_at:
                return -11, "some talk\nSegmentation fault\n"
            if job.name == loses:
                results.append(JobResult(job.name, "CUDA_ERROR_ILLEGAL_ADDRESS", lost=True))
                write_results(folder, results)
                break
            x, y = (np.fromfile(folder / str(buffer.file), np.float32) for buffer in job.buffers)
            (y + np.float32(1.5) * x).tofile(folder / f"job{number}.3.out")
            results.append(JobResult(job.name, None, (3.0, 1.0, 2.0), {"3": f"job{number}.3.out"}))
            write_results(folder, results)
        return 0, ""

    return run


def jobs(folder: Path, kernel: gs.Kernel, *names: str) -> list[Job]:
    return [prepare(folder, request(name), kernel, "sm_90") for name in names]


def test_outputs_and_times_come_back(kernel: gs.Kernel, tmp_path: Path) -> None:
    found = gpu_session.launch_all(tmp_path, jobs(tmp_path, kernel, "one", "two"), GPU, stand_in())
    assert list(found) == ["one", "two"]
    assert found["two"].microseconds == (3.0, 1.0, 2.0)
    assert outputs_of(tmp_path, found["two"], request("two"))[3].tolist() == [[1, 2.5], [4, 5.5]]


def test_a_launch_that_breaks_the_context_stops_no_other(kernel: gs.Kernel, tmp_path: Path) -> None:
    found = gpu_session.launch_all(tmp_path, jobs(tmp_path, kernel, "one", "bad", "three", "four"), GPU, stand_in(loses="bad"))
    assert {name: result.error for name, result in found.items()} == {"one": None, "bad": "CUDA_ERROR_ILLEGAL_ADDRESS", "three": None, "four": None}
    files = {found[name].outputs["3"] for name in ("one", "three", "four")}
    assert len(files) == 3 and all((tmp_path / file).stat().st_size == 16 for file in files)


def test_nor_does_one_that_ends_the_process(kernel: gs.Kernel, tmp_path: Path) -> None:
    found = gpu_session.launch_all(tmp_path, jobs(tmp_path, kernel, "bad", "two"), GPU, stand_in(dies_at="bad"))
    assert found["bad"].error == "the process that launches on the GPU ended: Segmentation fault"
    assert found["two"].error is None


TABLE = '==PROF== Connected\n"ID","launch__grid_size","gpu__time_duration.sum"\n"","","ns"\n"0","1","2,400"\n"1","7","n/a"\n'


def profiler(*answers: str) -> tuple[Callable[[Sequence[str], float], tuple[int, str]], list[list[str]]]:
    """A runner that writes each answer to ncu's log in turn, and the commands it was given."""
    seen: list[list[str]] = []

    def run(command: Sequence[str], seconds: float) -> tuple[int, str]:
        Path(command[command.index("--log-file") + 1]).write_text(answers[len(seen)])
        seen.append(list(command))
        return 0, ""

    return run, seen


def test_counters_of_each_launch(kernel: gs.Kernel, tmp_path: Path) -> None:
    run, seen = profiler(TABLE)
    found = gpu_session.read_counters(tmp_path, jobs(tmp_path, kernel, "one", "two"), GPU, COUNTERS, "all", run, "/bin/ncu")
    assert found.missing is None
    assert found.counters == {"one": {"launch__grid_size": 1, "gpu__time_duration.sum": 2400}, "two": {"launch__grid_size": 7}}
    (command,) = seen
    assert command[0] == "/bin/ncu" and command[command.index("--metrics") + 1] == "launch__grid_size,gpu__time_duration.sum"
    assert command[command.index("--cache-control") + 1] == "all"
    assert command[-3:] == [str(tmp_path), "--gpu", "0"]  # without --time: one launch a job


def test_launches_are_never_given_counters_of_others(kernel: gs.Kernel, tmp_path: Path) -> None:
    run, _ = profiler(TABLE)
    found = gpu_session.read_counters(tmp_path, jobs(tmp_path, kernel, "one", "two", "three"), GPU, COUNTERS, "all", run, "ncu")
    assert (found.counters, found.missing) == ({}, "ncu saw 2 launches where 3 were made")


def test_without_permission(kernel: gs.Kernel, tmp_path: Path) -> None:
    run, _ = profiler("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n")
    found = gpu_session.read_counters(tmp_path, jobs(tmp_path, kernel, "one"), GPU, COUNTERS, "all", run, "ncu")
    assert found.missing == "the driver lets only administrators read counters here (ERR_NVGPUCTRPERM); run as root, or ask for the permission"


def test_without_ncu(kernel: gs.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    found = gpu_session.read_counters(tmp_path, jobs(tmp_path, kernel, "one"), GPU, COUNTERS, "all", stand_in())
    assert found.missing == "ncu (Nsight Compute) is not on PATH"


def test_commands_are_run_with_this_package_and_stopped_in_time() -> None:
    status, said = gpu_session.run_command([sys.executable, "-c", "import gridstride; print(gridstride.__file__)"], 60)
    assert (status, said.strip()) == (0, gs.__file__)
    assert gpu_session.run_command([sys.executable, "-c", "import time; time.sleep(60)"], 0.2) == (124, "stopped after 0 s")
    assert gpu_session.run_command(["/no/such/program"], 1) == (126, "/no/such/program cannot be run: No such file or directory")


def test_the_process_without_a_gpu_says_so() -> None:
    try:
        gpu_driver.find_gpu()
    except UnsupportedError as error:
        assert str(error).startswith("this needs an NVIDIA GPU")
        done = subprocess.run([sys.executable, "-m", "gridstride.runtime.gpu_launch", "."], capture_output=True, check=False)
        assert done.returncode != 0
    else:
        pytest.skip("there is a GPU here")


# ---- with a GPU ------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu() -> Gpu:
    try:
        return gpu_driver.find_gpu()
    except UnsupportedError as error:
        pytest.skip(str(error))


def test_on_a_gpu(kernel: gs.Kernel, gpu: Gpu, tmp_path: Path) -> None:
    good = prepare(tmp_path, request(), kernel, gpu.arch)
    null = LaunchRequest("null", "saxpy", (1, 1, 1), (4, 1, 1), 0, (*request().arguments[:3], RawPointer(0), RawPointer(0)))
    last = prepare(tmp_path, request("last"), kernel, gpu.arch)
    found = gpu_session.launch_all(tmp_path, [good, prepare(tmp_path, null, kernel, gpu.arch), last], gpu)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(found["null"].error)
    for name in ("one", "last"):
        assert outputs_of(tmp_path, found[name], request(name))[3].tolist() == [[1, 2.5], [4, 5.5]]
        assert len(found[name].microseconds) == gpu_launch.SAMPLES and min(found[name].microseconds) > 0


def test_ptx_that_is_too_new_on_a_gpu_wrong(kernel: gs.Kernel, gpu: Gpu, tmp_path: Path) -> None:
    ptx = "\n".join(".version 99.0" if line.startswith(".version") else line for line in kernel.module.ptx.splitlines())
    job = prepare(tmp_path, request(), kernel, gpu.arch)
    (tmp_path / "new.ptx").write_text(ptx)
    newer = Job(**{**job.__dict__, "code": "new.ptx", "code_kind": "ptx", "source": "k.ptx"})
    found = gpu_session.launch_all(tmp_path, [newer], gpu)
    assert found["one"].error == (
        f"k.ptx is PTX of version 99.0, which is newer than this GPU's driver knows (it speaks CUDA {gpu.cuda}): "
        "update the driver, or compare the CUDA source"
    )
