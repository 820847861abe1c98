"""See `RepeatedReads`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Place, Rule, by_place
from gridstride.observers.metrics.derived import GLOBAL
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_READS = 3.0


class RepeatedReads(Rule):
    """Threads load the same values from global memory again and again: a tile in shared memory, loaded once by the block, would keep
    them. The number is a bound: what no tile can do is to load a value less than once.

    Bad: each value is read by nine threads.

        for (r = -1; r <= 1; r++) for (c = -1; c <= 1; c++) sum += image[(y + r) * width + x + c];

    Good: each block loads its tile and its border once.

        __shared__ float tile[18][18]; …
        __syncthreads();
        for (r = 0; r < 3; r++) for (c = 0; c < 3; c++) sum += tile[threadIdx.y + r][threadIdx.x + c];
    """

    code = "GA11"
    name = "repeated-reads"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        reads = launch.reads_per_byte
        if not reads >= _READS or launch.shared_loads >= launch.load_requests / 2:
            return
        place, share = _heaviest(launch)
        yield self.advice(
            "reads_per_byte",
            reads,
            1.0,
            # caches keep part of it
            0.5 * (1 - 1 / reads) * share,
            f"every byte that the kernel reads is loaded {reads:.3g} times by different warps or instructions",
            "load a tile into shared memory once a block, __syncthreads(), and read it there; or keep values in registers across a loop",
            place,
            at_best=True,
        )


def _heaviest(launch: LaunchMetrics) -> tuple[Place, float]:
    """The line that loads most, and its share of all load sectors."""
    lines = by_place(launch.instructions, lambda i: i.access == "load" and i.space in GLOBAL)
    place, members = max(lines, key=lambda found: sum(i.sectors for i in found[1]))
    return place, sum(i.sectors for i in members) / launch.load_sectors
