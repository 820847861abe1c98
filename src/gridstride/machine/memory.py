"""Simulated device memory: one arena of host memory, so that device addresses are host addresses.

Between allocations lie red zones, and freed ones rest in a quarantine before their place is used again, so that an
access past an end or after a free does not silently hit a neighbour.
"""

from __future__ import annotations

import bisect
import collections
import mmap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import GridstrideError, LaunchError
from gridstride.machine.reserve import reserve

RED_ZONE = 4096  # bytes on both sides of every allocation
NEVER = 0xFF  # in the shadow: nobody has written this byte
QUARANTINE = 64 << 20  # bytes that freed allocations may hold before the oldest is reused
ALIGNMENT = 256  # what cudaMalloc promises (CUDA C++ Programming Guide 5.3.2)


def zero(area: mmap.mmap, view: npt.NDArray[np.uint8], start: int, nbytes: int) -> None:
    """Zero a part of reserved memory. Whole pages are given back to the host, so that they take no memory until they are used."""
    page = mmap.PAGESIZE
    stop = start + nbytes
    first = min(start + -start % page, stop)
    last = max(first, stop - stop % page)
    view[start:first] = 0
    view[last:stop] = 0
    if hasattr(mmap, "MADV_DONTNEED"):
        if last > first:
            area.madvise(mmap.MADV_DONTNEED, first, last - first)
    else:
        view[first:last] = 0


class Definedness:
    """One byte for each byte of the arena: 0 written, NEVER not, else a copy of something undefined."""

    def __init__(self, base: int, span: int) -> None:
        self._base = base
        self._map = reserve(span)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)

    @property
    def distance(self) -> int:
        """From an address to its shadow."""
        return int(self._bytes.ctypes.data) - self._base

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        start = address - self._base
        return self._bytes[start : start + nbytes]

    def set_written(self, address: int, nbytes: int) -> None:
        """Whole pages are given back to the host."""
        zero(self._map, self._bytes, address - self._base, nbytes)

    def set_never(self, address: int, nbytes: int) -> None:
        self.view(address, nbytes)[...] = NEVER


@dataclass(eq=False)
class Allocation:
    """A piece of device memory: `size` bytes at `address`."""

    address: int
    size: int
    name: str
    live: bool = True
    undefined: list[tuple[int, int]] = field(default_factory=list)  # ranges of addresses that nobody has written


