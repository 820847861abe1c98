"""The roofline as a plot in text: both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gridstride.observers.metrics.roof import Roofline

_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Point:
    """A kernel: its intensity, FLOP/byte, and what it reached, TFLOP/s (None: nobody measured; it is drawn on the roof)."""

    name: str
    intensity: float
    tflops: float | None = None


def plot(peak_tflops: float, bandwidth_gbs: float, points: Sequence[Point], width: int = 72, height: int = 16) -> str:
    """The roof, the ridge (+) and the points (A, B, …), with a scale at every power of ten."""
    shown = [p for p in points if p.intensity > 0 and math.isfinite(p.intensity)]
    ridge = peak_tflops * 1000 / bandwidth_gbs
    low = math.floor(math.log10(min([ridge / 100, *(p.intensity for p in shown)])))
    high = math.ceil(math.log10(max([ridge * 10, *(p.intensity for p in shown)])))
    reached = [p.tflops for p in shown if p.tflops is not None and p.tflops > 0]
    top = math.ceil(math.log10(max([peak_tflops, *reached])))
    bottom = math.floor(math.log10(min([_attainable(10.0**low, peak_tflops, bandwidth_gbs), *reached])))
    grid = [[" "] * width for _ in range(height)]

    def column(intensity: float) -> int:
        return round((math.log10(intensity) - low) / (high - low) * (width - 1))

    def row(tflops: float) -> int:
        return round((top - math.log10(tflops)) / (top - bottom) * (height - 1))

    previous = None
    for x in range(width):
        intensity = 10 ** (low + (high - low) * x / (width - 1))
        y = row(_attainable(intensity, peak_tflops, bandwidth_gbs))
        grid[y][x] = "─" if y == previous and intensity >= ridge else "╱" if intensity < ridge else "─"
        previous = y
    grid[row(peak_tflops)][column(ridge)] = "+"
    for k, point in enumerate(shown):
        tflops = point.tflops if point.tflops else _attainable(point.intensity, peak_tflops, bandwidth_gbs)
        # Points that fall on one place stand side by side.
        line, at = grid[row(tflops)], column(point.intensity)
        free = (x for distance in range(width) for x in (at - distance, at + distance) if 0 <= x < width and line[x] not in _MARKS)
        line[next(free, at)] = mark(k)
    labels = {row(10.0**power): f"{10.0**power:g}" for power in range(bottom, top + 1)}
    lines = [f"{labels.get(y, ''):>8} ┤{''.join(cells).rstrip()}" for y, cells in enumerate(grid)]
    ticks = [" "] * (width + 8)
    for power in range(low, high + 1):
        text = f"{10.0**power:g}"
        at = column(10.0**power)
        ticks[at : at + len(text)] = text
    lines.append(f"{'':8} └{'─' * width}")
    lines.append(f"{'TFLOP/s':>8}  {''.join(ticks).rstrip()}  FLOP/byte")
    return "\n".join(lines)


def mark(index: int) -> str:
    """The letter of the point at `index` among those that are drawn."""
    return _MARKS[index % len(_MARKS)]


def _attainable(intensity: float, peak_tflops: float, bandwidth_gbs: float) -> float:
    return Roofline(intensity, peak_tflops, bandwidth_gbs).attainable_tflops
