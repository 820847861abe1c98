"""The implementation `cuda`: a kernel a stage, each stage kept. Which kernel, over which grid, into which array."""

from __future__ import annotations

import numpy as np

import gridstride as gs
from gridstride.pipeline.frames import Frame, Kind, Step
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import BINS, CONVERSION, STAGES

BLOCK = (32, 8)
"""Threads of a block of the image kernels: one warp a row, eight rows."""

PIXELS_PER_THREAD = 16
"""Pixels that a histogram thread takes at least (in images that have them): enough for the merging of 256 counters a block not to matter."""

MAX_HISTOGRAM_BLOCKS = 1056
"""Eight blocks on each of an H200's 132 multiprocessors: more could not run at once."""

MAX_GRID_Y = 65_535
"""Blocks of a grid along y, on every compute capability."""


def make_frame(device: gs.Device, program: gs.Module, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `cuda`."""
    height, width = kind.height, kind.width
    grid = (-(-width // BLOCK[0]), min(-(-height // BLOCK[1]), MAX_GRID_Y))
    line, threads = flat_grid(height * width), (BINS, 1)
    source = device.empty(kind.rows, kind.dtype, name="image")
    grey, rows, blurred, magnitude = (device.empty((height, width), np.float32, name=name) for name in ("grey", "rows", "blurred", "magnitude"))
    edges = device.empty((height, width), np.uint8, name="edges")
    histogram = device.empty(BINS, np.uint32, name="histogram")
    steps = [
        Step(STAGES[0], program[f"grey_{kind.samples_name}"], grid, BLOCK, (source, grey, width, height)),
        Step(STAGES[1], program["blur_rows"], grid, BLOCK, (grey, rows, width, height)),
        Step(STAGES[2], program["blur_columns"], grid, BLOCK, (rows, blurred, width, height)),
        Step(STAGES[3], program["sobel"], grid, BLOCK, (blurred, magnitude, width, height)),
        Step(STAGES[4], program["edges_and_histogram"], line, threads, (magnitude, edges, histogram, height * width)),
    ]
    floats = {"grey": grey, "blurred_rows": rows, "blurred": blurred, "magnitude": magnitude}
    output = None
    if parameters.depth == "float" and parameters.output in floats:
        output = floats[parameters.output]  # there already
    elif not parameters.plain:
        output = device.empty((height, width), parameters.output_type, name="output")
        stage = floats.get(parameters.output, magnitude)
        steps.append(Step(CONVERSION, program["output"], line, threads, (stage, output, height * width)))
    return Frame(source, edges, histogram, output, floats, tuple(steps), "cuda")


def flat_grid(pixels: int) -> tuple[int, int]:
    """Blocks of `BINS` threads for kernels to which the place in the image does not matter."""
    return min(-(-pixels // (BINS * PIXELS_PER_THREAD)), MAX_HISTOGRAM_BLOCKS), 1
