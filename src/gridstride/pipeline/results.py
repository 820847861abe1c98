"""What the pipeline gives: the stages of an image, and the launches that made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import gridstride as gs
from gridstride.errors import UsageError

Floats = npt.NDArray[np.float32]

LIBRARY = "library"
"""The implementation whose arithmetic is a library's: its bits are its own."""

BINS = 256
"""Bins of the histogram."""

STAGES = ("grey", "blur rows", "blur columns", "sobel", "edges and histogram")
"""Names of the stages, in their order."""

STAGE_OF = {"grey": STAGES[0], "blurred_rows": STAGES[1], "blurred": STAGES[2], "magnitude": STAGES[3]}
"""The stage that makes each of the float arrays of a result."""

CONVERSION = "output"
"""The stage that makes the output that was chosen, where that is not the edges."""


@dataclass(frozen=True)
class EdgeResult:
    """What became of one image. All arrays have the image's (height, width), but the histogram.

    edges: the magnitude rounded half up and saturated at 255. histogram: pixels of each of the 256 values of `edges`.
    output: the stage that was chosen, in its depth; `edges` unless something else was. floats: the stages in between that the
    implementation keeps, on the scale of 8 bits; `grey`, `blurred_rows`, `blurred` and `magnitude` (0 to about 1,443) give them.
    """

    edges: npt.NDArray[np.uint8]
    histogram: npt.NDArray[np.uint32]
    output: npt.NDArray[Any]
    floats: Mapping[str, Floats] = field(default_factory=dict)
    impl: str = "cuda"

    @property
    def grey(self) -> Floats:
        return self._kept("grey")

    @property
    def blurred_rows(self) -> Floats:
        return self._kept("blurred_rows")

    @property
    def blurred(self) -> Floats:
        return self._kept("blurred")

    @property
    def magnitude(self) -> Floats:
        return self._kept("magnitude")

    def _kept(self, name: str) -> Floats:
        if name not in self.floats:
            who = f"`{self.impl}`" if self.impl == "fused" else f"`{self.impl}` in tiles"
            raise UsageError(f"{who} does not keep the stage {name}: ask for output={name!r} with depth='float'")
        return self.floats[name]


@dataclass(frozen=True)
class DeviceEdges:
    """As `EdgeResult`, in the memory of the device: for what goes on there, also by other libraries (`__cuda_array_interface__`, DLPack)."""

    edges: gs.Array
    histogram: gs.Array
    output: gs.Array
    impl: str

    def numpy(self) -> EdgeResult:
        """The same on the host."""
        edges = self.edges.numpy()
        return EdgeResult(edges, self.histogram.numpy(), edges if self.output is self.edges else self.output.numpy(), {}, self.impl)


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
    """The results of one image with the launches that made them.

    tile: rows and columns of the tiles in which it was done, None where it was done as a whole. Launches are then those of the first tile,
    with the seconds of all."""

    result: EdgeResult
    stages: tuple[StageRun, ...]
    tile: tuple[int, int] | None = None
