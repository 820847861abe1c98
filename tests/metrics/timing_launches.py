"""The launches that were timed on an H200, with what the simulator counted for them.

timing: the 36 of tests/truth. validation: 50 others of the same kernels. holdout: 20 of other kernels (holdout.cu), timed after the
first model was fixed. Both were timed in the same way, by tests/truth/run_on_gpu.py; no coefficient of the estimate was fitted to
them but those that `MEASURED_ON` names.
"""

import json
from pathlib import Path
from typing import Any

from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

HERE = Path(__file__).parent
TRUTH = HERE.parent / "truth"
TIMES = {"timing": TRUTH / "times.json", "validation": HERE / "validation_times.json", "holdout": HERE / "holdout_times.json"}
ROW = ("ptx_line", "opcode", "executions", "lanes", "space", "access", "bytes", "requests", "sectors", "wavefronts", "ideal_wavefronts", "divergent")
MEASURED_ON = {
    "block_start": ("vec_add_32M_b64", "vec_add_32M_b128"),
    "atomic_sector": ("reduce_atomic_4M", "hist_global_4M"),
    "SLICES_AT_ONCE": ("count_scattered_16M",),
    "launch_us": ("vec_add_1k", "vec_add_256k"),
}
"""Coefficients that were set from launches outside the truth set: those launches say nothing about the error."""


def profiles(which: str) -> dict[str, LaunchProfile]:
    """By name, in the order of the case file."""
    kept = json.loads((HERE / f"{which}_profiles.json").read_text(encoding="utf-8"))
    return {name: _profile(one) for name, one in kept.items()}


def measured_us(which: str) -> dict[str, float]:
    """Medians of event-timed launches, by name."""
    return {name: times["median_us"] for name, times in json.loads(TIMES[which].read_text(encoding="utf-8")).items()}


def as_json(profile: LaunchProfile) -> dict[str, Any]:
    """What `profiles` makes a profile of again, but for times and source lines, which the estimate does not need."""
    return {
        "kernel": profile.kernel,
        "grid": profile.grid,
        "block": profile.block,
        "shared_static": profile.shared_static,
        "shared_dynamic": profile.shared_dynamic,
        "registers": profile.registers,
        "footprint_bytes": profile.footprint_bytes,
        "instructions": [[getattr(i, field) for field in ROW] for i in profile.instructions],
    }


def _profile(kept: dict[str, Any]) -> LaunchProfile:
    instructions = tuple(InstructionCounts(file=None, line=None, **dict(zip(ROW, row, strict=True))) for row in kept["instructions"])
    shape = {side: tuple(kept[side]) for side in ("grid", "block")}
    rest = {key: kept[key] for key in ("kernel", "shared_static", "shared_dynamic", "registers", "footprint_bytes")}
    return LaunchProfile(device="h200", seconds=0.0, instructions=instructions, **shape, **rest)
