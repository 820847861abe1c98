"""A number as a report shows it: for a person, for a program, and with the mark that says how it came about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Mark = Literal["exact", "measured", "modelled", "estimated"]

MEANINGS: dict[Mark, str] = {
    "exact": "follows from the program and its input alone; hardware counts the same",
    "measured": "read from a clock or a counter in this run",
    "modelled": "counted on the simulator by a rule that comes close to the hardware's",
    "estimated": "computed from counts by the model of a GPU's time, not measured on one",
}
LETTERS: dict[Mark, str] = {"exact": "=", "measured": "◷", "modelled": "~", "estimated": "≈"}


@dataclass(frozen=True)
class Number:
    """value: None where there is nothing to show; unit: behind it; digits: significant ones of what is no whole number."""

    value: float | None
    mark: Mark
    unit: str = ""
    digits: int = 3

    @property
    def letter(self) -> str:
        return LETTERS[self.mark]

    @property
    def known(self) -> bool:
        return self.value is not None and not math.isnan(self.value)

    @property
    def text(self) -> str:
        """As people read it; an em dash for nothing."""
        if self.value is None or math.isnan(self.value):
            return "—"
        return f"{shown(self.value, self.digits)}{' ' + self.unit if self.unit else ''}"


def shown(value: float, digits: int = 3) -> str:
    """1,234,567 for whole numbers, `digits` significant digits otherwise, no exponent between 0.0001 and a million."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{decimals}f}"
    return f"{value:.{digits}g}"
