"""The pipeline's kernels in Python, for numba.cuda: the implementation `python`. Loaded only where it is asked for, since Numba is an extra.

A thread makes one pixel of each row that it takes; a warp is 32 neighbouring pixels of a row. The arithmetic is that of pixels.cuh, operation by
operation: libdevice's functions with a rounding in their names are never contracted, so the bits are those of the other implementations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, float32, uint32
from numba.cuda import libdevice

import gridstride as gs
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.reference import LUMA
from gridstride.pipeline.results import BINS
from gridstride.pipeline.stages import BLOCK, PIXELS_PER_THREAD

RED, GREEN, BLUE = (np.float32(weight) for weight in LUMA)
HALF = np.float32(0.49999997)
"""The float just below one half: adding it and cutting off rounds half up, where adding one half itself would make 1 of it."""

REPLICATE, REFLECT, CONSTANT = range(3)
_BORDERS = {"replicate": REPLICATE, "reflect": REFLECT, "constant": CONSTANT}


_FILTER = gs.contract(
    extent=("width", "height"), block=BLOCK, grid_stride="y", covers="out", extents={"image": ("width", "height")}, distinct=("image", "out")
)


def kernels(parameters: Parameters) -> dict[str, Callable[..., None]]:
    """The kernels by their names, with the choices in them as constants of the compilation."""
    radius, border, taps = parameters.reach, _BORDERS[parameters.border], 2 * parameters.reach + 1
    weights = tuple(np.float32(weight) for weight in parameters.weights)
    border_value = np.float32(parameters.border_value)
    thresholded, threshold = parameters.output == "thresholded", np.float32(parameters.threshold)
    depth = 32 if parameters.depth == "float" else parameters.depth

    @cuda.jit(device=True)
    def inside(index: Any, size: Any) -> Any:
        """Which pixel a filter finds at `index`: -1 where there is none, but `border_value`."""
        if border == REPLICATE:
            return min(max(index, 0), size - 1)
        if border == CONSTANT:
            return index if 0 <= index < size else -1
        while index < 0 or index >= size:  # mirrored, over and over where the image is small
            index = -1 - index if index < 0 else 2 * size - 1 - index
        return index

    @cuda.jit(device=True)
    def found(values: Any, y: Any, x: Any) -> Any:
        """The value at a place that `inside` gave."""
        if border == CONSTANT and (y < 0 or x < 0):
            return border_value
        return values[y, x]

    @cuda.jit(device=True)
    def side(first: Any, middle: Any, last: Any) -> Any:
        """One side of a Sobel operator: 1 2 1. Doubling is exact."""
        return libdevice.fadd_rn(libdevice.fmaf_rn(float32(2), middle, first), last)

    @cuda.jit(device=True)
    def rounded(value: Any, most: Any) -> Any:
        """To a whole number: half upwards, everything beyond `most` to `most`."""
        return uint32(libdevice.float2uint_rz(libdevice.fadd_rn(min(value, float32(most)), HALF)))

    @gs.contract(extent=("width", "height"), block=BLOCK, grid_stride="y", covers="out", distinct=("samples", "out"))
    @cuda.jit
    def grey(samples: Any, out: Any, width: Any, height: Any) -> None:
        x, first = cuda.grid(2)
        if x >= width:
            return
        channels = samples.shape[1] // width
        for y in range(first, height, cuda.blockDim.y * cuda.gridDim.y):
            if channels == 1:
                value = float32(samples[y, x])
            else:  # alpha is not used
                red = libdevice.fmul_rn(RED, float32(samples[y, channels * x]))
                green = libdevice.fmul_rn(GREEN, float32(samples[y, channels * x + 1]))
                blue = libdevice.fmul_rn(BLUE, float32(samples[y, channels * x + 2]))
                value = libdevice.fadd_rn(libdevice.fadd_rn(red, green), blue)
            if samples.itemsize == 2:  # 65535 = 257 * 255
                value = libdevice.fmul_rn(value, float32(1 / 257))
            out[y, x] = value

    @_FILTER
    @cuda.jit
    def blur_rows(image: Any, out: Any, width: Any, height: Any) -> None:
        x, first = cuda.grid(2)
        if x >= width:
            return
        for y in range(first, height, cuda.blockDim.y * cuda.gridDim.y):
            total = libdevice.fmul_rn(weights[0], found(image, y, inside(x - radius, width)))
            for tap in range(1, taps):
                total = libdevice.fmaf_rn(weights[tap], found(image, y, inside(x + tap - radius, width)), total)
            out[y, x] = total

    @_FILTER
    @cuda.jit
    def blur_columns(image: Any, out: Any, width: Any, height: Any) -> None:
        x, first = cuda.grid(2)
        if x >= width:
            return
        for y in range(first, height, cuda.blockDim.y * cuda.gridDim.y):
            total = libdevice.fmul_rn(weights[0], found(image, inside(y - radius, height), x))
            for tap in range(1, taps):
                total = libdevice.fmaf_rn(weights[tap], found(image, inside(y + tap - radius, height), x), total)
            out[y, x] = total

    @_FILTER
    @cuda.jit
    def sobel(image: Any, out: Any, width: Any, height: Any) -> None:
        x, first = cuda.grid(2)
        if x >= width:
            return
        left, right = inside(x - 1, width), inside(x + 1, width)
        for y in range(first, height, cuda.blockDim.y * cuda.gridDim.y):
            north, south = inside(y - 1, height), inside(y + 1, height)
            north_west, above, north_east = found(image, north, left), found(image, north, x), found(image, north, right)
            west, east = found(image, y, left), found(image, y, right)
            south_west, below, south_east = found(image, south, left), found(image, south, x), found(image, south, right)
            across = libdevice.fsub_rn(side(north_east, east, south_east), side(north_west, west, south_west))
            down = libdevice.fsub_rn(side(south_west, below, south_east), side(north_west, above, north_east))
            out[y, x] = libdevice.fsqrt_rn(libdevice.fmaf_rn(down, down, libdevice.fmul_rn(across, across)))

    @gs.contract(
        extent="pixels", block=BINS, elements_per_thread=PIXELS_PER_THREAD, grid_stride=True, covers="edges",
        extents={"magnitude": "pixels", "histogram": BINS}, distinct=("magnitude", "edges", "histogram"),
    )
    @cuda.jit
    def edges_and_histogram(magnitude: Any, edges: Any, histogram: Any, pixels: Any) -> None:
        counts = cuda.shared.array(BINS, uint32)  # the block's own, so that no other block waits
        for bin in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            counts[bin] = 0
        cuda.syncthreads()  # no thread may count before every counter is clear
        for pixel in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            y, x = pixel // edges.shape[1], pixel % edges.shape[1]
            level = rounded(magnitude[y, x], 255)
            edges[y, x] = level
            cuda.atomic.add(counts, level, uint32(1))
        cuda.syncthreads()  # every counter is complete
        for bin in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            if counts[bin] != 0:
                cuda.atomic.add(histogram, bin, counts[bin])

    @gs.contract(extent="pixels", grid_stride=True, covers="out", extents={"stage": "pixels"})
    @cuda.jit
    def output(stage: Any, out: Any, pixels: Any) -> None:
        for pixel in range(cuda.grid(1), pixels, cuda.gridsize(1)):
            y, x = pixel // out.shape[1], pixel % out.shape[1]
            value = stage[y, x]
            if thresholded:
                value = float32(255) if value >= threshold else float32(0)
            if depth == 8:
                out[y, x] = rounded(value, 255)
            elif depth == 16:
                out[y, x] = rounded(libdevice.fmul_rn(value, float32(257)), 65535)
            else:
                out[y, x] = value

    made = (grey, blur_rows, blur_columns, sobel, edges_and_histogram, output)
    return {kernel.py_func.__name__: kernel for kernel in made}
