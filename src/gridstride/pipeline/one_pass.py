"""The implementation `fused`: one kernel for everything, over tiles in shared memory. Nothing but the edges and the output is kept."""

from __future__ import annotations

import numpy as np

import gridstride as gs
from gridstride.pipeline.frames import Frame, Kind, Step
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import BINS, STAGES
from gridstride.pipeline.stages import MAX_GRID_Y

BLOCK = (32, 8)
"""Eight warps; a warp is a row of 128 pixels."""

PIXELS_OF_A_LANE = 4

ROWS_OF_SMALL_TILES, ROWS_OF_TILES = 32, 64
LARGEST_RADIUS_OF_TILES = 4
"""Up to this radius a block takes `ROWS_OF_TILES` rows; the halo of a larger one leaves room for fewer (fused.cu has the same numbers)."""


def tile(parameters: Parameters) -> tuple[int, int]:
    """Columns and rows that a block makes: what is left of 128 columns when both sides give their halo, in whole lanes of four pixels."""
    halo = parameters.reach + 1
    margin = -(-halo // 4) * 4
    return 128 - 2 * margin, ROWS_OF_TILES if parameters.reach <= LARGEST_RADIUS_OF_TILES else ROWS_OF_SMALL_TILES


def make_frame(device: gs.Device, program: gs.Module, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `fused`. Images lie in pitched arrays, so that vectors are aligned in every row."""
    height, width = kind.height, kind.width
    columns, rows = tile(parameters)
    grid = (-(-width // columns), min(-(-height // rows), MAX_GRID_Y))
    source = device.pitched(kind.rows, kind.dtype, name="image")
    stored = -(-width // PIXELS_OF_A_LANE) * PIXELS_OF_A_LANE  # vectors may write behind the last pixel of a row
    edges = device.pitched((height, stored), np.uint8, name="edges")
    histogram = device.empty(BINS, np.uint32, name="histogram")
    output = None if parameters.plain else device.pitched((height, stored), parameters.output_type, name="output")
    written = edges if output is None else output
    arguments = (source, source.strides[0], edges, edges.strides[0], histogram, written, written.strides[0], width, height)
    step = Step(STAGES[-1], program[f"fused_{kind.samples_name}"], grid, BLOCK, arguments)
    return Frame(source, edges[:, :width], histogram, None if output is None else output[:, :width], {}, (step,), "fused")
