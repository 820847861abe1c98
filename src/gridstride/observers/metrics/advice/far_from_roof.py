"""See `FarFromRoof`."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

_RATIO = 2.0


class FarFromRoof(Rule):
    """The launch is bound by memory and moves at least twice the bytes it has to: its arithmetic intensity, and with it the roof over
    it, are that much lower than the algorithm's.

    Bad: every byte asked for brings seven others along; 1/66 FLOP a byte where the algorithm has 1/8.

        y[i] = x[8 * i] + 1.0f;

    Good: what is moved is used.

        y[i] = x[i] + 1.0f;
    """

    code = "GA13"
    name = "far-from-roof"

    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        moved, needed = launch.bytes_moved, launch.bytes_needed
        if launch.roofline.bound != "memory" or not needed or moved < _RATIO * needed:
            return
        roof = launch.roofline
        floor_us = needed / roof.bandwidth_gbs / 1000
        message = f"memory-bound: {moved:,} bytes are asked of the caches where {needed:,} are needed, {moved / needed:.3g} times as many"
        if launch.flops:
            reachable = min(launch.algorithmic_intensity * roof.bandwidth_gbs, 1000 * roof.peak_tflops)
            message += (
                f"; at {roof.intensity:.3g} FLOP/byte the roof is {1000 * roof.attainable_tflops:,.0f} GFLOP/s, "
                f"at the algorithm's {launch.algorithmic_intensity:.3g} it is {reachable:,.0f}"
            )
        message += f"; {floor_us:.3g} µs at the memory's full speed, estimated are {launch.estimate_us:.3g}"
        yield self.advice(
            "bytes_moved",
            moved,
            needed,
            # caches take the edge off where everything fits into them
            (1 - needed / moved) * (0.5 if launch.profile.footprint_bytes <= launch.spec.l2_bytes else 1.0),
            message,
            "move each byte once and use all of it: coalesce the accesses, keep what is read again in shared memory or registers",
        )
