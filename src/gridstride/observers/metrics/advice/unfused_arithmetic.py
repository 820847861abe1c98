"""See `UnfusedArithmetic`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.flops import WIDTHS
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_SHARE = 0.25


class UnfusedArithmetic(Rule):
    """The launch is bound by arithmetic, and multiplications and additions that could be one fused multiply-add are two instructions:
    it cannot come nearer than half to the peak.

    Bad: rounded twice, two instructions.

        v = __fadd_rn(__fmul_rn(v, a), b);

    Good: one instruction (the result may differ in its last bit).

        v = fmaf(v, a, b);
    """

    code = "GA14"
    name = "unfused-arithmetic"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        if launch.roofline.bound != "compute":
            return
        counts = launch.floating
        pairs = sum(min(counts.of(width, "add"), counts.of(width, "mul")) for width in WIDTHS)
        instructions = sum(counts.threads.values())
        if pairs < _SHARE * instructions:
            return
        yield self.advice(
            "floating_operations",
            instructions,
            instructions - pairs,
            pairs / instructions,
            f"compute-bound ({launch.roofline.intensity:.3g} FLOP/byte, the ridge is at {launch.roofline.ridge:.3g}): of {instructions:,} additions, "
            f"multiplications and fused multiply-adds, {pairs:,} pairs of a multiplication and an addition are not fused",
            "let them be fused: a * b + c or fmaf in place of __fmul_rn and __fadd_rn, and no -fmad=false",
        )
