"""All checks on the truth set: every planted fault is found on its line, and no correct kernel is accused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gridstride as gs
from gridstride.cases import CheckRequest, read_cases, run_case
from gridstride.observers.checks import parse_kinds
from gridstride.runtime.request import LaunchRequest

TRUTH = Path(__file__).parent.parent / "truth"
VERDICTS: dict[str, dict[str, Any]] = json.loads((TRUTH / "verdicts.json").read_text(encoding="utf-8"))
ALL = CheckRequest(parse_kinds("all"))
FAULTS = read_cases(TRUTH / "bug_cases.json")
CORRECT = read_cases(TRUTH / "cases.json")


@pytest.fixture(scope="module")
def faulty() -> gs.Module:
    return gs.device("sim:h200").compile(TRUTH / "bugs.ptx")


@pytest.fixture(scope="module")
def correct() -> gs.Module:
    return gs.device("sim:h200").compile(TRUTH / "kernels.ptx")


def test_every_case_has_a_verdict() -> None:
    assert {request.name for request in FAULTS} == set(VERDICTS)
    assert sum(bool(verdict["expected"]) for verdict in VERDICTS.values()) == 27  # the rest are correct


@pytest.mark.parametrize("request_", FAULTS, ids=lambda request: request.name)
def test_the_planted_fault_is_found(request_: LaunchRequest, faulty: gs.Module) -> None:
    verdict = VERDICTS[request_.name]
    findings = run_case(request_, faulty.fresh(), checks=ALL).findings
    errors = [f"{one.kind} on line {one.site.line}: {one.message}" for one in findings if one.severity == "error"]
    if not verdict["expected"]:
        assert errors == []
        return
    severities = ("error",) if verdict["severity"] == "error" else ("error", "warning", "note")
    right = [one for one in findings if one.kind in verdict["expected"] and one.severity in severities]
    assert right, errors
    if verdict["lines"]:
        assert {one.site.line for one in right} & set(verdict["lines"])


@pytest.mark.parametrize("request_", CORRECT, ids=lambda request: request.name)
def test_a_correct_kernel_is_not_accused(request_: LaunchRequest, correct: gs.Module) -> None:
    result = run_case(request_, correct.fresh(), checks=ALL)
    assert result.failure is None, result.failure
    assert [f"{one.kind} on line {one.site.line}: {one.message}" for one in result.findings if one.severity == "error"] == []
