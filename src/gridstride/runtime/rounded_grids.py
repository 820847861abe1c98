"""Outputs that were filled before a launch whose grid was rounded down: nothing in them is undefined, and their end is still what it was.

What a launch wrote is in the shadow of the race checks until the next one. A warning waits until the host reads the output: another launch may
complete it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridstride.findings import Dim3, Finding
from gridstride.machine.detectors import RacePlanes
from gridstride.machine.memory import Allocation, Memory
from gridstride.observers.checks.launch_shape import IndexUse, Tail, leaves, tail_left_as_it_was, tail_of


@dataclass(frozen=True)
class _Left:
    tail: Tail
    kernel: str
    name: str
    itemsize: int


class RoundedGrids:
    """The tails that launches have left in one memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._left: dict[int, _Left] = {}

    def launched(self, kernel: str, use: IndexUse, grid: Dim3, block: Dim3, parameters: bytes, outputs: list[tuple[Allocation, str, int]]) -> None:
        """A launch has ended. outputs: what it may have written, with its name and the bytes of an element."""
        planes = self._memory.shadows.get("races")
        if not isinstance(planes, RacePlanes):
            return
        numbers = frozenset(np.frombuffer(parameters[: len(parameters) // 4 * 4], np.uint32).tolist())
        for allocation, name, itemsize in outputs:
            before = self._left.get(allocation.address)
            tails = list(tail_of(use, grid, block, allocation.size // itemsize, numbers))
            if before is None and not tails:
                continue
            written = _elements(planes.touched(allocation.address, allocation.size)[1], allocation.size, itemsize)
            if before is not None and written[before.tail.first :].any():
                del self._left[allocation.address]
            for tail in tails:
                if leaves(tail, written):
                    self._left[allocation.address] = _Left(tail, kernel, name, itemsize)

    def forget(self, address: int) -> None:
        """Memory is freed."""
        self._left.pop(address, None)

    def host_reads(self, address: int, nbytes: int) -> list[Finding]:
        """What is to be said where the host reads so many bytes from the start of an allocation."""
        left = self._left.get(address)
        if left is None or nbytes <= left.tail.first * left.itemsize:
            return []
        del self._left[address]
        return [tail_left_as_it_was(left.tail, left.kernel, left.name)]


def _elements(words: npt.NDArray[np.bool_], nbytes: int, itemsize: int) -> npt.NDArray[np.bool_]:
    """Which elements were written, of which words were: elements smaller than a word count with their word."""
    found: npt.NDArray[np.bool_]
    if itemsize < 4:
        found = np.repeat(words, 4 // itemsize)[: nbytes // itemsize]
    else:
        found = np.all(words[: nbytes // itemsize * (itemsize // 4)].reshape(-1, itemsize // 4), axis=1)
    return found
