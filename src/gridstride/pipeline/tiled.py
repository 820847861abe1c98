"""Running an image tile by tile, and putting together what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gridstride.pipeline.images import Samples
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import BINS, EdgeResult, PipelineRun, StageRun
from gridstride.pipeline.tiles import tiles


def run_in_tiles(samples: Samples, parameters: Parameters, size: tuple[int, int], run: Callable[[Samples], PipelineRun]) -> PipelineRun:
    """The edges, histogram and output of an image from those of its tiles, which make `size` (rows, columns) each; stages are not kept."""
    height, width = samples.shape[:2]
    edges = np.empty((height, width), np.uint8)
    output: npt.NDArray[Any] = edges if parameters.plain else np.empty((height, width), parameters.output_type)
    histogram = np.zeros(BINS, np.int64)
    stages: list[StageRun] = []
    impl = ""
    for tile in tiles(height, width, parameters.halo, *size):
        made = run(cast(Samples, np.ascontiguousarray(samples[tile.read])))
        result, impl = made.result, made.result.impl
        edges[tile.made] = result.edges[tile.kept]
        if output is not edges:
            output[tile.made] = result.output[tile.kept]
        # The kernels count all pixels that a tile has read; those that another one makes are taken off again.
        histogram += result.histogram.astype(np.int64) - np.bincount(result.edges.ravel(), minlength=BINS)
        histogram += np.bincount(edges[tile.made].ravel(), minlength=BINS)
        stages = [replace(one, seconds=one.seconds + more.seconds) for one, more in zip(stages, made.stages, strict=True)] if stages else [*made.stages]
    return PipelineRun(EdgeResult(edges, histogram.astype(np.uint32), output, {}, impl), tuple(stages), size)
