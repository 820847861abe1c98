"""What threads learn from each other at the barrier of a cluster and at mbarriers (PTX ISA 8, 9.7.13.3, 9.7.13.15).

Whoever arrives leaves there what it knows, whoever has waited takes what was left: warps at a time, for barriers are met by many threads. What is
left at one place only grows, so of what a warp has taken there in turn the latest says it all; the earlier ones are kept for those who know of
the earlier waiting only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

Thread = tuple[int, int]  # block, thread in the block
WHOLE_WARP = 0xFFFF_FFFF


@dataclass
class Knowledge:
    """Up to when accesses are known: of single threads, and of whole warps (block, warp)."""

    threads: dict[Thread, int] = field(default_factory=dict)
    warps: dict[tuple[int, int], int] = field(default_factory=dict)

    def join(self, other: Knowledge) -> None:
        for mine, theirs in ((self.threads, other.threads), (self.warps, other.warps)):
            for key, time in theirs.items():
                if mine.get(key, -1) < time:
                    mine[key] = time

    def covers(self, thread: Thread, time: int) -> bool:
        block, number = thread
        return self.threads.get(thread, -1) >= time or self.warps.get((block, number // 32), -1) >= time


class Order(Protocol):
    """The order of one block's accesses (see lower/race_order.py)."""

    warps: int

    def known(self, warp: int, other: int) -> int: ...

    def together(self, warp: int) -> int: ...

    def pair(self, warp: int, lane: int, other: int) -> int: ...


@dataclass(frozen=True)
class _Taken:
    """What the lanes of a warp took, and when."""

    lanes: int
    time: int
    knowledge: Knowledge


@dataclass
class _Place:
    """What has been left at one place; `copy`: as those take it who come before the next arrival."""

    left: Knowledge = field(default_factory=Knowledge)
    copy: Knowledge | None = None


class Meetings:
    """All barriers of one launch that blocks of a cluster, or threads of a block at an mbarrier, meet at."""

    def __init__(self) -> None:
        self._places: dict[Hashable, _Place] = {}
        # of a block: warp and place -> what the warp has taken there, in turn
        self._taken: dict[int, dict[tuple[int, Hashable], list[_Taken]]] = {}

    def leave(self, place: Hashable, knowledge: Knowledge) -> None:
        """Threads arrive with what they know."""
        at = self._places.setdefault(place, _Place())
        at.left.join(knowledge)
        at.copy = None

    def forget(self, place: Hashable) -> None:
        """Nobody will come to this place any more."""
        self._places.pop(place, None)

    def take(self, place: Hashable, race: Order, block: int, warp: int, lanes: list[int], now: int, chain: Hashable = None) -> None:
        """Lanes of a warp have waited. chain: what places have in common whose contents grow from one to the next; by default the place alone."""
        at = self._places.get(place)
        if at is None:
            return
        if at.copy is None:
            at.copy = Knowledge(dict(at.left.threads), dict(at.left.warps))
        entries = self._taken.setdefault(block, {}).setdefault((warp, place if chain is None else chain), [])
        known_to_all = min((race.known(other, warp) for other in range(race.warps) if other != warp), default=now)
        passed = [k for k, entry in enumerate(entries) if entry.time <= known_to_all and entry.lanes == WHOLE_WARP]
        del entries[: passed[-1] if passed else 0]
        entries.append(_Taken(sum(1 << lane for lane in lanes), now, at.copy))

    def known_to(self, race: Order, block: int, warp: int, lanes: list[int]) -> Iterator[Knowledge]:
        """All that some lanes of a warp have from meetings, their own and those they know of."""
        mask = sum(1 << lane for lane in lanes)
        for (met, _), entries in self._taken.get(block, {}).items():
            for entry in reversed(entries):
                if _has(race, warp, mask, met, entry):
                    yield entry.knowledge
                    if entry.lanes & mask == mask or met != warp:  # all that was taken before is in it
                        break


def _has(race: Order, warp: int, lanes: int, met: int, entry: _Taken) -> bool:
    """Whether some lane of a warp knows what lanes of warp `met` took."""
    if met != warp:
        return entry.time <= race.known(warp, met)
    if entry.lanes & lanes:
        return True
    lane, other = ((mask & -mask).bit_length() - 1 for mask in (lanes, entry.lanes))
    return entry.time <= max(race.together(warp), race.pair(warp, lane, other))
