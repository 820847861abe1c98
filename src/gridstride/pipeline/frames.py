"""A frame: device memory for images of one shape and type, and the launches that make their edges.

Every implementation on a device is a function that makes a frame. How it is run, at once and timed or in a stream, is the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import gridstride as gs
from gridstride.pipeline.images import Samples
from gridstride.pipeline.results import EdgeResult, PipelineRun, StageRun


@dataclass(frozen=True)
class Kind:
    """What images must have in common to share a frame: (height, width), samples a pixel, and their type."""

    height: int
    width: int
    channels: int
    dtype: np.dtype[Any]

    @staticmethod
    def of(samples: Samples) -> Kind:
        return Kind(samples.shape[0], samples.shape[1], samples.shape[2] if samples.ndim == 3 else 1, samples.dtype)

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def samples_name(self) -> str:
        """As the names of kernels have it: u8_3."""
        return f"u{self.dtype.itemsize * 8}_{self.channels}"

    @property
    def rows(self) -> tuple[int, int]:
        """The shape of the samples as rows: what lies in one row of pixels is one row."""
        return self.height, self.width * self.channels


class Kernel(Protocol):
    """A kernel of either language."""

    name: str

    def __getitem__(self, configuration: Any) -> Any: ...


class Program(Protocol):
    """Kernels by their names."""

    def __getitem__(self, name: str) -> Kernel: ...


@dataclass(frozen=True)
class Step:
    """One launch of a frame."""

    stage: str
    kernel: Kernel
    grid: tuple[int, int]
    block: tuple[int, int]
    arguments: tuple[Any, ...]

    def launch(self, stream: gs.Stream | None = None) -> None:
        configured: Callable[..., Any] = self.kernel[self.grid, self.block]
        configured(*self.arguments, stream=stream)


@dataclass(frozen=True)
class Frame:
    """`source` has the shape `Kind.rows`; `output` is None where `edges` is what was asked for. `cleared` are the arrays that are to be 0
    before each image; `own` those that only the kernels know."""

    source: gs.Array
    edges: gs.Array
    histogram: gs.Array
    output: gs.Array | None
    floats: Mapping[str, gs.Array]
    steps: tuple[Step, ...]
    impl: str
    cleared: tuple[gs.Array, ...]
    own: tuple[gs.Array, ...] = ()

    def run(self, samples: Samples) -> PipelineRun:
        """One image, launch by launch, each timed by itself."""
        self.source.copy_from(samples.reshape(self.source.shape))
        for array in self.cleared:
            array.fill(0)
        runs = []
        for step in self.steps:
            start = time.perf_counter()
            step.launch()
            self.source.device.synchronize()
            runs.append(StageRun(step.stage, step.kernel.name, step.grid, step.block, time.perf_counter() - start))
        edges = self.edges.numpy()
        result = EdgeResult(
            edges=edges,
            histogram=self.histogram.numpy(),
            output=edges if self.output is None else self.output.numpy(),
            floats={name: array.numpy() for name, array in self.floats.items()},
            impl=self.impl,
        )
        return PipelineRun(result, tuple(runs))

    def launch(self, stream: gs.Stream) -> None:
        """Ask a stream for everything between the copy of the samples and the copies of the results."""
        for array in self.cleared:
            array.fill(0, stream=stream)
        for step in self.steps:
            step.launch(stream)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory."""
        return sum(array.storage.size for array in self._arrays)

    @property
    def _arrays(self) -> list[gs.Array]:
        """Each allocation once: an output may be one of the stages."""
        output = () if self.output is None or any(self.output is array for array in self.floats.values()) else (self.output,)
        return [self.source, self.edges, self.histogram, *self.floats.values(), *output, *self.own]

    def free(self, keep: Container[str] = ()) -> None:
        """Give the memory back, but that of the arrays whose names are in `keep`."""
        kept = [array.storage for name in ("edges", "histogram", "output") if name in keep and (array := getattr(self, name)) is not None]
        for array in self._arrays:
            if array.storage not in kept:
                array.free()
