"""Launches on a GPU from the outside: in processes of their own, once by themselves and once under Nsight Compute."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gridstride
from gridstride.errors import UnsupportedError
from gridstride.runtime import ncu
from gridstride.runtime.gpu_driver import Gpu
from gridstride.runtime.gpu_jobs import RESULTS, Job, JobResult, read_results, write_jobs

SECONDS_A_JOB = 60
"""A process that has not made its launches after this long for each is stopped."""
_WORKER = "gridstride.runtime.gpu_launch"


@dataclass(frozen=True)
class Readings:
    """Counters by launch; `missing` says in a sentence why there are none, or not of every launch."""

    counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: str | None = None


Runner = Callable[[Sequence[str], float], "tuple[int, str]"]
"""Runs a command for at most so many seconds; its exit status and all that it printed."""


def run_command(command: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run a command that can import this package; a command that takes too long ends with status 124."""
    package = str(Path(gridstride.__file__).parent.parent)
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        done = subprocess.run(
            list(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"stopped after {seconds:.0f} s"
    except OSError as error:
        return 126, f"{command[0]} cannot be run: {error.strerror}"
    return done.returncode, done.stdout


def launch_all(folder: Path, jobs: Sequence[Job], gpu: Gpu, run: Runner = run_command) -> dict[str, JobResult]:
    """Make each launch for its outputs and its time; by name. A launch that breaks its process does not stop those after it."""
    results: dict[str, JobResult] = {}
    remaining = list(jobs)
    while remaining:
        write_jobs(folder, remaining)
        (folder / RESULTS).unlink(missing_ok=True)
        status, said = run(_worker(folder, gpu, "--time"), SECONDS_A_JOB * len(remaining))
        try:
            found = read_results(folder)
        except UnsupportedError:
            found = []
        if len(found) < len(remaining) and not (found and found[-1].lost):
            # The process ended inside the launch after the last that it told of.
            found.append(JobResult(remaining[len(found)].name, f"the process that launches on the GPU ended: {_last_line(said, status)}"))
        for job, result in zip(remaining, found, strict=False):
            # The next process would write files of the same names.
            kept = {position: f"{len(results)}.{file}" for position, file in result.outputs.items()}
            for position, file in result.outputs.items():
                (folder / file).replace(folder / kept[position])
            results[job.name] = JobResult(job.name, result.error, result.microseconds, kept, result.lost)
        remaining = remaining[len(found) :]
    return results


def read_counters(
    folder: Path, jobs: Sequence[Job], gpu: Gpu, metrics: Sequence[str], cache_control: str, run: Runner = run_command, profiler: str | None = None
) -> Readings:
    """Make each launch once under Nsight Compute and read `metrics`. What stands in the way is in the answer, not raised."""
    profiler = profiler or ncu.find_ncu()
    if profiler is None:
        return Readings(missing="ncu (Nsight Compute) is not on PATH")
    if not jobs:
        return Readings(missing="nothing ran on the GPU")
    log = folder / "ncu.csv"
    write_jobs(folder, jobs)
    status, said = run(ncu.command(profiler, metrics, log, cache_control, _worker(folder, gpu)), SECONDS_A_JOB * len(jobs))
    said += log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    launches = ncu.parse_csv(said)
    if any(launches):
        counters = ncu.by_job(launches, [job.name for job in jobs])
        return Readings(counters, None if counters else f"ncu saw {len(launches)} launches where {len(jobs)} were made")
    return Readings(missing=f"ncu was stopped: {said}" if status == 124 else ncu.complaint(said))


def _worker(folder: Path, gpu: Gpu, *options: str) -> list[str]:
    return [sys.executable, "-m", _WORKER, str(folder), "--gpu", str(gpu.index), *options]


def _last_line(said: str, status: int) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else f"status {status}"
