"""A profiled launch as JSON: the `profile` object of a case."""

from __future__ import annotations

import math
from typing import Any

from gridstride.observers.metrics.advice import advise
from gridstride.observers.metrics.derived import LineMetrics, Metrics
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.nsight import nsight_marks


def profile_json(launch: LaunchMetrics) -> dict[str, Any]:
    """marks: counter → exact, modelled or estimated. metrics: of the launch, by their plain names; lines and ptx_lines: those that are
    not zero, for each line. Ratios without a denominator are null."""
    roof = launch.roofline
    return {
        "marks": nsight_marks(launch),
        "metrics": {name: _finite(value) for name, value in launch.as_dict().items()},
        "buffers": [
            {"name": buffer.name or None, "bytes": buffer.bytes, "loaded_bytes": buffer.loaded, "reads_of_each": _finite(buffer.reads_of_each)}
            for buffer in launch.profile.buffers
        ],
        "instruction_mix": dict(launch.instruction_mix),
        "roofline": {
            "intensity": _finite(launch.sector_intensity),
            "algorithmic_intensity": _finite(launch.algorithmic_intensity),
            "ridge": roof.ridge,
            "bound": roof.bound,
            "attainable_tflops": _finite(roof.attainable_tflops),
            "peak_tflops": roof.peak_tflops,
            "bandwidth_gbs": roof.bandwidth_gbs,
        },
        "estimate": {
            "microseconds": launch.estimate.microseconds,
            "bound": launch.estimate.bound,
            "parts": dict(launch.estimate.parts),
            "statement": launch.estimate.statement,
        },
        "lines": [_line(line, launch) for line in launch.lines if line.line is not None],
        "ptx_lines": [{"ptx_line": line.ptx_lines[0], "opcode": line.instructions[0].opcode, **_nonzero(line)} for line in launch.ptx_lines],
        "advice": [{**advice.as_json(), "now": _finite(advice.now), "then": _finite(advice.then)} for advice in advise(launch)],
    }


def _line(line: LineMetrics, launch: LaunchMetrics) -> dict[str, Any]:
    changed = line.line is not None and line.line in (launch.changed_lines or {})
    return {
        "file": line.file,
        "line": line.line,
        "ptx_lines": list(line.ptx_lines),
        "compiler_changed": None if launch.changed_lines is None else changed,
        **_nonzero(line),
    }


def _nonzero(metrics: Metrics) -> dict[str, Any]:
    return {name: value for name, value in metrics.as_dict().items() if value and math.isfinite(value)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
