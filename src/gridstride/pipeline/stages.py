"""The implementations that have a kernel a stage and keep each stage: `cuda`, and `cub` over other grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gridstride as gs
from gridstride.pipeline.frames import Frame, Kind, Program, Step
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


CUB_THREADS, CUB_SEGMENT = 128, 512
"""Threads of a block of the image kernels of `cub`, and the pixels of a row that it makes."""


@dataclass(frozen=True)
class Grids:
    """Grid and block of the kernels for grey, of those for the filters, and of those to which the place in the image does not matter."""

    grey: tuple[tuple[int, int], tuple[int, int]]
    filters: tuple[tuple[int, int], tuple[int, int]]
    flat: tuple[tuple[int, int], tuple[int, int]]


def make_cuda_frame(device: gs.Device, program: Program, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `cuda`."""
    return make_staged_frame(device, program, kind, parameters, image_grids(kind), "cuda")


def image_grids(kind: Kind) -> Grids:
    """A thread a pixel for the kernels to which its place matters; a grid has only so many blocks along y, so they go on from there."""
    image = ((-(-kind.width // BLOCK[0]), min(-(-kind.height // BLOCK[1]), MAX_GRID_Y)), BLOCK)
    return Grids(image, image, _flat(kind.pixels))


def make_cub_frame(device: gs.Device, program: Program, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `cub`."""
    block = (CUB_THREADS, 1)
    grey = ((min(-(-kind.pixels // CUB_SEGMENT), 2 * MAX_HISTOGRAM_BLOCKS), 1), block)
    filters = ((-(-kind.width // CUB_SEGMENT), min(kind.height, MAX_GRID_Y)), block)
    return make_staged_frame(device, program, kind, parameters, Grids(grey, filters, _flat(kind.pixels)), "cub")


def make_staged_frame(device: gs.Device, program: Program, kind: Kind, parameters: Parameters, grids: Grids, impl: str) -> Frame:
    """A frame that keeps every stage; `program` has a kernel for each, and one that makes the chosen output of one."""
    height, width = kind.height, kind.width
    source = device.empty(kind.rows, kind.dtype, name="image")
    grey, rows, blurred, magnitude = (device.empty((height, width), np.float32, name=name) for name in ("grey", "rows", "blurred", "magnitude"))
    edges = device.empty((height, width), np.uint8, name="edges")
    histogram = device.empty(BINS, np.uint32, name="histogram")
    steps = [
        Step(STAGES[0], program[f"grey_{kind.samples_name}"], *grids.grey, (source, grey, width, height)),
        Step(STAGES[1], program["blur_rows"], *grids.filters, (grey, rows, width, height)),
        Step(STAGES[2], program["blur_columns"], *grids.filters, (rows, blurred, width, height)),
        Step(STAGES[3], program["sobel"], *grids.filters, (blurred, magnitude, width, height)),
        Step(STAGES[4], program["edges_and_histogram"], *grids.flat, (magnitude, edges, histogram, kind.pixels)),
    ]
    floats = {"grey": grey, "blurred_rows": rows, "blurred": blurred, "magnitude": magnitude}
    output = None
    if parameters.depth == "float" and parameters.output in floats:
        output = floats[parameters.output]  # there already
    elif not parameters.plain:
        output = device.empty((height, width), parameters.output_type, name="output")
        stage = floats.get(parameters.output, magnitude)
        steps.append(Step(CONVERSION, program["output"], *grids.flat, (stage, output, kind.pixels)))
    return Frame(source, edges, histogram, output, floats, tuple(steps), impl, (histogram,))


def _flat(pixels: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks of `BINS` threads for kernels to which the place in the image does not matter."""
    return (min(-(-pixels // (BINS * PIXELS_PER_THREAD)), MAX_HISTOGRAM_BLOCKS), 1), (BINS, 1)
