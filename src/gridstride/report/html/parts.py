"""What templates show: tables, pictures, words with a colour."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gridstride.report.html.number import Number


@dataclass(frozen=True)
class Word:
    """Text in the colour of what it says."""

    text: str
    style: Literal["good", "bad", "warn", "soft"]


Cell = str | Number | Word


@dataclass(frozen=True)
class Table:
    """name: of its caption, one of its own in the page; the first cell of a row is its heading. Columns of numbers stand to the right; a wide
    last column holds sentences and paths, which may break."""

    name: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    wide: bool = False

    @property
    def numeric(self) -> frozenset[int]:
        """Columns with numbers in them."""
        return frozenset(k for row in self.rows for k, cell in enumerate(row) if isinstance(cell, Number))


@dataclass(frozen=True)
class Picture:
    """An image inside the page. data: an encoded file; alt: what somebody who does not see it misses."""

    data: bytes
    kind: Literal["png", "jpeg"]
    width: int
    height: int
    alt: str
    caption: str

    @property
    def uri(self) -> str:
        return f"data:image/{self.kind};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True)
class ShownAdvice:
    """A piece of advice with its source line."""

    code: str
    name: str
    where: str
    message: str
    source: str
    metric: str
    now: Number
    then: Number
    at_best: bool
    how: str


def passed(good: bool) -> Word:
    """The verdict on a check."""
    return Word("ok", "good") if good else Word("FAILED", "bad")


def dimensions(value: Sequence[Any]) -> str:
    """A grid or block without the ones at its end: 32×8."""
    used = max((k for k, extent in enumerate(value) if extent > 1), default=0) + 1
    return "×".join(f"{extent:,}" for extent in value[:used])