class Memory:
    """The device's global memory. Not safe for use by several Python threads at once."""

    def __init__(self, capacity: int = 16 << 30) -> None:
        """`capacity` bytes at most are ever allocated at once; only touched pages take host memory."""
        self._map, span = self._reserve(capacity)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.base = int(self._bytes.ctypes.data)
        self.span = span
        self.shadows: dict[str, Any] = {}  # memory of the detectors that watch this memory
        self.capacity = capacity
        self.used = 0
        self.generation = 0  # counts changes of the set of live allocations
        self._starts: list[int] = []
        self._live: dict[int, Allocation] = {}
        first = -(-(self.base + RED_ZONE) // ALIGNMENT) * ALIGNMENT
        self._holes: list[tuple[int, int]] = [(first, self.base + span - RED_ZONE)]
        self._quarantine: collections.deque[tuple[int, int]] = collections.deque()
        self._quarantined = 0
        self._rows: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)  # start and end of what is live, ascending, and room for more
        self._table: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self._table_generation = -1

    @staticmethod
    def _reserve(capacity: int) -> tuple[mmap.mmap, int]:
        span = capacity + QUARANTINE + (1 << 30)
        while True:
            try:
                return reserve(span), span
            except (OSError, ValueError):
                span //= 2
                if span < 64 << 20:
                    raise GridstrideError("the host has no memory left for the simulated device") from None

    def allocate(self, nbytes: int, *, name: str = "", align: int = ALIGNMENT) -> Allocation:
        """Room for `nbytes` bytes (uninitialised). Raises LaunchError where the device's memory is full."""
        if nbytes < 0:
            raise LaunchError(f"cannot allocate {nbytes} bytes")
        align = max(align, ALIGNMENT)
        while True:
            address = self._take(nbytes, align) if self.used + nbytes <= self.capacity else None
            if address is not None:
                break
            if self.used + nbytes > self.capacity or not self._quarantine:
                free = self.capacity - self.used
                raise LaunchError(f"out of device memory: {nbytes:,} bytes asked for, {free:,} free")
            self._release_oldest()
        allocation = Allocation(address, nbytes, name, undefined=[(address, address + nbytes)])
        shadow = self.shadows.get("definedness")
        if shadow is not None:
            shadow.set_never(address, nbytes)
        place = bisect.bisect_left(self._starts, address)
        count = len(self._starts)
        if count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros((max(64, count), 2), np.int64)])
        self._starts.insert(place, address)
        self._rows[place + 1 : count + 1] = self._rows[place:count]
        self._rows[place] = address, address + nbytes
        self._live[address] = allocation
        self.used += nbytes
        self.generation += 1
        return allocation

    def _take(self, nbytes: int, align: int) -> int | None:
        need = max(nbytes, 1) + 2 * RED_ZONE
        for k, (start, end) in enumerate(self._holes):
            address = -(-(start + RED_ZONE) // align) * align
            stop = -(-(address - RED_ZONE + need) // ALIGNMENT) * ALIGNMENT
            if stop <= end:
                self._holes[k : k + 1] = [h for h in ((start, address - RED_ZONE), (stop, end)) if h[1] > h[0]]
                return address
        return None

    def free(self, allocation: Allocation) -> None:
        """Give an allocation back. Raises GridstrideError if it already was."""
        if not allocation.live:
            raise GridstrideError(f"`{allocation.name or 'an allocation'}` is freed a second time")
        allocation.live = False
        del self._live[allocation.address]
        place = bisect.bisect_left(self._starts, allocation.address)
        del self._starts[place]
        self._rows[place : len(self._starts)] = self._rows[place + 1 : len(self._starts) + 1]
        self.used -= allocation.size
        self.generation += 1
        start = allocation.address - RED_ZONE
        stop = -(-(start + max(allocation.size, 1) + 2 * RED_ZONE) // ALIGNMENT) * ALIGNMENT
        self._quarantine.append((start, stop))
        self._quarantined += stop - start
        while self._quarantined > QUARANTINE:
            self._release_oldest()

    def _release_oldest(self) -> None:
        start, stop = self._quarantine.popleft()
        self._quarantined -= stop - start
        self._give_pages_back(start, stop)
        bisect.insort(self._holes, (start, stop))
        merged: list[tuple[int, int]] = []
        for hole in self._holes:
            if merged and merged[-1][1] >= hole[0]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], hole[1]))
            else:
                merged.append(hole)
        self._holes = merged

    def _give_pages_back(self, start: int, stop: int) -> None:
        page = mmap.PAGESIZE
        first, last = -(-(start - self.base) // page) * page, (stop - self.base) // page * page
        if hasattr(mmap, "MADV_DONTNEED") and last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    # ---- what has been written -------------------------------------------------------------------------------

    def mark_written(self, address: int, nbytes: int) -> None:
        """The host has written these bytes."""
        allocation = self.find(address)
        if allocation is not None and allocation.undefined:
            end = address + nbytes
            pieces = [p for a, b in allocation.undefined for p in ((a, min(b, address)), (max(a, end), b)) if p[0] < p[1]]
            allocation.undefined = pieces
        shadow = self.shadows.get("definedness")
        if shadow is not None:
            shadow.set_written(address, nbytes)

    def assume_written(self) -> None:
        """A launch whose writes are not followed has run: everything may have been written."""
        shadow = self.shadows.get("definedness")
        for allocation in self._live.values():
            allocation.undefined = []
            if shadow is not None:
                shadow.set_written(allocation.address, allocation.size)

    def definedness(self) -> Definedness:
        """The shadow of all bytes (see lower/definedness.py), made on first use."""
        shadow: Definedness | None = self.shadows.get("definedness")
        if shadow is None:
            shadow = self.shadows["definedness"] = Definedness(self.base, self.span)
            for allocation in self._live.values():
                for start, end in allocation.undefined:
                    shadow.set_never(start, end - start)
        return shadow

    def all_defined(self, allocation: Allocation) -> bool:
        """Whether no byte of an allocation is undefined, as far as is known."""
        shadow: Definedness | None = self.shadows.get("definedness")
        if shadow is None:
            return not allocation.undefined
        return not shadow.view(allocation.address, allocation.size).any()

    def unwritten(self, address: int, nbytes: int) -> npt.NDArray[np.int64]:
        """Offsets of the bytes that nobody has written, as far as is known."""
        shadow: Definedness | None = self.shadows.get("definedness")
        if shadow is not None:
            return np.flatnonzero(shadow.view(address, nbytes) == NEVER)
        allocation = self.find(address)
        mask = np.zeros(nbytes, bool)
        for start, end in allocation.undefined if allocation is not None else ():
            mask[max(0, start - address) : max(0, end - address)] = True
        return np.flatnonzero(mask)

    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds `address`."""
        k = bisect.bisect_right(self._starts, address) - 1
        if k < 0:
            return None
        allocation = self._live[self._starts[k]]
        return allocation if address < allocation.address + max(allocation.size, 1) else None

    def nearest(self, address: int) -> Allocation | None:
        """The live allocation whose bytes are nearest to `address`."""
        k = bisect.bisect_right(self._starts, address)
        around = [self._live[s] for s in self._starts[max(0, k - 1) : k + 1]]
        return min(around, key=lambda a: max(a.address - address, address - (a.address + a.size), 0), default=None)

    def bytes_view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """A writable view of `nbytes` bytes of one live allocation. Raises GridstrideError outside."""
        allocation = self.find(address)
        if allocation is None or address + nbytes > allocation.address + allocation.size:
            raise GridstrideError(f"{nbytes} bytes at {address:#x} are not inside live device memory")
        start = address - self.base
        return self._bytes[start : start + nbytes]

    def clear(self, address: int, nbytes: int) -> None:
        """Zero bytes of one live allocation. Whole pages are given back to the host, so that they take no memory until they are used."""
        self.bytes_view(address, nbytes)
        zero(self._map, self._bytes, address - self.base, nbytes)

    def table(self) -> npt.NDArray[np.int64]:
        """Start and end of every live allocation, ascending: what native code searches."""
        if self._table_generation != self.generation:
            self._table = self._rows[: len(self._starts)].copy()
            self._table_generation = self.generation
        return self._table
