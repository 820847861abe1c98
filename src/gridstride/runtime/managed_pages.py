"""Where the pages of managed memory are: with the host, where they begin, or with the device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridstride.runtime.array import Array

PAGE = 64 << 10
"""Bytes that move together (the driver's block of pages on x86-64; CUDA C++ Programming Guide, "Unified Memory")."""


class ManagedPages:
    """The pages of all managed allocations of one device, by the allocation's address: True where the device has them."""

    def __init__(self) -> None:
        self._pages: dict[int, npt.NDArray[np.bool_]] = {}

    def add(self, address: int, nbytes: int) -> None:
        self._pages[address] = np.zeros(-(-nbytes // PAGE), np.bool_)

    def drop(self, address: int) -> None:
        self._pages.pop(address, None)

    def move(self, array: Array, *, to_host: bool) -> int:
        """All pages under an array (or view) come to the host, or to the device; how many bytes had to move. 0 for memory that is not managed."""
        pages = self._pages.get(array.storage.address)
        if pages is None or array.size == 0:
            return 0
        first = array.address - array.storage.address
        part = pages[first // PAGE : -(-(first + max(array.nbytes, 1)) // PAGE)]
        elsewhere = int(np.count_nonzero(part == to_host))
        part[...] = not to_host
        return elsewhere * PAGE
