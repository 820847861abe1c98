"""What a run leaves behind, before anybody renders it: `report/json.py` and `report/text.py` only read this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from gridstride.findings import Finding
from gridstride.machine.occupancy import Occupancy
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

SCHEMA = 1
ALWAYS_CHECKED = ("out-of-bounds", "misaligned", "deadlock")
"""Kinds of finding that every run looks for, whatever was asked; traps, asserts and the budget are events that nobody looks for."""


@dataclass(frozen=True)
class Failure:
    """Why a case has no result. `code` is the published `error.code`."""

    code: str
    message: str


@dataclass(frozen=True)
class Receipt:
    """What was run and what was looked for; None where it was not counted."""

    launches: int = 0
    threads: int = 0
    accesses: int | None = None
    bytes: int | None = None
    checks: tuple[str, ...] = ALWAYS_CHECKED
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseResult:
    """One launch. `seconds` is the time the kernel ran on this device (on the simulator: this machine's time, not a GPU's).

    outputs: argument position → array of the whole buffer after the launch. `output_names` says what the kernel calls them.
    counters: under Nsight's names; metrics: what they were made from. Both only where the launch was profiled.
    """

    name: str
    kernel: str
    seconds: float | None = None
    failure: Failure | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    occupancy: Occupancy | None = None
    estimate_us: float | None = None
    findings: tuple[Finding, ...] = ()
    receipt: Receipt = Receipt()
    outputs: Mapping[int, npt.NDArray[Any]] = field(default_factory=dict)
    output_names: Mapping[int, str] = field(default_factory=dict)
    metrics: LaunchMetrics | None = None

    @property
    def status(self) -> Literal["ok", "error"]:
        return "error" if self.failure else "ok"


@dataclass(frozen=True)
class RunResult:
    """All cases of one command, in the order they were asked for. strict: warnings count as errors do."""

    device: str
    cases: tuple[CaseResult, ...]
    strict: bool = False

    @property
    def exit_status(self) -> int:
        """0 clean, 1 a kernel fault or an error finding, 2 bad input, 3 something unsupported, 130 interrupted: the first that fits of 130, 1, 2, 3, 0."""
        statuses = {_status_of(case, self.strict) for case in self.cases}
        return next((status for status in (130, 1, 2, 3) if status in statuses), 0)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every output buffer under `CASE.ARGUMENT_POSITION`."""
        return {f"{case.name}.{position}": values for case in self.cases for position, values in case.outputs.items()}


def _status_of(case: CaseResult, strict: bool) -> int:
    by_code = {"interrupted": 130, "unsupported": 3, "launch": 2, "compile": 2, "parse": 2, "usage": 2}
    if case.failure:
        return by_code.get(case.failure.code, 1)
    bad = ("error", "warning") if strict else ("error",)
    return int(any(finding.severity in bad for finding in case.findings))
