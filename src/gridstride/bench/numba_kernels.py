"""Python kernels on Gridstride and on Numba's own simulator, by the same lines: how much faster the one is than the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gridstride.bench import environment
from gridstride.bench.results import Goal, Options
from gridstride.bench.stats import Sample
from gridstride.errors import GridstrideError, UsageError

SCRIPT = Path(__file__).parent / "data" / "numba_kernels.py"
NUMBA, GRIDSTRIDE = "numba", "gridstride"
_TIMEOUT = 600.0  # seconds


@dataclass(frozen=True)
class Comparison:
    """One kernel, the sizes it is run at (a simulator that is slow cannot take a large one), and the bound that was set.

    work: what a launch of a size does, as a number that grows as its time does, of `unit`.
    """

    kernel: str
    sizes: dict[str, int]
    work: Callable[[int], int]
    unit: str
    bound: int


COMPARISONS = (
    Comparison("saxpy", {NUMBA: 4096, GRIDSTRIDE: 16 << 20}, lambda n: n, "threads/s", 20_000),
    Comparison("matmul", {NUMBA: 32, GRIDSTRIDE: 512}, lambda n: n**3, "multiply-adds/s", 2_000),
)
"""The product of matrices has tiles of 16 × 16 in shared memory; sides are multiples of that."""


@dataclass(frozen=True)
class Measured:
    """One kernel on both; `samples` and `rates` by what ran it, work of a launch over the median of its times."""

    comparison: Comparison
    sizes: dict[str, int]
    samples: dict[str, Sample]
    versions: dict[str, str]

    def rate(self, by: str) -> float:
        return self.comparison.work(self.sizes[by]) / self.samples[by].median

    @property
    def times(self) -> float:
        """How many times as fast Gridstride is."""
        return self.rate(GRIDSTRIDE) / self.rate(NUMBA)

    def goal(self) -> Goal:
        bound = self.comparison.bound
        return Goal(f"{self.comparison.kernel} at least {bound:,} times as fast as Numba's simulator", f"{self.times:,.0f}", self.times >= bound)


@dataclass
class NumbaResults:
    """Everything one run found."""

    environment: dict[str, str]
    options: Options
    measured: list[Measured] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.errors)

    def goals(self) -> list[Goal]:
        return [one.goal() for one in self.measured]


def run(options: Options, progress: Callable[[str], None] = lambda step: None) -> NumbaResults:
    """Measure on one core, each launch in an interpreter of its own kind, its result verified. Raises UsageError for a kernel that is not there."""
    known = [comparison.kernel for comparison in COMPARISONS]
    for name in options.only:
        if name not in known:
            raise UsageError(f"there is no kernel {name!r} to compare with Numba's simulator; there are {', '.join(known)}")
    results = NumbaResults(environment.describe(), options)
    with environment.one_core():
        for comparison in COMPARISONS:
            if not options.only or comparison.kernel in options.only:
                try:
                    results.measured.append(_measure(comparison, options, progress))
                except GridstrideError as error:
                    results.errors.append(str(error))
    results.environment["load after"] = environment.load()
    return results


def _measure(comparison: Comparison, options: Options, progress: Callable[[str], None]) -> Measured:
    sizes = dict(comparison.sizes)
    if options.quick:
        sizes[GRIDSTRIDE] //= 2 if comparison.kernel == "matmul" else 8
    repetitions = 3 if options.quick else options.repetitions
    samples, versions = {}, {}
    for by in (GRIDSTRIDE, NUMBA):
        progress(f"{comparison.kernel} by {by}")
        samples[by], versions[by] = time_in_process(by, comparison.kernel, sizes[by], repetitions)
    return Measured(comparison, sizes, samples, versions)


def time_in_process(by: str, kernel: str, size: int, repetitions: int) -> tuple[Sample, str]:
    """Processor seconds of each launch, and what ran it. Raises GridstrideError where it fails or its result is wrong."""
    environ = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, str(SCRIPT), by, kernel, str(size), str(repetitions)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT, env=environ)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
        raise GridstrideError(f"{kernel} by {by} failed: {last}")
    answer = json.loads(done.stdout)
    if not answer["right"]:
        raise GridstrideError(f"{kernel} by {by} gave a wrong result, so its time means nothing")
    return Sample.of(answer["seconds"]), answer["version"]
