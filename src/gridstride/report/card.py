"""The report card of the image pipeline, as data: what was verified, timed and counted. Rendered by `html/card.py`; `as_json` is its published form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gridstride.events.timeline import Timeline
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.report.html.parts import Picture


@dataclass(frozen=True)
class Times:
    """Repeated measurements of one thing, or (one value) a model's answer. mark: which of the two."""

    values: tuple[float, ...]
    mark: Literal["measured", "estimated"]

    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @property
    def p10(self) -> float:
        """A tenth of the values are below it (linear between neighbours)."""
        return float(np.percentile(self.values, 10))

    @property
    def p90(self) -> float:
        return float(np.percentile(self.values, 90))

    def as_json(self) -> dict[str, Any]:
        return {"median": self.median, "p10": self.p10, "p90": self.p90, "count": len(self.values), "mark": self.mark}


@dataclass(frozen=True)
class Check:
    """The verdict on a stage: its largest error, what is allowed, and how many values differ from float32 NumPy in any bit."""

    stage: str
    error: float
    tolerance: float
    differing: int
    passed: bool


@dataclass(frozen=True)
class Stage:
    """One launch. host: seconds by the host's clock; device: microseconds of the kernel, measured on a GPU or estimated for it."""

    stage: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    host: Times
    device: Times | None = None
    metrics: LaunchMetrics | None = None

    @property
    def device_mark(self) -> Literal["measured", "estimated"]:
        """How its time on the device came about."""
        return "estimated" if self.device is None else self.device.mark

    @property
    def tflops(self) -> float | None:
        """What the kernel reaches on the device; None where nothing is computed with floating point, or no time is known."""
        if self.metrics is None or self.device is None or not self.metrics.flops:
            return None
        return self.metrics.flops / self.device.median / 1e6

    @property
    def bandwidth_share(self) -> float | None:
        """Of the published bandwidth, what moving the bytes needed once in this time takes."""
        if self.metrics is None or self.device is None:
            return None
        return self.metrics.bytes_needed / (self.device.median * self.metrics.roofline.bandwidth_gbs * 1e3)

    def as_json(self) -> dict[str, Any]:
        launch = self.metrics
        counted: dict[str, Any] = {}
        if launch is not None:
            roof = launch.roofline
            counted = {
                "bytes_moved": launch.bytes_moved,
                "bytes_needed": launch.bytes_needed,
                "flops": launch.flops,
                "intensity": _finite(launch.sector_intensity),
                "bound": roof.bound,
                "attainable_tflops": _finite(roof.attainable_tflops),
                "tflops": self.tflops,
                "bandwidth_share": self.bandwidth_share,
                "sectors_per_load": _finite(launch.sectors_per_load),
                "sectors_per_store": _finite(launch.sectors_per_store),
                "bank_conflicts": launch.bank_conflicts,
                "occupancy_pct": launch.occupancy_percent,
                "limiter": launch.occupancy.limiter,
                "registers": launch.profile.registers,
                "shared_bytes": launch.shared_bytes,
                "lanes_per_instruction": _finite(launch.lanes_per_instruction),
            }
        return {
            "stage": self.stage,
            "kernel": self.kernel,
            "grid": list(self.grid),
            "block": list(self.block),
            "host_seconds": self.host.as_json(),
            "device_us": None if self.device is None else self.device.as_json(),
            **counted,
        }


@dataclass(frozen=True)
class Implementation:
    """One implementation. counted_on: the device that its counts and estimates are for; stages: empty where a check failed."""

    name: str
    device: str
    checks: tuple[Check, ...]
    stages: tuple[Stage, ...] = ()
    counted_on: str = ""
    timeline: Timeline | None = None
    frames: int = 0

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def device_us(self) -> Times | None:
        """All kernels of a frame together, run by run."""
        parts = [stage.device for stage in self.stages if stage.device is not None]
        if not parts or len(parts) < len(self.stages):
            return None
        return Times(tuple(map(sum, zip(*(part.values for part in parts), strict=True))), parts[0].mark)

    @property
    def host(self) -> Times | None:
        """All launches of a frame together, run by run."""
        if not self.stages:
            return None
        return Times(tuple(map(sum, zip(*(stage.host.values for stage in self.stages), strict=True))), "measured")

    def as_json(self) -> dict[str, Any]:
        timeline = self.timeline
        return {
            "implementation": self.name,
            "device": self.device,
            "verified": self.passed,
            "checks": [
                {"stage": c.stage, "max_error": _finite(c.error), "tolerance": c.tolerance, "differing_from_float32": c.differing, "passed": c.passed}
                for c in self.checks
            ],
            "host_seconds": None if self.host is None else self.host.as_json(),
            "device_us": None if self.device_us is None else self.device_us.as_json(),
            "counted_on": self.counted_on or None,
            "stages": [stage.as_json() for stage in self.stages],
            "timeline": None
            if timeline is None
            else {
                "frames": self.frames,
                "mark": "measured" if timeline.measured else "estimated",
                "total_us": timeline.total_us,
                "copy_us": timeline.copy_us,
                "kernel_us": timeline.kernel_us,
                "overlap_us": timeline.overlap_us,
            },
        }


@dataclass(frozen=True)
class ImageRow:
    """One image of the run, in short."""

    name: str
    size: str
    status: str
    note: str


@dataclass(frozen=True)
class Card:
    """All of it. height, width: what was measured, which is `whole` or the upper left of the image."""

    image: str
    layout: str
    height: int
    width: int
    whole: bool
    implementations: tuple[Implementation, ...]
    pictures: tuple[Picture, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    images: Sequence[ImageRow] = ()

    @property
    def passed(self) -> bool:
        return all(one.passed for one in self.implementations)

    def as_json(self) -> dict[str, Any]:
        """The `report` object of the JSON result."""
        return {
            "image": self.image,
            "measured": {"width": self.width, "height": self.height, "whole": self.whole},
            "environment": dict(self.environment),
            "implementations": [one.as_json() for one in self.implementations],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
