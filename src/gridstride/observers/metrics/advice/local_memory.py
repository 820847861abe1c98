"""See `LocalMemory`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_SHARE = 0.02


class LocalMemory(Rule):
    """A thread's own values lie in local memory, which is memory of the device behind the caches: arrays whose index the compiler does
    not know, or registers spilled for want of more.

    Bad: the index comes from memory, so the array cannot be registers.

        int a[16]; …
        sum += a[index[i] & 15];

    Good: indices that are known once loops are unrolled.

        #pragma unroll
        for (int k = 0; k < 16; k++) sum += a[k] * (k == wanted);
    """

    code = "GA09"
    name = "local-memory"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        total = launch.local_sectors + launch.bytes_moved // 32
        for place, members in by_place(launch.instructions, lambda i: i.space == "local" and i.access in ("load", "store")):
            sectors = sum(i.sectors for i in members)
            if sectors < _SHARE * total:
                continue
            requests = sum(i.requests for i in members)
            yield self.advice(
                "local_sectors",
                sectors,
                0,
                sectors / total,
                f"{sectors:,} sectors of local memory in {requests:,} requests: values of a thread that are not in registers",
                "index arrays only by what the compiler knows (unrolled loops), make them smaller, or keep them in shared memory",
                place,
            )
        if launch.spill_bytes:
            yield self.advice(
                "spill_bytes",
                launch.spill_bytes,
                0,
                0.5,
                f"the compiler keeps {launch.spill_bytes:,} bytes of registers a thread in local memory (spills)",
                "allow more registers (a larger __launch_bounds__ or --maxrregcount, smaller blocks) or split the kernel",
            )
