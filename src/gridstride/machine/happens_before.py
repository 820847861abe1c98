"""What fences carry from thread to thread, beside barriers (PTX ISA 8, memory consistency model).

A thread that fences and then writes a location by an atomic, volatile or relaxed operation leaves there what it knows:
its own accesses, those of its block that a barrier has ordered before, and all that it has learnt itself. A thread
that reads the location by such an operation and then fences learns it. A read-modify-write adds to what lies there.

Only kernels with fences need this; their fences and their operations that are not plain come here one by one.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from gridstride.lower.race_cells import BLOCK_SHIFT, THREAD_BITS, TIME_BITS, TIME_MASK
from gridstride.lower.records import BLOCK, RACE, WARP
from gridstride.machine.meetings import Knowledge, Meetings, Thread

BLOCK_SCOPE, DEVICE_SCOPE = 0, 1


@dataclass(frozen=True)
class _Left:
    """What a release left at a location."""

    thread: Thread
    scope: int
    time: int  # of the release, by the thread's own clock
    knowledge: Knowledge


@dataclass(frozen=True)
class _Learnt:
    """What a thread of a block learnt, and when: others of its block know it once they know that access."""

    thread: int
    time: int
    knowledge: Knowledge


class HappensBefore:
    """The order between threads in one launch that fences make."""

    def __init__(self) -> None:
        self.first_block = 1  # number of the launch's first block in shadow cells
        self._released: dict[Thread, _Left] = {}
        # by whom it was left and how far it carries: what a thread releases later includes what it released before
        self._seen: dict[Thread, dict[tuple[Thread, int], _Left]] = {}
        self._taken: dict[Thread, dict[int, _Left]] = {}  # what a thread has learnt from already, by identity
        self._left: dict[int, list[_Left]] = {}  # a new list whenever it changes
        # what a thread found at an address last: a loop that waits finds the same again and again
        self._found: dict[tuple[Thread, int], list[_Left]] = {}
        self._learnt: dict[int, list[_Learnt]] = {}
        # what each thread knows by what it or others of its block learnt, and which of that is in it already, by identity
        self._gathered: dict[Thread, Knowledge] = {}
        self._in_it: dict[Thread, set[int]] = {}
        self._meetings = Meetings()

    def fence(self, block: int, warp: int, lanes: list[int], scope: int) -> None:
        """Each lane both releases and acquires."""
        race = _Race(block)
        number, index = _linear(block), _index(warp)
        now = race.tick()
        for lane in lanes:
            thread = (number, index * 32 + lane)
            learnt = Knowledge()
            taken = self._taken.setdefault(thread, {})
            seen = self._seen.get(thread, {})
            # what this fence does not reach far enough for waits for one that does
            reached = [key for key, left in seen.items() if left.thread[0] == number or (left.scope >= DEVICE_SCOPE and scope >= DEVICE_SCOPE)]
            for left in [seen.pop(key) for key in reached]:
                if id(left) not in taken:
                    learnt.join(left.knowledge)
                    taken[id(left)] = left
            if learnt.threads or learnt.warps:
                self._learnt.setdefault(number, []).append(_Learnt(thread[1], now, learnt))
            self._released[thread] = _Left(thread, scope, now, self._known(race, thread, now))

    def _known(self, race: _Race, thread: Thread, now: int, lanes: list[int] | None = None) -> Knowledge:
        """All that a thread knows, and what others of its warp (`lanes`, itself among them) have from meetings."""
        block, number = thread
        index = number // 32
        gathered = self._gathered.setdefault(thread, Knowledge())
        in_it = self._in_it.setdefault(thread, set())
        for learnt in self._learnt.get(block, []):
            if id(learnt) not in in_it and self._has(race, number, learnt):
                gathered.join(learnt.knowledge)
                in_it.add(id(learnt))
        known = Knowledge(dict(gathered.threads), dict(gathered.warps))
        own = {(block, other): race.known(index, other) for other in range(race.warps)}
        known.join(Knowledge({thread: now}, {**own, (block, index): race.together(index)}))
        met = self._meetings.known_to(race, block, index, lanes or [number % 32])
        for knowledge in {id(knowledge): knowledge for knowledge in met}.values():  # warps that met hold the same
            known.join(knowledge)
        return known

    @staticmethod
    def _has(race: _Race, number: int, learnt: _Learnt) -> bool:
        if learnt.thread == number:
            return True
        if learnt.thread // 32 == number // 32:
            together = max(race.together(number // 32), race.pair(number // 32, number % 32, learnt.thread % 32))
            return learnt.time <= together
        return learnt.time <= race.known(number // 32, learnt.thread // 32)

    def access(self, block: int, warp: int, lanes: list[int], addresses: list[int], reads: bool, writes: bool) -> None:
        """An atomic, volatile or relaxed operation of each lane on its own address."""
        number, index = _linear(block), _index(warp)
        for lane, address in zip(lanes, addresses, strict=True):
            thread = (number, index * 32 + lane)
            at = self._left.get(address)
            if reads and at and self._found.get((thread, address)) is not at:
                self._found[thread, address] = at
                seen = self._seen.setdefault(thread, {})
                for left in at:
                    before = seen.get((left.thread, left.scope))
                    if before is None or before.time < left.time:
                        seen[left.thread, left.scope] = left
            if writes:
                released = self._released.get(thread)
                if not reads:
                    self._left[address] = [released] if released else []
                elif released:
                    # what a thread releases later includes what it released before
                    kept = [left for left in at or () if left.thread != thread or left.scope > released.scope]
                    self._left[address] = [*kept, released]

    def arrive(self, block: int, warp: int, lanes: list[int]) -> None:
        """Lanes come to the cluster's barrier: its phase gathers what they know."""
        self._meetings.leave(_cluster_phase(block), self._known_by_lanes(block, warp, lanes))

    def depart(self, block: int, warp: int, lanes: list[int]) -> None:
        """Lanes go on after the cluster's barrier, knowing what was gathered in the phase that is complete."""
        first, phase = _cluster_phase(block)
        self._meetings.forget((first, phase - 2))
        race = _Race(block)
        self._meetings.take((first, phase - 1), race, _linear(block), _index(warp), lanes, race.tick(), chain="cluster")

    def arrive_at_mbarrier(self, block: int, warp: int, lanes: list[int], places: list[int], own: list[bool], scope: int) -> None:
        """Lanes arrive at mbarriers; own: whether each is in the block's own memory. Who arrives at another block's at the scope of its block only
        hands over nothing."""
        for place in dict.fromkeys(places):
            here = [lane for lane, at in zip(lanes, places, strict=True) if at == place]
            knowledge = self._known_by_lanes(block, warp, here)
            if own[places.index(place)]:
                self._meetings.leave((place, BLOCK_SCOPE), knowledge)
            if scope >= DEVICE_SCOPE:
                self._meetings.leave((place, DEVICE_SCOPE), knowledge)

    def wait_at_mbarrier(self, block: int, warp: int, lanes: list[int], places: list[int], scope: int) -> None:
        """A phase that lanes have waited for is complete."""
        race = _Race(block)
        now = race.tick()
        for place in dict.fromkeys(places):
            here = [lane for lane, at in zip(lanes, places, strict=True) if at == place]
            for reach in (BLOCK_SCOPE, DEVICE_SCOPE)[: scope + 1]:
                self._meetings.take((place, reach), race, _linear(block), _index(warp), here, now)

    def _known_by_lanes(self, block: int, warp: int, lanes: list[int]) -> Knowledge:
        """All that some lanes of a warp know together, their own accesses included."""
        race, number, index = _Race(block), _linear(block), _index(warp)
        now = race.tick()
        known = self._known(race, (number, index * 32 + lanes[0]), now, lanes)
        if len(lanes) == 32:
            known.warps[number, index] = now
        else:
            known.threads.update({(number, index * 32 + lane): now for lane in lanes})
        for learnt in self._learnt.get(number, []):
            if learnt.thread // 32 == index and learnt.thread % 32 in lanes:
                known.join(learnt.knowledge)
        return known

    def ordered(self, block: int, warp: int, lane: int, cell: int) -> bool:
        """Whether the access in a shadow cell is known to come before what this lane does now."""
        other = ((cell >> BLOCK_SHIFT) - self.first_block, cell >> TIME_BITS & ((1 << THREAD_BITS) - 1))
        time = cell & TIME_MASK
        race = _Race(block)
        number = _index(warp) * 32 + lane
        if any(self._has(race, number, learnt) and learnt.knowledge.covers(other, time) for learnt in reversed(self._learnt.get(_linear(block), []))):
            return True
        return any(knowledge.covers(other, time) for knowledge in self._meetings.known_to(race, _linear(block), _index(warp), [lane]))


