"""The edge pipeline in NumPy: what every device's results are checked against.

The same code serves two purposes, chosen by `dtype`:

- `numpy.float32` follows the kernels operation by operation, in the same order, each rounded once, fused multiply-adds included
  (`multiply_add`); its 8-bit edges and histogram must equal a device's exactly.
- `numpy.float64` is the accurate reference: a device's float stages must agree with it within `TOLERANCE`.

Borders are made by padding: with copies of the border pixels that is what clamping each tap's index by itself means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.pipeline.parameters import DEFAULT, Depth, Parameters

FULL_SCALE = 255.0
TOLERANCE = 1e-4 * FULL_SCALE
"""Largest difference allowed between a float stage and the float64 reference, on the scale of 0 to 255."""

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue (ITU-R BT.601)."""

Floats = npt.NDArray[np.floating]
FloatType = type[np.float32] | type[np.float64]


@dataclass(frozen=True)
class ReferenceStages:
    """Every stage of the pipeline for one image; all arrays of shape (height, width) but the histogram, which has 256 bins."""

    grey: Floats
    blurred_rows: Floats
    blurred: Floats
    magnitude: Floats
    edges: npt.NDArray[np.uint8]
    histogram: npt.NDArray[np.uint32]
    output: npt.NDArray[Any]


def run(image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], dtype: FloatType = np.float32, parameters: Parameters = DEFAULT) -> ReferenceStages:
    """All stages for `image`, of shape (height, width) or (height, width, channels) with 1, 3 or 4 channels."""
    grey = to_grey(image, dtype)
    rows = blur_rows(grey, parameters)
    blurred = blur_columns(rows, parameters)
    magnitude = sobel(blurred, parameters)
    edges = to_eight_bits(magnitude)
    chosen = {"grey": grey, "blurred_rows": rows, "blurred": blurred}.get(parameters.output, magnitude)
    output = edges if parameters.plain else output_of(chosen, parameters)
    return ReferenceStages(grey, rows, blurred, magnitude, edges, histogram_of(edges), output)


def output_of(stage: Floats, parameters: Parameters) -> npt.NDArray[Any]:
    """What is given out of the chosen stage: for `thresholded` that is the magnitude."""
    if parameters.output == "thresholded":
        kind = stage.dtype.type
        stage = np.where(stage >= kind(parameters.threshold), kind(255), kind(0))
    return in_depth(stage, parameters.depth)


def to_grey(image: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], dtype: FloatType = np.float32) -> Floats:
    """Brightness from 0 to 255: 0.299 red + 0.587 green + 0.114 blue, added in this order; alpha is not used."""
    if image.ndim == 2 or image.shape[2] == 1:
        grey: Floats = image.reshape(image.shape[:2]).astype(dtype)
    else:
        weights = np.array(LUMA, dtype)
        red, green, blue = (image[..., channel].astype(dtype) * weights[channel] for channel in range(3))
        grey = (red + green) + blue
    if image.dtype == np.uint16:
        grey = grey * (dtype(1) / dtype(257))  # 65535 = 257 * 255
    return grey


def blur_rows(image: Floats, parameters: Parameters = DEFAULT) -> Floats:
    """Gaussian blur of each row; the taps are added from left to right."""
    width = image.shape[1]
    padded = _padded(image, 0, parameters.reach, parameters)
    weights = weights_of(parameters, image)
    total: Floats = weights[0] * padded[:, :width]
    for tap in range(1, len(weights)):
        total = multiply_add(weights[tap], padded[:, tap : tap + width], total)
    return total


def blur_columns(image: Floats, parameters: Parameters = DEFAULT) -> Floats:
    """Gaussian blur of each column; the taps are added from top to bottom."""
    height = image.shape[0]
    padded = _padded(image, parameters.reach, 0, parameters)
    weights = weights_of(parameters, image)
    total: Floats = weights[0] * padded[:height]
    for tap in range(1, len(weights)):
        total = multiply_add(weights[tap], padded[tap : tap + height], total)
    return total


def multiply_add(a: Any, b: Any, c: Floats) -> Floats:
    """a * b + c, elementwise in the type of `c`; in float32 rounded once, as a device's fused multiply-add does it.

    In float64 the product of two float32 is exact. The sum is then rounded to odd: where it is not exact, the one of its two neighbours whose
    last bit is 1 is taken. From it, rounding to float32 gives what rounding the exact sum would (S. Boldo and G. Melquiond, Emulation of
    FMA and correctly rounded sums, IEEE Transactions on Computers 57, 2008).
    """
    if c.dtype != np.float32:
        accurate: Floats = a * b + c
        return accurate
    product, addend = np.multiply(a, b, dtype=np.float64), c.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)  # what rounding took from the sum, exactly (Knuth's two-sum)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)  # the neighbour on the other side of the exact sum
    bits += np.where((error != 0) & (bits & 1 == 0), away, 0)
    rounded: Floats = total.astype(np.float32)
    return rounded


def weights_of(parameters: Parameters, image: Floats) -> Floats:
    """The weights of the blur, in the precision of the image."""
    return np.array(parameters.weights, image.dtype)


def _padded(image: Floats, rows: int, columns: int, parameters: Parameters) -> Floats:
    """The image with what stands beyond its border, `rows` above and below, `columns` to both sides."""
    around = ((rows, rows), (columns, columns))
    if parameters.border == "constant":
        return np.pad(image, around, mode="constant", constant_values=np.float32(parameters.border_value))
    return np.pad(image, around, mode="edge" if parameters.border == "replicate" else "symmetric")


def sobel(image: Floats, parameters: Parameters = DEFAULT) -> Floats:
    """Length of the Sobel gradient: gx is the right column (1 2 1) minus the left, gy the bottom row minus the top."""
    padded = _padded(image, 1, 1, parameters)
    north, middle, south = padded[:-2], padded[1:-1], padded[2:]
    two = image.dtype.type(2)

    def column(first: int) -> Floats:
        """North + 2 middle + south, of the neighbour `first - 1` columns to the right."""
        last = first + image.shape[1]
        return (north[:, first:last] + two * middle[:, first:last]) + south[:, first:last]

    def row(part: Floats) -> Floats:
        """West + 2 centre + east, of one of the three rows."""
        return (part[:, :-2] + two * part[:, 1:-1]) + part[:, 2:]

    across = column(2) - column(0)
    down = row(south) - row(north)
    return np.sqrt(multiply_add(down, down, across * across))


def to_eight_bits(values: Floats) -> npt.NDArray[np.uint8]:
    """Rounded half up, saturated at 255."""
    return _rounded(values, 255).astype(np.uint8)


def in_depth(values: Floats, depth: Depth) -> npt.NDArray[Any]:
    """A stage as an output: 8 bits, 16 bits (255 becomes 65535), or as it is."""
    if depth == "float":
        return values
    if depth == 8:
        return to_eight_bits(values)
    return _rounded(values * values.dtype.type(257), 65535).astype(np.uint16)


def _rounded(values: Floats, most: int) -> npt.NDArray[np.uint32]:
    """Half is rounded up. The fraction is exact, so 0.49999997 becomes 0, which floor(x + 0.5) would not give."""
    limited = np.minimum(values, values.dtype.type(most))
    whole = np.floor(limited)
    return whole.astype(np.uint32) + (limited - whole >= 0.5)


def histogram_of(edges: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """How many pixels have each of the 256 values."""
    return np.bincount(edges.ravel(), minlength=256).astype(np.uint32)
