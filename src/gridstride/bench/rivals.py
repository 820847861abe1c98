"""What else runs saxpy on a CPU: NumPy, Numba's CUDA simulator, Oclgrind. Each in its own way, each checked first."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridstride.bench.cases import Array
from gridstride.bench.stats import Sample
from gridstride.errors import GridstrideError

DATA = Path(__file__).parent / "data"
_TIMEOUT = 300.0  # seconds; both simulators need a few


@dataclass(frozen=True)
class Rival:
    """How fast another simulator ran saxpy: threads per second, and what it was."""

    name: str
    version: str
    threads: int
    sample: Sample

    @property
    def rate(self) -> float:
        return self.threads / self.sample.median


def _repeat(repetitions: int, action: Callable[[], object]) -> Sample:
    action()
    seconds = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return Sample.of(seconds)


def numpy_expression(a: float, x: Array, y: Array, repetitions: int) -> Sample:
    """`a * x + y`, as people write it: a temporary and a new result each time."""
    factor = np.float32(a)
    return _repeat(repetitions, lambda: factor * x + y)


def numpy_in_place(a: float, x: Array, y: Array, repetitions: int) -> Sample:
    """The fastest NumPy has to offer for `y += a * x`: two calls into memory that is there already."""
    factor, scratch, result = np.float32(a), np.empty_like(x), np.empty_like(y)

    def update() -> None:
        np.multiply(x, factor, out=scratch)
        np.add(scratch, y, out=result)

    return _repeat(repetitions, update)


def numba_simulator(repetitions: int) -> Rival | str:
    """Run Numba's simulator in an interpreter of its own; a string says why it was skipped.

    GRIDSTRIDE_BENCH_NUMBA names a Python that has Numba, where this one has not.
    """
    python = os.environ.get("GRIDSTRIDE_BENCH_NUMBA", sys.executable)
    simulated = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    if subprocess.run([python, "-c", "import numba.cuda"], check=False, capture_output=True, env=simulated).returncode:
        return "numba is not installed (GRIDSTRIDE_BENCH_NUMBA can name a Python that has it)"
    threads = 4096
    command = [python, str(DATA / "numba_saxpy.py"), str(threads), str(repetitions)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT)
    if run.returncode:
        return f"numba's simulator failed: {run.stderr.strip().splitlines()[-1]}"
    answer = json.loads(run.stdout)
    if not answer["right"]:
        raise GridstrideError("Numba's simulator gave a wrong saxpy, so its time means nothing.")
    return Rival("Numba simulator", answer["version"], threads, Sample.of(answer["seconds"]))


def _oclgrind_file(threads: int, dump: bool) -> str:
    """A description of the launch in the form `oclgrind-kernel` reads: x counts up from 0, y is 0.5 everywhere."""
    size = 4 * threads
    arguments = ["<size=4 float>\n2.0", f"<size={size} float range=0:1:{threads - 1}>"]
    arguments += [f"<size={size} float fill=0.5{' dump' if dump else ''}>", f"<size=4 int>\n{threads}"]
    return "\n".join([str(DATA / "saxpy.cl"), "saxpy", f"{threads} 1 1", "256 1 1", "", *arguments, ""])


def parse_oclgrind_dump(text: str) -> list[float]:
    """The floats of a dumped buffer, which come one a line as `y[INDEX] = VALUE`."""
    found = re.findall(r"^\s*\w+\[(\d+)\] = (\S+)$", text, re.MULTILINE)
    values = {int(index): float(value) for index, value in found}
    return [values[index] for index in range(len(values))]


def oclgrind(repetitions: int, folder: Path) -> Rival | str:
    """Run Oclgrind on one thread; a string says why it was skipped.

    Start-up and the compilation of the kernel are taken off: the time is the difference between a large and a small launch.
    """
    program = shutil.which("oclgrind-kernel")
    if program is None:
        return "oclgrind-kernel is not on PATH (Debian and Ubuntu: apt-get install oclgrind)"
    small, large = 1 << 10, (1 << 10) + (1 << 18)

    def launch(threads: int, dump: bool = False) -> tuple[float, str]:
        description = folder / "saxpy.sim"
        description.write_text(_oclgrind_file(threads, dump))
        begin = time.perf_counter()
        command = [program, "--num-threads", "1", str(description)]
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT)
        seconds = time.perf_counter() - begin
        if run.returncode or "error" in run.stderr.lower():
            raise GridstrideError(f"Oclgrind failed on saxpy: {run.stderr.strip()[:200]}")
        return seconds, run.stdout

    if parse_oclgrind_dump(launch(small, dump=True)[1]) != [2.0 * i + 0.5 for i in range(small)]:
        raise GridstrideError("Oclgrind gave a wrong saxpy, so its time means nothing.")
    seconds = [launch(large)[0] - launch(small)[0] for _ in range(repetitions)]
    version = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout.strip().splitlines()
    return Rival("Oclgrind", version[0] if version else "Oclgrind", large - small, Sample.of(seconds))
