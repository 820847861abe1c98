"""See `Divergence`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.mix import group_of

_SHARE_OF_BRANCHES = 0.1
_LANES = 0.9


class Divergence(Rule):
    """Lanes of one warp go different ways at a branch: the warp runs both, each with a part of its lanes.

    Bad: every warp runs both sides.

        if (threadIdx.x % 2) v = f(v); else v = g(v);

    Good: all lanes of a warp decide alike.

        if (threadIdx.x / 32 % 2) v = f(v); else v = g(v);
    """

    code = "GA03"
    name = "divergence"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        full = launch.lanes_of_a_full_warp
        lanes = launch.lanes_per_instruction
        if not lanes < _LANES * full:
            return
        total = launch.divergent_branches
        for place, members in by_place(launch.instructions, lambda i: group_of(i.opcode) == "branch"):
            divergent = sum(i.divergent for i in members)
            executions = sum(i.executions for i in members)
            if divergent < _SHARE_OF_BRANCHES * executions or not divergent:
                continue
            yield self.advice(
                "divergent_branches",
                divergent,
                0,
                (1 - lanes / full) * divergent / total,
                f"{100 * divergent / executions:.3g} % of this line's branches divide the warp; the kernel's instructions run with {lanes:.3g} of {full:.3g} lanes",
                "decide by something that is the same for a whole warp, give neighbouring lanes work of like length (sort or regroup it), "
                "or compute both short sides and select",
                place,
            )
