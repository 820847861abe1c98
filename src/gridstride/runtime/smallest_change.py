"""The smallest change to the usual order of blocks or warps that still shows what a seed has shown.

Two bisections: how much of the seed's order it takes, counted from its start, and then how far the one block that makes the
difference has to move ahead. What is left is a pair: this block before that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.machine.orders import Order

MOST_RUNS = 48
_Places = npt.NDArray[Any]


@dataclass(frozen=True)
class Change:
    """what: "blocks" or "warps". Number `first` runs before number `second`; moved: how many others are not where they usually are."""

    what: str
    first: int
    second: int
    moved: int


class _OutOfRuns(Exception):
    """The search has cost enough."""


def smallest_change(usual: Order, failing: Order, shows: Callable[[Order], bool]) -> Change | None:
    """The change, or None where it takes both blocks and warps, or the search would take too long. `shows` runs the launch in an order."""
    left = MOST_RUNS

    def asked(order: Order) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise _OutOfRuns
        return shows(order)

    try:
        return _narrowed("blocks", usual.blocks, failing.blocks, lambda places: asked(replace(usual, blocks=places))) or _narrowed(
            "warps", usual.warps, failing.warps, lambda places: asked(replace(usual, warps=places))
        )
    except _OutOfRuns:
        return None


def _narrowed(what: str, usual: _Places, failing: _Places, shows: Callable[[_Places], bool]) -> Change | None:
    if np.array_equal(usual, failing) or not shows(failing):
        return None

    def begun(count: int) -> _Places:
        """The first of the failing order, then the rest as usual."""
        return np.concatenate([failing[:count], usual[~np.isin(usual, failing[:count])]])

    enough = _least(len(usual), lambda count: shows(begun(count)))
    before, first = begun(enough - 1), failing[enough - 1]
    others = before[before != first]
    place = int(np.flatnonzero(before == first)[0])
    steps = _least(place - (enough - 1), lambda ahead: shows(np.insert(others, place - ahead, first)))
    second = others[place - steps]
    alone = usual[usual != first]
    simple = np.insert(alone, int(np.flatnonzero(alone == second)[0]), first)
    moved = 0 if shows(simple) else int((np.insert(others, place - steps, first) != usual).sum()) - 2
    return Change(what, int(first), int(second), max(moved, 0))


def _least(most: int, enough: Callable[[int], bool]) -> int:
    """A number of 1…most that is enough where the one before is not; `most` is, 0 is not."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
