"""Checking what a device computed, stage by stage, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.pipeline import reference
from gridstride.pipeline.images import Samples
from gridstride.pipeline.parameters import DEFAULT, Parameters
from gridstride.pipeline.results import CONVERSION, STAGE_OF, STAGES, EdgeResult


@dataclass(frozen=True)
class StageCheck:
    """The verdict on one stage.

    max_error: largest difference from the reference: float64 for the float stages, on the scale of 0 to 255; the float32
    reference of the same operation order for the 8-bit edges (in levels), the histogram (in pixels) and the output.
    tolerance: what `max_error` may reach. differing: values whose bits are not those of the float32 reference, as a fact beside
    the verdict.
    """

    stage: str
    max_error: float
    tolerance: float
    differing: int

    @property
    def passed(self) -> bool:
        return self.max_error <= self.tolerance  # false for a NaN, too


def verify(image: Samples, result: EdgeResult, parameters: Parameters = DEFAULT) -> tuple[StageCheck, ...]:
    """One check for each of `STAGES` that the result holds, and one for the output where that is not the edges."""
    single = reference.run(image, np.float32, parameters)
    double = reference.run(image, np.float64, parameters)
    checks = [_float_stage(STAGE_OF[name], got, getattr(single, name), getattr(double, name)) for name, got in result.floats.items()]
    edges_and_histogram = (_exact(STAGES[-1], result.edges, single.edges), _exact(STAGES[-1], result.histogram, single.histogram))
    checks.append(max(edges_and_histogram, key=lambda check: check.max_error))
    if not parameters.plain:
        checks.append(_exact(CONVERSION, result.output, single.output))
    return tuple(checks)


def _exact(stage: str, got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> StageCheck:
    return StageCheck(stage, _largest(got, expected), 0.0, _unequal(got, expected))


def _float_stage(stage: str, got: npt.NDArray[Any], single: npt.NDArray[Any], double: npt.NDArray[Any]) -> StageCheck:
    same_bits = got.view(np.uint32) == single.view(np.uint32)
    return StageCheck(stage, _largest(got, double), reference.TOLERANCE, int(got.size - np.count_nonzero(same_bits)))


def _largest(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """The largest difference; NaN where there is one, infinite where the shapes differ."""
    if got.shape != expected.shape:
        return float("inf")
    return float(np.max(np.abs(got.astype(np.float64) - expected)))


def _unequal(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> int:
    return int(np.count_nonzero(got != expected)) if got.shape == expected.shape else got.size
