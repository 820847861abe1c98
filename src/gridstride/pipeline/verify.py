"""Checking what a device computed, stage by stage, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.pipeline import reference
from gridstride.pipeline.images import Samples
from gridstride.pipeline.stages import STAGES, EdgeResult


@dataclass(frozen=True)
class StageCheck:
    """The verdict on one stage.

    max_error: largest difference from the reference: float64 for the float stages, on the scale of 0 to 255; the float32
    reference of the same operation order for the 8-bit edges (in levels) and the histogram (in pixels).
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


def verify(image: Samples, result: EdgeResult) -> tuple[StageCheck, ...]:
    """One check for each of `stages.STAGES`."""
    single = reference.run(image, np.float32)
    double = reference.run(image, np.float64)
    grey, rows, columns, sobel, last = STAGES
    edges_and_histogram = (
        StageCheck(last, _largest(result.edges, single.edges), 0.0, _unequal(result.edges, single.edges)),
        StageCheck(last, _largest(result.histogram, single.histogram), 0.0, _unequal(result.histogram, single.histogram)),
    )
    return (
        _float_stage(grey, result.grey, single.grey, double.grey),
        _float_stage(rows, result.blurred_rows, single.blurred_rows, double.blurred_rows),
        _float_stage(columns, result.blurred, single.blurred, double.blurred),
        _float_stage(sobel, result.magnitude, single.magnitude, double.magnitude),
        max(edges_and_histogram, key=lambda check: check.max_error),
    )


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
