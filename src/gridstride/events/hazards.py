"""Two operations at once on the same bytes: what each reads and writes, and whether one of them certainly comes first.

Bytes are addresses, of the device or of the host; an access is a set of ranges. An operation that the host has waited for is past for
everything that comes later and is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gridstride.events.order import Order, Stamp

Ranges = npt.NDArray[np.int64]
"""Rows of first and behind-the-last address, ascending and without overlap."""
NOTHING: Ranges = np.zeros((0, 2), np.int64)
_MOST_KEPT = 4096


def ranges(spans: Iterable[tuple[int, int]]) -> Ranges:
    """Spans of addresses, merged and in order."""
    merged: list[list[int]] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return np.array(merged, np.int64).reshape(-1, 2)


def runs(mask: npt.NDArray[np.bool_], address: int) -> list[tuple[int, int]]:
    """The spans of addresses where a mask over words from `address` on is set."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(address + 4 * int(a), address + 4 * int(b)) for a, b in edges.reshape(-1, 2)]


def first_common(a: Ranges, b: Ranges) -> tuple[int, int] | None:
    """The first address that both hold, and how many bytes from there on."""
    if not len(a) or not len(b) or a[-1, 1] <= b[0, 0] or b[-1, 1] <= a[0, 0]:
        return None
    place = np.searchsorted(b[:, 1], a[:, 0], side="right")
    inside = place < len(b)
    low = np.maximum(a[inside, 0], b[place[inside], 0])
    high = np.minimum(a[inside, 1], b[place[inside], 1])
    hits = np.flatnonzero(high > low)
    if not len(hits):
        return None
    return int(low[hits[0]]), int(high[hits[0]] - low[hits[0]])


@dataclass(frozen=True)
class Access:
    """What one operation does to memory. what: in words; stream: what its stream is called."""

    stamp: Stamp
    what: str
    kernel: str
    stream: str
    reads: Ranges
    writes: Ranges
    updates: Ranges = field(default_factory=lambda: NOTHING)
    """What only atomics touched: they do not mind each other."""


@dataclass(frozen=True)
class Hazard:
    """Two accesses of which neither certainly comes first. `later` None: the host itself. how: what the earlier and the later do."""

    earlier: Access
    later: Access | None
    how: tuple[str, str]
    address: int
    nbytes: int


@dataclass
class Hazards:
    """Everything that may still be under way on one device."""

    order: Order
    _kept: list[Access] = field(default_factory=list)

    def add(self, access: Access) -> list[Hazard]:
        """An operation was asked for; the hazards it makes with those before it."""
        self._forget()
        found = [
            hazard
            for earlier in self._kept
            if not access.stamp.follows(earlier.stamp)
            for hazard in [_conflict(earlier, access, access.reads, access.writes, access.updates)]
            if hazard is not None
        ]
        self._kept.append(access)
        del self._kept[:-_MOST_KEPT]
        return _nearest(found)

    def host(self, reads: Ranges, writes: Ranges) -> list[Hazard]:
        """The host itself reads or writes; the hazards that makes with what may be under way."""
        self._forget()
        found = (_conflict(earlier, None, reads, writes, NOTHING) for earlier in self._kept)
        return _nearest([hazard for hazard in found if hazard is not None])

    def _forget(self) -> None:
        self._kept = [access for access in self._kept if not self.order.host_knows(access.stamp)]


def _nearest(found: Sequence[Hazard]) -> list[Hazard]:
    """The hazards without those with operations that another of them certainly follows: waiting for that one is enough."""
    return [h for h in found if not any(other.earlier.stamp.follows(h.earlier.stamp) for other in found if other is not h)]


def _conflict(earlier: Access, later: Access | None, reads: Ranges, writes: Ranges, updates: Ranges) -> Hazard | None:
    pairs: Sequence[tuple[Ranges, Ranges, tuple[str, str]]] = (
        (earlier.writes, writes, ("writes", "writes")),
        (earlier.writes, reads, ("writes", "reads")),
        (earlier.reads, writes, ("reads", "writes")),
        (earlier.updates, writes, ("updates", "writes")),
        (earlier.updates, reads, ("updates", "reads")),
        (earlier.writes, updates, ("writes", "updates")),
        (earlier.reads, updates, ("reads", "updates")),
    )
    for mine, others, how in pairs:
        common = first_common(mine, others)
        if common is not None:
            return Hazard(earlier, later, how, *common)
    return None
