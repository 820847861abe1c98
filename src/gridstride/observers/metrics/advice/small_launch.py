"""See `SmallLaunch`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.launch_metrics import LaunchMetrics


class SmallLaunch(Rule):
    """The grid has fewer blocks than the device has multiprocessors: the others have nothing to do.

    Bad: one block for 100,000 elements.

        kernel<<<1, 1024>>>(x, 100000);

    Good: a block for every 256 of them.

        kernel<<<(100000 + 255) / 256, 256>>>(x, 100000);
    """

    code = "GA12"
    name = "small-launch"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        busy, all_of_them = launch.busy_multiprocessors, launch.spec.multiprocessors
        if busy >= all_of_them:
            return
        blocks = launch.profile.blocks
        yield self.advice(
            "busy_multiprocessors",
            busy,
            all_of_them,
            1 - busy / all_of_them,
            f"{blocks} block{'s' if blocks > 1 else ''} for {all_of_them} multiprocessors: {all_of_them - busy} of them are idle",
            f"use at least {all_of_them} blocks: smaller ones, less work a thread, or several problems in one launch",
        )
