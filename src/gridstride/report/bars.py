"""Bars of characters, for plots in text."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(fraction: float, width: int) -> str:
    """A horizontal bar of `width` characters for 1, to an eighth of a character."""
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
