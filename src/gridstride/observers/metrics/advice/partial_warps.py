"""See `PartialWarps`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, ceil_div
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_WARP = 32
_SHARE = 0.03


class PartialWarps(Rule):
    """The block's size is no multiple of 32: lanes of its last warp have no thread, yet the warp costs as much as a full one.

    Bad: 100 threads are 4 warps, 28 of whose 128 lanes are empty.

        kernel<<<n / 100, 100>>>(…);

    Good:

        kernel<<<(n + 127) / 128, 128>>>(…);
    """

    code = "GA05"
    name = "partial-warps"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        threads = launch.profile.threads_per_block
        warps = ceil_div(threads, _WARP)
        idle = _WARP * warps - threads
        if idle < _SHARE * _WARP * warps:
            return
        below = threads // _WARP * _WARP
        choices = f"{below} or {_WARP * warps}" if below else f"{_WARP * warps}"
        yield self.advice(
            "lanes_of_a_full_warp",
            launch.lanes_of_a_full_warp,
            _WARP,
            idle / (_WARP * warps),
            f"{idle} of the {_WARP * warps} lanes of each block have no thread: a block of {threads} threads is {warps} warp{'s' if warps > 1 else ''}",
            f"make the block's size a multiple of 32 ({choices} threads)",
        )