def _linear(block: int) -> int:
    return ctypes.c_int64.from_address(block + BLOCK.offset("linear")).value


def _index(warp: int) -> int:
    return ctypes.c_int32.from_address(warp + WARP.offset("index")).value


def _cluster_phase(block: int) -> tuple[int, int]:
    """The first block of a block's cluster, and the phase that the cluster's barrier is in."""
    first = ctypes.c_int64.from_address(block + BLOCK.offset("cluster")).value
    return _linear(first), ctypes.c_int32.from_address(first + BLOCK.offset("cluster_phase")).value


class _Race:
    """A block's RACE record in native memory."""

    def __init__(self, block: int) -> None:
        self.address = ctypes.c_int64.from_address(block + BLOCK.offset("race")).value
        self.warps = ctypes.c_int32.from_address(block + BLOCK.offset("warp_count")).value

    def _number(self, field: str, index: int) -> int:
        return ctypes.c_uint32.from_address(self.address + RACE.offset(field) + 4 * index).value

    def tick(self) -> int:
        event = ctypes.c_uint32.from_address(self.address + RACE.offset("event"))
        event.value += 1
        return event.value - 1

    def known(self, warp: int, other: int) -> int:
        return self._number("known", warp * 32 + other)

    def together(self, warp: int) -> int:
        return self._number("together", warp)

    def pair(self, warp: int, lane: int, other: int) -> int:
        return self._number("lanes", warp * 1024 + lane * 32 + other)
