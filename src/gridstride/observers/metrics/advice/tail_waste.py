"""See `TailWaste`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_EFFICIENCY = 0.8


class TailWaste(Rule):
    """The last wave of blocks fills a small part of the device, and the launch has few waves: most multiprocessors wait for the end.

    Bad: 1.1 waves take the time of 2.

        kernel<<<1162, 256>>>(n);                       // the device holds 1,056 such blocks

    Good: as many blocks as the device holds, each thread taking more elements.

        kernel<<<1056, 256>>>(n);                       // for (i = …; i < n; i += gridDim.x * blockDim.x)
    """

    code = "GA06"
    name = "tail-waste"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        if not (launch.waves > 1 and launch.tail_efficiency < _EFFICIENCY):
            return
        waves = math.ceil(launch.waves)
        rest = launch.profile.blocks - (waves - 1) * launch.resident_blocks
        yield self.advice(
            "tail_efficiency",
            launch.tail_efficiency,
            1.0,
            1 - launch.tail_efficiency,
            f"{launch.waves:.2f} waves: the last one has {rest:,} blocks where the device holds {launch.resident_blocks:,}",
            f"launch {launch.resident_blocks:,} blocks (or a multiple) and let each thread take every (gridDim.x * blockDim.x)-th element, "
            "or use smaller blocks of less work",
        )
