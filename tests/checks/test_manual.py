"""The manual of the checks: complete, current, and its examples do what it says."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.observers import checks
from gridstride.observers.checks import CHECKS, explain, find_check, manual, parse_kinds
from gridstride.observers.checks.check import Check

DOCS = Path(__file__).parents[2] / "docs" / "checks.md"
EVERY = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.kind)


def test_the_document_is_made_from_the_checks() -> None:
    assert DOCS.read_text(encoding="utf-8") == manual(), "write it anew: python -m gridstride.observers.checks > docs/checks.md"


def test_codes_and_kinds_are_unique_and_well_formed() -> None:
    codes, kinds = [check.code for check in CHECKS], [check.kind for check in CHECKS]
    assert len(set(codes)) == len(codes) and len(set(kinds)) == len(kinds)
    assert all(re.fullmatch(r"GS\d{3}", code) for code in codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind) for kind in kinds)


def test_every_module_of_a_check_is_in_the_list() -> None:
    folder = Path(checks.__file__).parent
    with_check = {path.stem for path in folder.glob("*.py") if re.search(r"^CHECK = ", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert len(with_check) == len(CHECKS)


@EVERY
def test_every_check_is_explained(check: Check) -> None:
    assert check.title.endswith(".") and len(check.title) < 160
    assert len(check.explanation) > 40
    assert all(check.section(name) for name in ("Bad", "Good", "What to do"))
    page = explain(check.code)
    assert page == explain(check.kind) == explain(check.code.lower())
    assert page.startswith(f"{check.code} {check.kind} (") and check.title in page and "\nBad:\n\n    " in page and "\nWhat to do: " in page


@EVERY
def test_what_native_code_finds_can_be_told(check: Check) -> None:
    assert check.native == (check.tell is not None)


def test_which_kinds_words_mean() -> None:
    assert parse_kinds("none") == frozenset()
    assert parse_kinds("GS201, race-global") == {"race-shared", "race-global"}
    assert parse_kinds("all") == {check.kind for check in CHECKS} - {"order-dependent"}
    assert parse_kinds("all,order-dependent") == {check.kind for check in CHECKS}
    for word, message in (
        ("race-sharde", "there is no check 'race-sharde'; did you mean race-shared?"),
        ("GS20", "there is no check 'GS20'; did you mean GS20"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            parse_kinds(word)
    with pytest.raises(UsageError, match=re.escape("there is no check '%%'; there are out-of-bounds, misaligned, ")):
        find_check("%%")


# ---- the examples --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """How an example is launched, and with which severity its fault is found."""

    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    severity: str = "error"
    budget: int | None = None
    schedules: int = 0
    shared: int = 0


F = np.float32
RUNS = {
    "out-of-bounds": Run(4, 256, (np.ones(1000, F), 1000)),
    "misaligned": Run(1, 8, (np.ones(64, F), np.zeros(32, F))),
    "trap": Run(1, 32, (np.zeros(32, np.int32), 5)),
    "assert": Run(1, 32, (np.zeros(32, F),)),
    "deadlock": Run(133, 64, (np.zeros(1, np.int32),), shared=200_000),  # an H200 has 132 multiprocessors with room for one each
    "budget": Run(1, 32, (np.zeros(32, np.uint32),), budget=100_000),
    "barrier-misuse": Run(1, 64, (np.arange(64, dtype=np.int32), np.zeros(64, np.int32))),
    "race-shared": Run(1, 256, (np.ones(256, F), np.zeros(256, F))),
    "race-global": Run(4, 256, (np.arange(1000, dtype=np.uint8) % 16, np.zeros(16, np.int32), 1000)),
    "uninitialised": Run(1, 256, (np.zeros(256, F),)),
    "divergent-barrier": Run(1, 256, (np.ones(256, F),)),
    "warp-mask": Run(1, 256, (np.ones(250, F), np.zeros(8, F), 250)),
    "launch-shape": Run(1, (32, 8), (np.zeros(32, np.uint8), np.zeros(16, np.int32), 32), severity="warning"),
    "order-dependent": Run(8, 32, (np.zeros(1, np.int32),), severity="warning", schedules=3),
    "double-write": Run(4, 256, (np.ones(1000, F), np.zeros(1000, F), 1000)),
    "leak": Run(1, 8, (np.zeros(8, np.int32),), severity="warning"),
    "double-free": Run(1, 8, (np.zeros(8, np.int32),)),
    "stream-hazard": Run(1, 32, (np.ones(32, F),)),
    "api": Run(1, 32, (32, 2.0, np.ones(32, F), np.ones(32, F))),
}


def launch(check: Check, section: str) -> gs.Findings:
    """What is found when the example is launched as `RUNS` says."""
    run = RUNS[check.kind]
    device = gs.device("sim", budget=run.budget)
    module = device.compile(check.section(section))
    kernel = module[next(iter(module))]
    block = run.block
    if check.kind == "launch-shape" and section == "Good":
        block = 256
    arguments = [device.array(a) if isinstance(a, np.ndarray) else a for a in run.arguments]
    if check.kind == "api" and section == "Bad":
        arguments[2] = run.arguments[2]
    if check.kind == "stream-hazard":
        return _in_streams(device, kernel, arguments[0], early=section == "Bad")
    refused = suppress(gs.KernelFault, gs.LaunchError) if section == "Bad" else nullcontext()
    with gs.checking(schedules=run.schedules) as findings, refused:
        kernel[run.grid, block](*arguments, shared=run.shared)
    return findings


def _in_streams(device: gs.Device, kernel: gs.Kernel, x: gs.Array, *, early: bool) -> gs.Findings:
    """The host's side of the example of stream hazards; `early`: the event is recorded before the copy."""
    staged, copies, work = device.pinned(32), device.stream(), device.stream()
    with gs.checking() as findings:
        event = copies.record() if early else None
        x.copy_from(staged, stream=copies)
        work.wait(event or copies.record())
        kernel[1, 32](x, stream=work)
    return findings


def test_every_check_has_an_example_that_runs() -> None:
    assert set(RUNS) == {check.kind for check in CHECKS}


@EVERY
def test_the_bad_example_is_found(check: Check) -> None:
    found = [(f.code, f.kind, f.severity) for f in launch(check, "Bad")]
    assert (check.code, check.kind, RUNS[check.kind].severity) in found


@EVERY
def test_the_good_example_is_clean(check: Check) -> None:
    findings = launch(check, "Good")
    assert [f for f in findings if f.severity != "note"] == [] and findings.passed, findings
