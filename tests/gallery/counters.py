"""What each step must count at the size that its ladder shows: figures worked out by hand, from the problem and the launch, not from a run."""

from __future__ import annotations

Counters = dict[str, float]

_WARPS = 31_250  # warps with a working lane: 1,000,000 ÷ 32, without a remainder
VECTOR_ADD = {
    # one lane of one warp: a request and a sector for each access
    "one-thread": {"load_requests": 2_000_000, "load_sectors": 2_000_000, "store_sectors": 1_000_000, "blocks": 1, "flops": 1_000_000},
    **{
        name: {"load_requests": 2 * _WARPS, "load_sectors": 2 * 4 * _WARPS, "store_requests": _WARPS, "store_sectors": 4 * _WARPS, "blocks": blocks}
        for name, blocks in (("one-block", 1), ("thread-each", 3907), ("grid-stride", 1056))
    },
    # 250,000 vectors: 7,812 warps and a half
    "float4": {"load_requests": 2 * 7813, "load_sectors": 2 * 125_000, "store_sectors": 125_000, "blocks": 977},
}

COUNTERS: dict[str, dict[str, Counters]] = {"vector-add": VECTOR_ADD}
