"""What can be chosen about the edges: the blur, what stands beyond the border, and what comes out. One object, read by every implementation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypedDict

import numpy as np

from gridstride.errors import UsageError

Border = Literal["replicate", "reflect", "constant"]
Output = Literal["grey", "blurred_rows", "blurred", "magnitude", "thresholded"]
Depth = Literal[8, 16, "float"]

BORDERS: tuple[Border, ...] = ("replicate", "reflect", "constant")
OUTPUTS: tuple[Output, ...] = ("grey", "blurred_rows", "blurred", "magnitude", "thresholded")
DEPTHS: tuple[Depth, ...] = (8, 16, "float")

MAX_RADIUS = 16
"""Pixels to each side that the blur reaches at most: the tiles of `fused` must fit a block's shared memory."""

WEIGHTS_OF_SIGMA_ONE = (0.06136, 0.24477, 0.38774, 0.24477, 0.06136)
"""Sigma 1 over five pixels, to five digits as it is published; their sum is 1. All other weights are computed."""


class Choices(TypedDict, total=False):
    """The choices by name, as functions take them; what is left out is as in `Parameters`."""

    sigma: float
    radius: int | None
    border: Border
    border_value: float
    output: Output
    depth: Depth
    threshold: float


@dataclass(frozen=True)
class Parameters:
    """The choices. Raises `UsageError` for one that cannot be.

    sigma: of the Gaussian, in pixels. radius: pixels that it reaches to each side, so that it has 2 radius + 1 weights; None for the
    smallest that is at least 2 sigma. border: what each filter finds beyond the image: copies of the border pixel (`replicate`), the image
    mirrored with the border pixel repeated (`reflect`), or `border_value` on the scale of 0 to 255 (`constant`).
    output: the stage to give out; `thresholded` is 255 where the magnitude is at least `threshold`, and 0 elsewhere.
    depth: 8 or 16 bits, rounded half up and saturated (16 bits: times 257, so that 255 becomes 65535), or "float", as computed.
    """

    sigma: float = 1.0
    radius: int | None = None
    border: Border = "replicate"
    border_value: float = 0.0
    output: Output = "magnitude"
    depth: Depth = 8
    threshold: float = 128.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigma) and 0.1 <= self.sigma <= 100):
            raise UsageError(f"sigma is a number of pixels from 0.1 to 100, not {self.sigma}")
        if self.radius is not None and (isinstance(self.radius, bool) or not isinstance(self.radius, int) or not 0 <= self.radius <= MAX_RADIUS):
            raise UsageError(f"radius is a whole number from 0 to {MAX_RADIUS}, not {self.radius}")
        if self.radius is None and self.reach > MAX_RADIUS:
            raise UsageError(f"sigma {self.sigma} reaches {self.reach} pixels to each side; {MAX_RADIUS} is the most: name a radius to cut it off there")
        _require_one_of("border", self.border, BORDERS)
        _require_one_of("output", self.output, OUTPUTS)
        _require_one_of("depth", self.depth, DEPTHS)
        for name, value in (("border_value", self.border_value), ("threshold", self.threshold)):
            if not (math.isfinite(value) and 0 <= value <= 2000):
                raise UsageError(f"{name} is a number from 0 to 2000, on the scale of 0 to 255 of the stages, not {value}")

    @property
    def reach(self) -> int:
        """Pixels that the blur reaches to each side."""
        return math.ceil(2 * self.sigma) if self.radius is None else self.radius

    @property
    def halo(self) -> int:
        """Pixels around one that its edge depends on, to each side: Sobel needs its blurred neighbours."""
        return self.reach + 1

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """The Gaussian averaged over each pixel, from one end to the other, made to sum to 1."""
        if self.sigma == 1 and self.reach == 2:
            return WEIGHTS_OF_SIGMA_ONE
        averages = [_below((tap + 0.5) / self.sigma) - _below((tap - 0.5) / self.sigma) for tap in range(self.reach + 1)]
        total = averages[0] + 2 * sum(averages[1:])
        half = [average / total for average in averages]
        return (*half[:0:-1], *half)

    @property
    def plain(self) -> bool:
        """Whether the output is the 8-bit edges, which are computed in any case."""
        return self.output == "magnitude" and self.depth == 8

    @property
    def ending(self) -> str:
        """What the names of written images end with."""
        name = "edges" if self.output == "magnitude" else self.output.replace("_", "-")
        return f"-{name}{'.tif' if self.depth == 'float' else '.png'}"

    @property
    def output_type(self) -> type[np.uint8 | np.uint16 | np.float32]:
        """The type of the output's elements."""
        return np.float32 if self.depth == "float" else np.uint16 if self.depth == 16 else np.uint8

    @property
    def defines(self) -> dict[str, str]:
        """The choices as the kernels are compiled for them: constants, which the compiler puts into the instructions."""
        return {
            "RADIUS": str(self.reach),
            "WEIGHTS": ",".join(map(_literal, self.weights)),
            "BORDER": f"BORDER_{self.border.upper()}",
            "BORDER_VALUE": _literal(self.border_value),
            "OUTPUT": f"OUTPUT_{'NONE' if self.plain else self.output.upper()}",
            "DEPTH": str(32 if self.depth == "float" else self.depth),
            "THRESHOLD": _literal(self.threshold),
        }


def _below(x: float) -> float:
    """The share of a normal distribution between its mean and `x` standard deviations."""
    return math.erf(x / math.sqrt(2)) / 2


def _literal(value: float) -> str:
    """A C++ literal of the float nearest to `value`."""
    digits = repr(float(np.float32(value)))  # a float's value as a double, so that no second rounding follows
    return f"{digits}f"


def _require_one_of(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices or isinstance(value, bool):
        raise UsageError(f"{name} is one of {', '.join(map(str, choices))}, not {value}")


DEFAULT = Parameters()
"""What `edges(image)` takes."""
