"""A run as JSON (schema 1) and its output buffers as NPZ; both appear whole or not at all."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gridstride.report.files import write
from gridstride.report.model import SCHEMA, CaseResult, RunResult
from gridstride.report.profile_json import profile_json


def as_json(run: RunResult) -> dict[str, Any]:
    """The published form: {"schema", "device", "cases": […]}."""
    return {"schema": SCHEMA, "device": run.device, "cases": [_case(case) for case in run.cases]}


def json_text(run: RunResult) -> str:
    """The published form as text."""
    return json.dumps(as_json(run), indent=1, ensure_ascii=False, allow_nan=False)


def write_json(run: RunResult, path: Path) -> None:
    """Write the run to `path`, replacing what is there only when all is written. Raises UsageError where it cannot be written."""
    text = json_text(run) + "\n"
    write(path, lambda file: file.write(text.encode()))


def write_arrays(run: RunResult, path: Path) -> None:
    """Write the output buffers as compressed NPZ under `CASE.ARGUMENT_POSITION`, whole or not at all."""
    arrays: dict[str, Any] = run.arrays()
    # NumPy takes the names as keywords; they cannot collide with its own, since each of ours holds a dot.
    write(path, lambda file: np.savez_compressed(file, **arrays))


def _case(case: CaseResult) -> dict[str, Any]:
    return {
        "name": case.name,
        "kernel": case.kernel,
        "status": case.status,
        "error": asdict(case.failure) if case.failure else None,
        "seconds": case.seconds,
        "counters": {name: value for name, value in case.counters.items() if math.isfinite(value)},
        "occupancy": case.occupancy.as_json() if case.occupancy else None,
        "estimate_us": case.estimate_us,
        "findings": [finding.as_json() for finding in case.findings],
        "receipt": {**asdict(case.receipt), "checks": list(case.receipt.checks), "skipped": list(case.receipt.skipped)},
        **({"profile": profile_json(case.metrics)} if case.metrics is not None else {}),
    }
