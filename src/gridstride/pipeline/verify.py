"""Checking what a device computed, stage by stage, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.pipeline import reference
from gridstride.pipeline.images import Samples
from gridstride.pipeline.parameters import DEFAULT, Parameters
from gridstride.pipeline.results import BINS, CONVERSION, LIBRARY, STAGE_OF, STAGES, EdgeResult
from gridstride.pipeline.tiles import tiles

_PIXELS_AT_ONCE = 1 << 21


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
    """One check for each of `STAGES` that the result holds, and one for the output where that is not the edges.

    `library` has bits of its own: its 8-bit edges and its output must be what a stage within the tolerance is rounded to, and its histogram that of
    its own edges. The references are made for a part of the image at a time, so that memory does not grow with it.
    """
    height, width = image.shape[:2]
    arrays = {name: (STAGE_OF[name], reference.TOLERANCE) for name in result.floats} | {"edges": (STAGES[-1], 0.0)}
    if not parameters.plain:
        arrays["output"] = (CONVERSION, 0.0)
    own_bits = result.impl == LIBRARY
    largest, differing = dict.fromkeys(arrays, 0.0), dict.fromkeys(arrays, 0)
    histogram = np.zeros(BINS, np.uint32)
    rows = max(_PIXELS_AT_ONCE // width, parameters.halo)
    for tile in tiles(height, width, parameters.halo, rows, max(1, min(width, _PIXELS_AT_ONCE))):
        single = reference.run(image[tile.read], np.float32, parameters)
        double = reference.run(image[tile.read], np.float64, parameters) if result.floats or own_bits else None
        for name, (_, tolerance) in arrays.items():
            got = _array(result, name)
            if got.shape != (height, width):
                largest[name], differing[name] = float("inf"), got.size
                continue
            mine, bits = got[tile.made], getattr(single, name)[tile.kept]
            if tolerance == 0 and own_bits:
                most = _beyond_rounding(mine, _stage_of(double, name, parameters)[tile.kept], DEFAULT if name == "edges" else parameters)
            else:
                most = _largest(mine, bits if tolerance == 0 else getattr(double, name)[tile.kept])
            largest[name] = float(np.maximum(largest[name], most))  # a NaN stays
            differing[name] += _unequal(mine, bits) if tolerance == 0 else int(np.count_nonzero(_bits(mine) != _bits(bits)))
        histogram += reference.histogram_of(result.edges[tile.made] if own_bits else single.edges[tile.kept])
    checks = {name: StageCheck(stage, largest[name], tolerance, differing[name]) for name, (stage, tolerance) in arrays.items()}
    counted = StageCheck(STAGES[-1], _largest(result.histogram, histogram), 0.0, _unequal(result.histogram, histogram))
    checks["edges"] = max(checks["edges"], counted, key=lambda check: check.max_error)
    return tuple(checks.values())


def _stage_of(stages: reference.ReferenceStages | None, name: str, parameters: Parameters) -> npt.NDArray[Any]:
    """The stage from which the edges or the output are rounded."""
    chosen = parameters.output if name == "output" and parameters.output != "thresholded" else "magnitude"
    found: npt.NDArray[Any] = getattr(stages, chosen)
    return found


def _beyond_rounding(got: npt.NDArray[Any], stage: npt.NDArray[Any], parameters: Parameters) -> float:
    """How far values are, at most, from what a stage within the tolerance can become."""
    low, high = (reference.output_of(np.maximum(stage + error, 0), parameters).astype(np.float64) for error in (-reference.TOLERANCE, reference.TOLERANCE))
    return float(np.max(np.maximum(np.maximum(low - got, got - high), 0)))


def _array(result: EdgeResult, name: str) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = result.floats[name] if name in result.floats else getattr(result, name)
    return found


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values).view(np.uint32)


def _largest(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """The largest difference; NaN where there is one, infinite where the shapes differ."""
    if got.shape != expected.shape:
        return float("inf")
    return float(np.max(np.abs(got.astype(np.float64) - expected)))


def _unequal(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> int:
    return int(np.count_nonzero(got != expected)) if got.shape == expected.shape else got.size
