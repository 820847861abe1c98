"""See `ConstantDivergence`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule, by_place
from gridstride.observers.metrics.derived import constant_passes
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_WORDS = 1.5


class ConstantDivergence(Rule):
    """Lanes of a warp read different words of constant memory, whose cache gives one word a pass to the whole warp.

    Bad: 32 words, 32 passes.

        y[i] = x[i] * coefficient[threadIdx.x % 32];    // __constant__ float coefficient[64]

    Good: one word for all lanes; or a table in global or shared memory where lanes differ.

        y[i] = x[i] * coefficient[row];
    """

    code = "GA08"
    name = "constant-divergence"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        for place, members in by_place(launch.instructions, lambda i: i.space == "const" and i.access == "load"):
            requests = sum(i.executions for i in members)
            words = sum(constant_passes(i) for i in members)
            if words < _WORDS * requests:
                continue
            yield self.advice(
                "constant_words_per_load",
                words / requests,
                1.0,
                (words - requests) / max(launch.constant_words, 1),
                f"each load from constant memory reads {words / requests:.3g} different words, which come one after the other",
                "read the same element in all lanes, or keep the table in global memory (const __restrict__) or shared memory",
                place,
            )
