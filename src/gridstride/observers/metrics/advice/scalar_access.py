"""See `ScalarAccess`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place, ceil_div
from gridstride.observers.metrics.derived import GLOBAL, SECTOR_BYTES
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.profile import InstructionCounts

_WIDEST = 16
_SHARE = 0.1


class ScalarAccess(Rule):
    """Full warps stream through memory with accesses of 4 bytes a lane: with 16 bytes a lane (float4) a quarter of the requests would
    move the same bytes. Only for memory-bound launches of so many threads that a part of them fills the device.

    Bad: a request for 128 bytes.

        y[i] = a * x[i] + y[i];                          // float *

    Good: a request for 512 bytes.

        float4 u = x4[i], v = y4[i];                     // float4 *, a quarter of the threads
    """

    code = "GA10"
    name = "scalar-access"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        if launch.roofline.bound != "memory":
            return
        total = launch.load_requests + launch.store_requests
        for access in ("load", "store"):
            for place, members in by_place(launch.instructions, lambda i, access=access: i.access == access and _streams(i)):  # type: ignore[misc]
                requests = sum(i.requests for i in members)
                fixed = sum(ceil_div(i.requests * i.bytes, _WIDEST) for i in members)
                factor = requests / fixed
                if requests < _SHARE * total or launch.waves < factor:
                    continue
                width = max(i.bytes for i in members)
                yield self.advice(
                    f"{access}_requests",
                    requests,
                    fixed,
                    # a request less is worth little beside a byte less
                    0.1 * (requests - fixed) / total,
                    f"{requests:,} requests {access} {width} byte{'s' if width > 1 else ''} a lane from neighbouring places",
                    "let each thread take 16 neighbouring bytes at once (float4, int4), on pointers aligned to 16",
                    place,
                )


def _streams(i: InstructionCounts) -> bool:
    """Whole warps on neighbouring elements."""
    full = 32 * i.executions
    return i.space in GLOBAL and 0 < i.bytes < _WIDEST and i.lanes > 0.95 * full and i.sectors <= 1.05 * ceil_div(full * i.bytes, SECTOR_BYTES) and (
        i.sectors >= 0.95 * i.lanes * i.bytes / SECTOR_BYTES
    )
