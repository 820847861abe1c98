"""The roofline as a picture: both axes logarithmic, a dot for each kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from gridstride.report.html import svg
from gridstride.report.html.number import shown
from gridstride.report.roofline_plot import Point, mark

_WIDTH, _HEIGHT = 720.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 32.0, 48.0
_APART = 14.0


def roofline(peak_tflops: float, bandwidth_gbs: float, points: Sequence[Point]) -> Markup:
    """The roof of a device and the kernels under it. Points whose speed nobody knows stand on the roof, those without arithmetic nowhere."""
    placed = [point for point in points if point.intensity > 0 and math.isfinite(point.intensity)]
    ridge = peak_tflops * 1000 / bandwidth_gbs

    def roof(intensity: float) -> float:
        return min(peak_tflops, intensity * bandwidth_gbs / 1000)

    speeds = [point.tflops or roof(point.intensity) for point in placed]
    low = math.floor(math.log10(min([ridge / 100, *(point.intensity for point in placed)])))
    high = math.ceil(math.log10(max([ridge * 10, *(point.intensity for point in placed)])))
    top = math.ceil(math.log10(max([peak_tflops, *speeds])))
    bottom = math.floor(math.log10(min([roof(10.0**low), *speeds])))

    def x(intensity: float) -> float:
        return _LEFT + (math.log10(intensity) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(tflops: float) -> float:
        return _TOP + (top - math.log10(tflops)) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)

    parts = []
    for power in range(low, high + 1):
        parts += [svg.line(x(10.0**power), _TOP, x(10.0**power), _HEIGHT - _BOTTOM, "grid"), svg.text(x(10.0**power), _HEIGHT - 30, f"{10.0**power:g}", "middle", "quiet")]
    for power in range(bottom, top + 1):
        parts += [svg.line(_LEFT, y(10.0**power), _WIDTH - _RIGHT, y(10.0**power), "grid"), svg.text(_LEFT - 6, y(10.0**power) + 4, f"{10.0**power:g}", "end", "quiet")]
    parts.append(svg.text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "FLOP per byte of sectors moved", "middle"))
    parts.append(svg.text(4, 12, "TFLOP/s"))
    parts.append(svg.path([(x(10.0**low), y(roof(10.0**low))), (x(ridge), y(peak_tflops)), (x(10.0**high), y(peak_tflops))], "roof"))
    parts.append(svg.text(_WIDTH - _RIGHT - 4, y(peak_tflops) - 6, f"{peak_tflops:.3g} TFLOP/s", "end"))
    parts.append(svg.text(x(ridge / 30), y(roof(ridge / 30)) - 10, f"{bandwidth_gbs:,.0f} GB/s", "end"))
    taken: list[tuple[float, float]] = []
    for number, (point, speed) in enumerate(zip(placed, speeds, strict=True)):
        at = (x(point.intensity), y(speed))
        parts.append(svg.circle(*at, 4.5, f"c{number % 4 + 1}", f"{point.name}: {shown(point.intensity)} FLOP/byte, {shown(speed)} TFLOP/s"))
        letter = (at[0] + 8, at[1] + 14)
        while any(abs(letter[0] - a) < _APART and abs(letter[1] - b) < _APART for a, b in taken):
            letter = (letter[0] + _APART, letter[1])
        taken.append(letter)
        parts.append(svg.text(*letter, mark(number)))
    told = "; ".join(f"{mark(k)} {p.name} at {shown(p.intensity)} FLOP per byte, {shown(s)} TFLOP/s" for k, (p, s) in enumerate(zip(placed, speeds, strict=True)))
    description = f"The roof rises with {bandwidth_gbs:,.0f} GB/s to {peak_tflops:.3g} TFLOP/s at {ridge:.3g} FLOP per byte. {told or 'No kernel computes with floating point.'}"
    return svg.picture(_WIDTH, _HEIGHT, "Roofline", description, parts)
