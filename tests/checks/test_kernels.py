"""Kernels with a planted fault and their repaired twins, each under all checks at once.

A faulty kernel must be told with the expected kind and severity on a marked line, under any order of blocks and warps, and nothing
else may be an error. Its twin must give no finding but notes, and the right output.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs

from .kernels.table import Blank, Case

pytest.importorskip("cuda.bindings.nvrtc")

FOLDER = Path(__file__).parent / "kernels"
FILES = sorted(path.stem for path in FOLDER.glob("*.cu"))
SEEDS = (None, 1, 2, 3)
MARK = "/*!*/"


def _cases(file: str) -> list[Case]:
    cases: list[Case] = importlib.import_module(f".kernels.{file}", __package__).CASES
    return cases


EVERY = [pytest.param(file, case, id=f"{file}-{case.kernel}") for file in FILES for case in _cases(file)]
FAULTY = [
    pytest.param(file, case, id=f"{file}-{case.kernel}", marks=[pytest.mark.xfail(reason=case.missed)] if case.missed else [])
    for file in FILES
    for case in _cases(file)
    if case.severity != "none"
]


@functools.cache
def _module(file: str, repaired: bool) -> gs.Module:
    defines = {"REPAIRED": 1} if repaired else {}
    device = getattr(importlib.import_module(f".kernels.{file}", __package__), "DEVICE", "sim:h200")
    return gs.device(device).compile(str(FOLDER / f"{file}.cu"), defines=defines)


@functools.cache
def marked_lines(file: str) -> dict[str, frozenset[int]]:
    """Kernel → the lines of its text that are marked."""
    found: dict[str, set[int]] = {}
    kernel = ""
    for number, line in enumerate((FOLDER / f"{file}.cu").read_text(encoding="utf-8").splitlines(), 1):
        begins = re.search(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(", line)
        if begins:
            kernel = begins[1]
            found[kernel] = set()
        if MARK in line and kernel:
            found[kernel].add(number)
    return {name: frozenset(lines) for name, lines in found.items()}


def launch(file: str, case: Case, repaired: bool, seed: int | None) -> tuple[gs.Findings, dict[int, Any]]:
    """What is found, and the outputs that are expected of the repaired twin."""
    module = _module(file, repaired).fresh()
    device: Any = module.device
    device.seed = seed
    how: dict[str, Any] = {"grid": case.grid, "block": case.block, "args": case.args, "shared": case.shared, "cooperative": case.cooperative}
    if repaired:
        how |= case.repaired_launch
    outputs: dict[int, Any] = {}
    with gs.checking(schedules=case.schedules) as findings:
        arrays = [
            device.empty(a.count, a.dtype) if isinstance(a, Blank) else device.array(a) if isinstance(a, np.ndarray) else a for a in how["args"]
        ]
        with contextlib.nullcontext() if repaired else contextlib.suppress(gs.KernelFault, gs.LaunchError):
            module[case.kernel][how["grid"], how["block"]](*arrays, shared=how["shared"], cooperative=how["cooperative"])
            outputs = {position: arrays[position].numpy() for position in case.expect}
    return findings, outputs


def _lines(found: gs.Finding) -> set[int]:
    return {site.line for site in (found.site, found.other) if site is not None and site.line is not None}


def _expected(found: gs.Finding, kind: str, case: Case, marked: frozenset[int]) -> bool:
    if found.kind in case.also:
        return True
    return found.kind == kind and case.severity == "error" and (case.unmarked or _lines(found) <= marked)


@pytest.mark.parametrize(("file", "case"), FAULTY)
def test_the_fault_is_found(file: str, case: Case) -> None:
    kind = case.kind or file.replace("_", "-")
    marked = marked_lines(file)[case.kernel]
    assert marked or case.unmarked, "no line of the kernel is marked"
    for seed in SEEDS[:1] if case.schedules or case.in_order_only else SEEDS[:2]:
        findings, _ = launch(file, case, False, seed)
        right = [f for f in findings if f.kind == kind and f.severity == case.severity]
        assert right, f"seed {seed}: {findings!r}"
        assert case.unmarked or any(_lines(f) <= marked and _lines(f) for f in right), f"seed {seed}: marked {sorted(marked)}: {findings!r}"
        surplus = [f for f in findings.errors if not _expected(f, kind, case, marked)]
        assert not surplus, f"seed {seed}: marked {sorted(marked)}: {findings!r}"


@pytest.mark.parametrize(("file", "case"), EVERY)
def test_the_repaired_twin_is_clean_and_right(file: str, case: Case) -> None:
    for seed in SEEDS[:1] if case.schedules else SEEDS:
        findings, outputs = launch(file, case, True, seed)
        assert findings.passed, f"seed {seed}: {findings!r}"
        assert [f for f in findings if f.severity != "note"] == [], f"seed {seed}: {findings!r}"
        for position, expected in case.expect.items():
            got = outputs[position]
            wanted = np.asarray(expected).astype(got.dtype).reshape(-1)
            np.testing.assert_allclose(got, wanted, rtol=case.near, atol=case.near, err_msg=f"seed {seed}, argument {position}")


def test_every_kernel_is_launched() -> None:
    for file in FILES:
        assert sorted(case.kernel for case in _cases(file)) == sorted(marked_lines(file)), file


def test_there_are_enough_of_each_kind() -> None:
    counts: dict[str, int] = {}
    for file in FILES:
        for case in _cases(file):
            if case.severity != "none":
                kind = case.kind or file.replace("_", "-")
                counts[kind] = counts.get(kind, 0) + 1
    assert len(counts) >= 10 and min(counts.values()) >= 8, counts
