"""See `LowOccupancy`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.machine.occupancy import Occupancy, occupancy
from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_PERCENT = 50.0
_FEWEST_REGISTERS = 16


class LowOccupancy(Rule):
    """Fewer warps are resident on a multiprocessor than half of what it can hold, because of registers, shared memory or the size of
    the block: little is there to run while others wait for memory. Only where the grid has more blocks than fit.

    Bad: 64 KB a block; three blocks of 128 threads a multiprocessor, 19 % of the warps.

        __shared__ double tile[8192];   // of which a quarter is used

    Good: 16 KB a block; 13 blocks, 81 %.

        __shared__ double tile[2048];
    """

    code = "GA04"
    name = "low-occupancy"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        now = launch.occupancy
        if now.percent >= _PERCENT or launch.waves <= 1:
            return
        fixed = _better(launch, now)
        if fixed is None:
            return
        then, how = fixed
        limiter = {"registers": "registers", "shared": "shared memory", "warps": "the size of the block", "blocks": "the number of blocks"}[now.limiter]
        yield self.advice(
            "occupancy_percent",
            now.percent,
            then.percent,
            1 - now.percent / then.percent,
            f"{now.warps} of {now.warps_per_multiprocessor} warps are resident ({now.percent:.3g} %), limited by {limiter}",
            how,
        )


def _better(launch: LaunchMetrics, now: Occupancy) -> tuple[Occupancy, str] | None:
    """The largest use of what binds that gives half occupancy, or the best there is; None where nothing helps."""
    threads, shared, registers = launch.profile.threads_per_block, launch.shared_bytes, launch.profile.registers
    candidates: list[tuple[Occupancy, str]] = []
    if now.limiter == "registers" and registers is not None:
        for fewer in range(registers - 1, _FEWEST_REGISTERS - 1, -1):
            then = occupancy(launch.spec, threads, fewer, shared)
            candidates.append((then, f"at most {fewer} registers a thread (now {registers}): __launch_bounds__({threads}, {then.blocks}) asks for them"))
    elif now.limiter == "shared":
        step = launch.spec.architecture.shared_granularity
        for less in range((shared - 1) // step * step, -1, -step):
            then = occupancy(launch.spec, threads, registers, less)
            candidates.append((then, f"at most {less:,} bytes of shared memory a block (now {shared:,})"))
    else:
        for size in range(32, launch.spec.architecture.threads_per_block + 1, 32):
            then = occupancy(launch.spec, size, registers, shared)
            candidates.append((then, f"blocks of {size} threads (now {threads})"))
    enough = next((c for c in candidates if c[0].percent >= _PERCENT), None)
    best = enough or max(candidates, key=lambda c: c[0].percent, default=None)
    return best if best is not None and best[0].percent > now.percent else None
