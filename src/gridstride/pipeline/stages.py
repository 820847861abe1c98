"""The five stages of the edge pipeline on a device: which kernel, over which grid, into which array."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import numpy.typing as npt

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.pipeline.images import MAX_PIXELS, Samples

BLOCK = (32, 8)
"""Threads of a block of the image kernels: one warp a row, eight rows."""

BINS = 256
"""Bins of the histogram, and threads of a block of the kernel that fills it."""

PIXELS_PER_THREAD = 16
"""Pixels that a histogram thread takes at least (in images that have them): enough for the merging of 256 counters a block not to matter."""

MAX_HISTOGRAM_BLOCKS = 1056
"""Eight blocks on each of an H200's 132 multiprocessors: more could not run at once."""

MAX_GRID_Y = 65_535
"""Blocks of a grid along y, on every compute capability."""

STAGES = ("grey", "blur rows", "blur columns", "sobel", "edges and histogram")
"""Names of the stages, in their order."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class EdgeResult:
    """What every stage made of one image. All arrays have the image's (height, width), but the histogram.

    grey, blurred_rows, blurred: brightness from 0 to 255. magnitude: length of the Sobel gradient, 0 to about 1,443.
    edges: the magnitude rounded half up and saturated at 255. histogram: pixels of each of the 256 values of `edges`.
    """

    grey: Floats
    blurred: Floats
    magnitude: Floats
    edges: npt.NDArray[np.uint8]
    histogram: npt.NDArray[np.uint32]
    blurred_rows: Floats


@dataclass(frozen=True)
class StageRun:
    """One launch: seconds until the device was done, by the host's clock."""

    stage: str
    kernel: str
    grid: tuple[int, int]
    block: tuple[int, int]
    seconds: float


@dataclass(frozen=True)
class PipelineRun:
    """The results of one image with the launches that made them."""

    result: EdgeResult
    stages: tuple[StageRun, ...]


def edges(image: npt.ArrayLike, device: gs.Device | str | None = None) -> EdgeResult:
    """Find the edges of `image` on `device` (a name as in `gs.device`, a device, or None for `gs.device()`).

    image: uint8 or uint16, shape (height, width) or (height, width, channels) with 1 (grey), 3 (RGB) or 4 (RGBA; alpha is not
    used) channels, at least one pixel and at most 2**28. Raises `UsageError` for anything else.
    A named device is opened and the kernels are compiled once; for many images on a device of your own, keep an `EdgePipeline`.
    """
    pipeline = EdgePipeline(device) if isinstance(device, gs.Device) else _named_pipeline(device or "auto")
    return pipeline.run(np.asarray(image)).result


@lru_cache(maxsize=2)
def _named_pipeline(name: str) -> EdgePipeline:
    return EdgePipeline(gs.device(name))


class EdgePipeline:
    """The compiled kernels on one device."""

    def __init__(self, device: gs.Device) -> None:
        self.device = device
        with as_file(files("gridstride.pipeline") / "kernels" / "edges.cu") as source:
            self._program = device.compile(source)

    def warm_up(self, image: Samples) -> float:
        """Have the machine code made for images like `image`, by a run on one pixel of it. Returns the seconds this took."""
        start = time.perf_counter()
        self.run(checked(image)[:1, :1])
        return time.perf_counter() - start

    def run(self, image: npt.NDArray[Any]) -> PipelineRun:
        """All stages, one after the other, each timed by itself. Device memory is freed at the end."""
        samples = checked(image)
        height, width = samples.shape[:2]
        grid = (-(-width // BLOCK[0]), min(-(-height // BLOCK[1]), MAX_GRID_Y))
        blocks = min(-(-height * width // (BINS * PIXELS_PER_THREAD)), MAX_HISTOGRAM_BLOCKS)
        grey_kernel = f"grey_u{samples.dtype.itemsize * 8}_{samples.shape[2] if samples.ndim == 3 else 1}"
        runs: list[StageRun] = []

        with ExitStack() as stack:

            def kept(array: gs.Array) -> gs.Array:
                return stack.enter_context(array)

            def stage(kernel: str, grid: tuple[int, int], block: tuple[int, int], *arguments: Any) -> None:
                launch: Callable[..., Any] = self._program[kernel][grid, block]
                start = time.perf_counter()
                launch(*arguments)
                runs.append(StageRun(STAGES[len(runs)], kernel, grid, block, time.perf_counter() - start))

            source = kept(self.device.array(samples, name="image"))
            grey, rows, blurred, magnitude = (
                kept(self.device.empty((height, width), np.float32, name=name)) for name in ("grey", "rows", "blurred", "magnitude")
            )
            edge_map = kept(self.device.empty((height, width), np.uint8, name="edges"))
            histogram = kept(self.device.zeros(BINS, np.uint32, name="histogram"))
            stage(grey_kernel, grid, BLOCK, source, grey, width, height)
            stage("blur_rows", grid, BLOCK, grey, rows, width, height)
            stage("blur_columns", grid, BLOCK, rows, blurred, width, height)
            stage("sobel", grid, BLOCK, blurred, magnitude, width, height)
            stage("edges_and_histogram", (blocks, 1), (BINS, 1), magnitude, edge_map, histogram, height * width)
            result = EdgeResult(
                grey=grey.numpy(),
                blurred=blurred.numpy(),
                magnitude=magnitude.numpy(),
                edges=edge_map.numpy(),
                histogram=histogram.numpy(),
                blurred_rows=rows.numpy(),
            )
        return PipelineRun(result, tuple(runs))


def checked(image: npt.NDArray[Any]) -> Samples:
    """`image` in native byte order and without gaps. Raises `UsageError` where the pipeline cannot take it."""
    native = image.dtype.newbyteorder("=")
    if native not in (np.uint8, np.uint16):
        raise UsageError(f"the pipeline takes 8- and 16-bit images (uint8, uint16), not {image.dtype}")
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3, 4)):
        raise UsageError(
            f"an image has the shape (height, width) or (height, width, channels) with 1, 3 or 4 channels, not {tuple(map(int, image.shape))}"
        )
    height, width = image.shape[:2]
    if height * width == 0:
        raise UsageError(f"the image has no pixels: it is {width} x {height}")
    if height * width > MAX_PIXELS:
        raise UsageError(f"the image has {height * width:,} pixels; {MAX_PIXELS:,} is the most that can be processed")
    return np.ascontiguousarray(image, dtype=native)
