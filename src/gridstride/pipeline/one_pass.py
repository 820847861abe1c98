"""The implementation `fused`: one kernel for everything, each warp marching down a strip of the image. Nothing but the edges and the output
is kept."""

from __future__ import annotations

import numpy as np

import gridstride as gs
from gridstride.pipeline.frames import Frame, Kind, Program, Step
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.results import BINS, STAGES

STRIP_WIDTH = 128
"""Pixels of a row that a warp holds, four a lane; what it writes of them is what the halo leaves."""

PIXELS_OF_A_LANE = 4

LEAST_ROWS = 5
"""A strip has at least this many times the rows of its halo: what both its ends cost more would otherwise be more than longer strips cost
in idle multiprocessors."""


def warps(parameters: Parameters) -> int:
    """Warps of a block, each with a strip of its own. With more taps a thread needs more registers. fused.cu has the same numbers."""
    return 24 if parameters.reach <= 2 else 16 if parameters.reach <= 5 else 8


def strip_columns(parameters: Parameters) -> int:
    """Columns that a warp makes: what is left of its 128 when both sides give their halo, in whole lanes of four pixels."""
    margin = -(-parameters.halo // PIXELS_OF_A_LANE) * PIXELS_OF_A_LANE
    return STRIP_WIDTH - 2 * margin


def strip_rows(strips: int, height: int, at_once: int, parameters: Parameters) -> int:
    """Rows of a strip, where `strips` lie side by side and `at_once` can run at the same time: all of them do, and every multiprocessor has
    as many as the others."""
    rows = -(-height // max(1, at_once // strips))
    return min(height, max(rows, LEAST_ROWS * parameters.halo))


def contracts(parameters: Parameters) -> dict[str, gs.Contract]:
    """What the kernels need of a launch, by their names. A warp takes a strip, so strips are what is counted; rows of the edges, and of an output that is
    not the edges, are whole groups of four pixels. Parameters of kernels that a macro makes have no names: p8 is the width, p9 the height, p10 the rows
    of a strip, p2 the edges, p6 the output."""
    written = ("p2",) if parameters.plain else ("p2", "p6")
    row = f"{PIXELS_OF_A_LANE}*cdiv(p8,{PIXELS_OF_A_LANE})"
    contract = gs.Contract(
        extent=f"cdiv(p8,{strip_columns(parameters)})*cdiv(p9,p10)",
        block=(32, warps(parameters)),
        tile=warps(parameters),
        nonempty=True,
        covers=written,
        extents={**dict.fromkeys(written, (row, "p9")), "p4": BINS, "p5": BINS + 1},
        distinct=("p0", "p4", "p5", *written),
    )
    return {f"fused_{kind}_{channels}": contract for kind in ("u8", "u16") for channels in (1, 3, 4)}


def make_frame(device: gs.Device, program: Program, kind: Kind, parameters: Parameters) -> Frame:
    """The frame of `fused`. Rows hold whole groups of four pixels, so that vectors are aligned in every row."""
    height, width = kind.height, kind.width
    strips = -(-width // strip_columns(parameters))
    block = (32, warps(parameters))
    rows = strip_rows(strips, height, device.spec.multiprocessors * block[1], parameters)
    grid = (-(-strips * -(-height // rows) // block[1]), 1)
    stored = -(-width // PIXELS_OF_A_LANE) * PIXELS_OF_A_LANE  # vectors may reach behind the last pixel of a row
    source = device.empty((height, stored * kind.channels), kind.dtype, name="image").fill(0)  # what lies there is read and not used
    edges = device.empty((height, stored), np.uint8, name="edges")
    histogram = device.empty(BINS, np.uint32, name="histogram")
    totals = device.empty(BINS + 1, np.uint32, name="totals").fill(0)
    device.synchronize()  # no other stream may come before these fills
    output = None if parameters.plain else device.empty((height, stored), parameters.output_type, name="output")
    written = edges if output is None else output
    arguments = (source, source.strides[0], edges, edges.strides[0], histogram, totals, written, written.strides[0], width, height, rows)
    step = Step(STAGES[-1], program[f"fused_{kind.samples_name}"], grid, block, arguments)
    shown = None if output is None else output[:, :width]
    return Frame(source[:, : width * kind.channels], edges[:, :width], histogram, shown, {}, (step,), "fused", cleared=(), own=(totals,))
