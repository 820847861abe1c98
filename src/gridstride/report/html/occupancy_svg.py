"""Occupancy over block sizes as a picture, with the launch's own block size in it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from gridstride.report.html import svg

_WIDTH, _HEIGHT = 720.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 16.0, 16.0, 44.0


def occupancy_curve(curve: Sequence[tuple[int, float]], threads: int, percent: float) -> Markup:
    """curve: percent by threads a block, rising; threads, percent: of the launch."""
    most = curve[-1][0]

    def x(size: float) -> float:
        return _LEFT + size / most * (_WIDTH - _LEFT - _RIGHT)

    def y(share: float) -> float:
        return _TOP + (100 - share) / 100 * (_HEIGHT - _TOP - _BOTTOM)

    parts = []
    for share in (0, 25, 50, 75, 100):
        parts += [svg.line(_LEFT, y(share), _WIDTH - _RIGHT, y(share), "grid"), svg.text(_LEFT - 6, y(share) + 4, f"{share} %", "end", "quiet")]
    for size in range(0, most + 1, 128):
        parts.append(svg.text(x(size), _HEIGHT - 26, f"{size}", "middle", "quiet"))
    parts.append(svg.text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "threads a block", "middle"))
    parts.append(svg.path([(x(size), y(share)) for size, share in curve], "curve"))
    parts.append(svg.circle(x(threads), y(percent), 5, "c2", f"this launch: {threads} threads a block, {percent:.3g} %"))
    best = max(share for _, share in curve)
    sizes = ", ".join(str(size) for size, share in curve if share == best)
    described = f"This launch has {threads} threads a block and {percent:.3g} percent occupancy. The most, {best:.3g} percent, is reached with {sizes} threads a block."
    return svg.picture(_WIDTH, _HEIGHT, "Occupancy over block sizes", described, parts)
