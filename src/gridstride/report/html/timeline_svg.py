"""A timeline as a picture: a lane for the host's waits and one for each stream, bars by what runs."""

from __future__ import annotations

import math

from markupsafe import Markup

from gridstride.events.operations import Kind
from gridstride.events.timeline import Timeline
from gridstride.report.html import svg

_WIDTH, _LEFT, _RIGHT = 860.0, 110.0, 16.0
_LANE, _BAR, _TOP = 34.0, 22.0, 30.0
_MOST_BARS = 600
"""Later operations are left out, and the picture says so: a page has to stay small."""

_COLOURS = {Kind.KERNEL: "c1", Kind.TO_DEVICE: "c2", Kind.PREFETCH_TO_DEVICE: "c2", Kind.TO_HOST: "c3", Kind.PREFETCH_TO_HOST: "c3"}
_OTHER = "c4"
_LEGEND = (("c1", "kernel"), ("c2", "copy to device"), ("c3", "copy to host"), (_OTHER, "other"))


def timeline(shown: Timeline) -> Markup:
    """The picture of a timeline; its text and totals are the caller's to add."""
    everything = shown.operations
    operations = set(map(id, everything[:_MOST_BARS]))
    rows = [(name, [p for p in row if id(p) in operations]) for name, row in shown.rows()]
    placed = [p for _, row in rows for p in row]
    begin = min((p.start for p in placed), default=0.0)
    end = max((p.end for p in placed), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(end - begin, 1e-9)

    def x(moment: float) -> float:
        return _LEFT + (min(max(moment, begin), end) - begin) * scale

    waits = [w for w in shown.host_waits if w.end > begin and w.start < end]
    bars: list[tuple[float, float, str, str]] = [(w.start, w.end, f"wait: {w.what}", _OTHER) for w in waits]
    lanes = [("host waits", bars)] if waits else []
    for name, row in rows:
        bars = [(p.start, p.end, p.operation.name, _COLOURS.get(p.operation.kind, _OTHER)) for p in row]
        lanes.append((name.removeprefix("the ").replace("`", ""), bars))
    height = _TOP + _LANE * len(lanes) + 40
    parts = []
    step = _step(end - begin)
    for k in range(math.floor((end - begin) / step) + 1):
        at = x(begin + k * step)
        parts += [svg.line(at, _TOP - 6, at, height - 40, "grid"), svg.text(at, _TOP - 12, f"{k * step:g}", "middle", "quiet")]
    parts.append(svg.text(4, _TOP - 12, "µs"))
    for number, (name, bars) in enumerate(lanes):
        y = _TOP + number * _LANE
        parts.append(svg.text(4, y + 17, name if len(name) <= 16 else f"{name[:15]}…"))
        for start, stop, what, style in bars:
            tip = f"{what}: {start - begin:,.1f} to {stop - begin:,.1f} µs"
            parts.append(svg.rectangle(x(start), y, max(x(stop) - x(start), 0.75), _BAR, f"bar {style}", tip))
    at = _LEFT
    for style, word in _LEGEND:
        parts += [svg.rectangle(at, height - 22, 12, 12, f"swatch {style}"), svg.text(at + 17, height - 12, word)]
        at += 40 + 7 * len(word)
    left_out = f" The first {_MOST_BARS} of {len(everything):,} operations." if len(everything) > _MOST_BARS else ""
    described = "; ".join(f"{name}: {len(bars)} operation{'' if len(bars) == 1 else 's'}" for name, bars in lanes)
    return svg.picture(_WIDTH, height, f"Timeline of {shown.device}", f"{end - begin:,.1f} µs. {described}.{left_out}", parts)


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are four to ten of them."""
    power = 10.0 ** math.floor(math.log10(max(span, 1e-6) / 4))
    return next((factor * power for factor in (5, 2) if factor * power * 4 <= span), power)
