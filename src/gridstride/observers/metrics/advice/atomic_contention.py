"""See `AtomicContention`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place
from gridstride.observers.metrics.derived import GLOBAL
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_LANES = 4.0


class AtomicContention(Rule):
    """Many lanes of a warp make an atomic on one address of global memory, one after the other.

    Bad: 32 atomics a warp on one counter.

        atomicAdd(total, v);

    Good: the warp adds up first, one lane makes the atomic.

        v = __reduce_add_sync(0xffffffff, v);
        if (threadIdx.x % 32 == 0) atomicAdd(total, v);
    """

    code = "GA07"
    name = "atomic-contention"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        total = launch.atomic_operations
        for place, members in by_place(launch.instructions, lambda i: i.access in ("atomic", "reduction") and i.space in GLOBAL and i.wavefronts > 0):
            lanes = sum(i.lanes for i in members)
            in_turn = sum(i.wavefronts for i in members)
            requests = sum(i.executions for i in members)
            if in_turn < _LANES * requests:
                continue
            # as if each address had as many lanes as the busiest: exact where all lanes are on one
            fixed = max(requests, round(lanes * requests / in_turn))
            yield self.advice(
                "atomic_operations",
                lanes,
                fixed,
                (lanes - fixed) / total,
                f"{in_turn / requests:.3g} lanes of a warp make their atomic on the same address, {lanes:,} atomics in all",
                "add up within the warp first (__reduce_add_sync, or shuffles) and let one lane make the atomic; "
                "for histograms keep a copy a block in shared memory",
                place,
            )
