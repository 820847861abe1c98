"""Launch arithmetic: how many blocks a problem takes, which threads have nothing to do, which elements a thread takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gridstride.errors import UsageError
from gridstride.findings import Dim3

WARP_SIZE = 32


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded up; `divisor` must be positive."""
    return -(-dividend // divisor)


@dataclass(frozen=True)
class LaunchPlan:
    """Just enough blocks of `block` threads, one thread an element, to cover `extent` elements in each of three dimensions."""

    extent: Dim3
    block: Dim3

    def __post_init__(self) -> None:
        for what, sizes in (("problem", self.extent), ("block", self.block)):
            if min(sizes) < 1:
                raise UsageError(f"every dimension of the {what} must be at least 1, not {' × '.join(map(str, sizes))}")

    @property
    def grid(self) -> Dim3:
        x, y, z = (ceil_div(elements, threads) for elements, threads in zip(self.extent, self.block, strict=True))
        return x, y, z

    @property
    def elements(self) -> int:
        return math.prod(self.extent)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads_per_block(self) -> int:
        return math.prod(self.block)

    @property
    def threads(self) -> int:
        return self.blocks * self.threads_per_block

    @property
    def idle_threads(self) -> int:
        """Threads beyond the end of the problem: the ones that `if (i < n)` sends home."""
        return self.threads - self.elements

    @property
    def idle_pct(self) -> float:
        return 100 * self.idle_threads / self.threads

    @property
    def warps_per_block(self) -> int:
        return ceil_div(self.threads_per_block, WARP_SIZE)

    @property
    def idle_lanes_per_block(self) -> int:
        """Lanes of a block's last warp that have no thread."""
        return self.warps_per_block * WARP_SIZE - self.threads_per_block

    @property
    def last_block(self) -> Dim3:
        """The index of the block with the highest index in every dimension."""
        x, y, z = self.grid
        return x - 1, y - 1, z - 1

    @property
    def last_block_covers(self) -> tuple[range, range, range]:
        """The indices that the last block's threads compute, in each dimension, those past the end included."""
        x, y, z = (range(index * size, (index + 1) * size) for index, size in zip(self.last_block, self.block, strict=True))
        return x, y, z

    @property
    def last_block_working(self) -> int:
        """Threads of the last block that have an element."""
        covered = zip(self.last_block_covers, self.extent, strict=True)
        return math.prod(extent - indices.start for indices, extent in covered)

    def waves(self, resident_blocks: int, multiprocessors: int) -> float:
        """How often the device is filled: blocks over what all multiprocessors hold at once (`launch__waves_per_multiprocessor`).

        Where the fraction is small the last wave leaves most of the device idle: the tail.
        """
        if resident_blocks < 1:
            raise UsageError("not one block fits on a multiprocessor, so there are no waves to count")
        return self.blocks / (resident_blocks * multiprocessors)


def elements_missed_rounding_down(elements: int, block: int) -> range:
    """The indices that nobody touches when the number of blocks is `elements // block`: the classic mistake."""
    if block < 1:
        raise UsageError(f"a block must have at least 1 thread, not {block}")
    return range(elements // block * block, elements)


def grid_stride_elements(elements: int, blocks: int, block: int, block_index: int, thread_index: int) -> range:
    """The indices that one thread of a grid-stride loop takes: its own, then every so many as the grid has threads."""
    if not (0 <= block_index < blocks and 0 <= thread_index < block):
        raise UsageError(f"block {block_index}, thread {thread_index} is not in a grid of {blocks} blocks of {block} threads")
    return range(block_index * block + thread_index, elements, blocks * block)
