"""The little SVG that the pictures need. Colours are classes of the style sheet, so that they follow light and dark."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from markupsafe import Markup, escape

_names = itertools.count()


def picture(width: float, height: float, title: str, description: str, content: Iterable[Markup]) -> Markup:
    """An SVG of width × height units, with a title and a description for those who do not see it."""
    name = f"svg{next(_names)}"
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-labelledby="{}-t {}-d"><title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>').format(
        f"{width:g}", f"{height:g}", name, name, name, title, name, description, Markup("").join(content)
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(*_short(x1, y1, x2, y2), style)


def path(points: Iterable[tuple[float, float]], style: str) -> Markup:
    """A line through points."""
    return Markup('<polyline points="{}" class="{}"/>').format(" ".join(",".join(_short(x, y)) for x, y in points), style)


def text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}"{}>{}</text>').format(*_short(x, y), anchor, _class(style), words)


def rectangle(x: float, y: float, width: float, height: float, style: str, tip: str = "") -> Markup:
    """A bar; `tip` is told where the mouse rests on it."""
    inside = Markup("<title>{}</title>").format(tip) if tip else Markup("")
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(*_short(x, y, width, height), style, inside)


def circle(x: float, y: float, radius: float, style: str, tip: str = "") -> Markup:
    inside = Markup("<title>{}</title>").format(tip) if tip else Markup("")
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(*_short(x, y, radius), style, inside)


def _class(style: str) -> Markup:
    return Markup(' class="{}"').format(style) if style else Markup("")


def _short(*values: float) -> list[str]:
    return [str(escape(f"{value:.2f}".rstrip("0").rstrip("."))) for value in values]
