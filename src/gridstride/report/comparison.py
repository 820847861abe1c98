"""One launch on two devices: counter by counter and output by output, as data. Rendered by `comparison_text.py`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gridstride.observers.metrics.nsight import COUNTERS

SCHEMA = 1


@dataclass(frozen=True)
class CounterPair:
    """One counter of one launch. `mark`: exact, modelled or estimated. None where a side does not have it."""

    name: str
    plain: str
    mark: str
    simulator: float | None
    gpu: float | None

    @property
    def equal(self) -> bool | None:
        """Whether both say the same; None where one says nothing. Nsight prints ratios with two digits behind the point."""
        if self.simulator is None or self.gpu is None:
            return None
        if isinstance(self.simulator, int) and isinstance(self.gpu, int):
            return self.simulator == self.gpu
        return abs(self.simulator - self.gpu) <= 0.005 + 1e-9

    @property
    def relative(self) -> float | None:
        """How far the simulator is off, as a part of the GPU's value; None where that is 0 or a side is missing."""
        if self.simulator is None or not self.gpu:
            return None
        return (self.simulator - self.gpu) / self.gpu


@dataclass(frozen=True)
class OutputPair:
    """One output buffer of both sides. `differing`: elements that are not equal to the last bit; `first`: the first of them, by its index
    in memory order, with both values. `largest_relative`: of |a - b| / max(|a|, |b|); infinite where only one side is a number."""

    position: int
    name: str
    dtype: str
    count: int
    differing: int
    first: tuple[int, Any, Any] | None = None
    largest_relative: float = 0.0

    @property
    def equal(self) -> bool:
        return self.differing == 0

    def within(self, tolerance: float) -> bool:
        """Equal, or nowhere further apart than `tolerance`, relative."""
        return self.equal or self.largest_relative <= tolerance


@dataclass(frozen=True)
class CaseComparison:
    """One launch. simulator_error, gpu_error: why a side has nothing to compare. Times in microseconds: the simulator's estimate, the
    GPU's by events, one sample a launch."""

    name: str
    kernel: str
    simulator_error: str | None = None
    gpu_error: str | None = None
    counters: tuple[CounterPair, ...] = ()
    outputs: tuple[OutputPair, ...] = ()
    estimate_us: float | None = None
    gpu_us: tuple[float, ...] = ()

    @property
    def median_us(self) -> float | None:
        return statistics.median(self.gpu_us) if self.gpu_us else None

    def of_mark(self, mark: str) -> list[CounterPair]:
        """The counters with this mark that both sides have."""
        return [pair for pair in self.counters if pair.mark == mark and pair.equal is not None]

    def verdict(self, tolerance: float) -> Literal["same", "differs", "error"]:
        """error: a side has no result. differs: an output, or a counter that is marked exact."""
        if self.simulator_error or self.gpu_error:
            return "error"
        same = all(output.within(tolerance) for output in self.outputs) and all(pair.equal for pair in self.of_mark("exact"))
        return "same" if same else "differs"


@dataclass(frozen=True)
class Comparison:
    """All launches of one command. `not_read`: why the GPU's counters are missing; `cache_control`: what ncu did to caches between replays."""

    simulator: str
    gpu: str
    arch: str
    cuda: str
    cases: tuple[CaseComparison, ...]
    tolerance: float = 0.0
    not_read: str | None = None
    cache_control: str = "all"
    notes: tuple[str, ...] = field(default=())


def pair_counters(simulator: Mapping[str, float], marks: Mapping[str, str], gpu: Mapping[str, float]) -> tuple[CounterPair, ...]:
    """Every counter that a side has, in the order of the table of counters; without any from the GPU, nothing."""
    if not gpu:
        return ()
    known = [counter for counter in COUNTERS if counter.nsight in simulator or counter.nsight in gpu]
    return tuple(
        CounterPair(c.nsight, c.plain, marks.get(c.nsight, c.mark.value), simulator.get(c.nsight), gpu.get(c.nsight)) for c in known
    )


def compare_outputs(position: int, name: str, simulator: npt.NDArray[Any], gpu: npt.NDArray[Any]) -> OutputPair:
    """Compare two buffers of one type and size bit by bit."""
    ours, theirs = np.ascontiguousarray(simulator).reshape(-1), np.ascontiguousarray(gpu).reshape(-1)
    width = ours.dtype.itemsize
    different = (ours.view(np.uint8).reshape(-1, width) != theirs.view(np.uint8).reshape(-1, width)).any(axis=1)
    indices = np.flatnonzero(different)
    if not indices.size:
        return OutputPair(position, name, str(ours.dtype), ours.size, 0)
    first = int(indices[0])
    return OutputPair(
        position,
        name,
        str(ours.dtype),
        ours.size,
        int(indices.size),
        (first, ours[first].item(), theirs[first].item()),
        _largest_relative(ours[indices], theirs[indices]),
    )


def _largest_relative(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Largest |a - b| / max(|a|, |b|). Two NaNs of other bits are no distance apart, nor are the two zeros."""
    with np.errstate(all="ignore"):
        x, y = a.astype(np.longdouble), b.astype(np.longdouble)
        scale = np.maximum(np.abs(x), np.abs(y))
        apart = np.where(x == y, 0, np.abs(x - y) / scale)
    apart = np.where(np.isnan(x) & np.isnan(y), 0, apart)
    return float(np.where(np.isnan(apart), np.inf, apart).max())


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON: {"schema", "simulator", "gpu", "counters_missing", "cases": […]}."""
    return {
        "schema": SCHEMA,
        "simulator": comparison.simulator,
        "gpu": {"name": comparison.gpu, "arch": comparison.arch, "cuda": comparison.cuda},
        "tolerance": comparison.tolerance,
        "cache_control": comparison.cache_control,
        "counters_missing": comparison.not_read,
        "notes": list(comparison.notes),
        "cases": [_case_json(case, comparison.tolerance) for case in comparison.cases],
    }


def _case_json(case: CaseComparison, tolerance: float) -> dict[str, Any]:
    return {
        "name": case.name,
        "kernel": case.kernel,
        "verdict": case.verdict(tolerance),
        "simulator_error": case.simulator_error,
        "gpu_error": case.gpu_error,
        "estimate_us": case.estimate_us,
        "gpu_us": case.median_us,
        "gpu_samples_us": list(case.gpu_us),
        "counters": {
            pair.name: {"simulator": pair.simulator, "gpu": pair.gpu, "mark": pair.mark, "equal": pair.equal, "relative": pair.relative}
            for pair in case.counters
        },
        "outputs": [_output_json(output) for output in case.outputs],
    }


def _output_json(output: OutputPair) -> dict[str, Any]:
    first = None if output.first is None else dict(zip(("index", "simulator", "gpu"), output.first, strict=True))
    return {
        "position": output.position,
        "name": output.name,
        "type": output.dtype,
        "elements": output.count,
        "equal": output.equal,
        "differing": output.differing,
        "first": first,
        "largest_relative": output.largest_relative,
    }


def totals(cases: Sequence[CaseComparison], mark: str) -> tuple[int, int, float | None]:
    """Over all launches, of the counters of one mark: how many are equal, how many both sides have, and the median of |relative| of those
    where the GPU's is not 0."""
    pairs = [pair for case in cases for pair in case.of_mark(mark)]
    relative = [abs(pair.relative) for pair in pairs if pair.relative is not None]
    return sum(bool(pair.equal) for pair in pairs), len(pairs), statistics.median(relative) if relative else None
