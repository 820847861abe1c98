"""The roofline: how fast a launch of some arithmetic intensity can be at best on a device, and what holds it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gridstride.machine.devices import DeviceSpec
from gridstride.observers.metrics.flops import FloatingCounts


def intensity_by_sectors(flops: float, bytes_moved: float) -> float:
    """The intensity that launches are placed by: FLOPs ÷ bytes of the sectors asked for, before any cache. Infinite where there
    is arithmetic and no such byte, NaN where there is neither."""
    if bytes_moved:
        return flops / bytes_moved
    return math.inf if flops else math.nan


@dataclass(frozen=True)
class Roofline:
    """intensity: FLOP/byte; peak_tflops: of the width that does most of the work; bandwidth_gbs: of device memory, as published."""

    intensity: float
    peak_tflops: float
    bandwidth_gbs: float

    @classmethod
    def of(cls, spec: DeviceSpec, floating: FloatingCounts, intensity: float) -> Roofline:
        """Under the roofs of `spec`. The peak is that of 64 bits where most operations have 64, else that of 32: the device table
        has no peak for 16 bits, which is at least as high."""
        double = floating.flops_of("d") * 2 > floating.flops
        return cls(intensity, spec.fp64_tflops if double else spec.fp32_tflops, spec.memory_bandwidth_gbs)

    @property
    def ridge(self) -> float:
        """The intensity from which on arithmetic is the limit, FLOP/byte."""
        return self.peak_tflops * 1000 / self.bandwidth_gbs

    @property
    def bound(self) -> Literal["memory", "compute", "neither"]:
        """What limits: "memory" left of the ridge, "compute" right of it; "neither" where no byte was moved and nothing computed."""
        if math.isnan(self.intensity):
            return "neither"
        return "memory" if self.intensity < self.ridge else "compute"

    @property
    def attainable_tflops(self) -> float:
        """The roof above this intensity: the lesser of the peak and intensity × bandwidth."""
        return math.nan if math.isnan(self.intensity) else min(self.peak_tflops, self.intensity * self.bandwidth_gbs / 1000)
