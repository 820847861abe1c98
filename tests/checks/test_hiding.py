"""Findings that are not shown: comments, rules, a baseline."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gridstride.errors import UsageError
from gridstride.findings import Finding, Site
from gridstride.observers.checks.baseline import known, leave_out, read_baseline, write_baseline
from gridstride.observers.checks.suppress import Rule, ignored_in_source, read_rules, suppress

SOURCE = [
    "__global__ void k(int* flags) {",
    "    s[t] = 1;  // gridstride: ignore[race-shared]",
    "    // gridstride: ignore[GS202, uninitialised]",
    "    flags[0] = 1;",
    "    flags[1] = 1;",
    "    flags[2] = 1;  /* gridstride: ignore[race-global] */",
    "    flags[3] = 1;  // gridstride: ignore",
]


def line_of(file: str | None, number: int | None) -> str | None:
    return SOURCE[number - 1] if file == "src/k.cu" and number is not None and 1 <= number <= len(SOURCE) else None


def race(line: int, *, kind: str = "race-global", code: str = "GS202", other: int | None = None, kernel: str = "k") -> Finding:
    second = None if other is None else Site("src/k.cu", other)
    return Finding(code, kind, "error", "m", "a", kernel, Site("src/k.cu", line), second, "global", "flags", 0)


@pytest.mark.parametrize(
    ("found", "hidden"),
    [
        (race(2, kind="race-shared", code="GS201"), True),
        (race(2), False),  # the comment names another kind
        (race(4), True),  # by code, on the line above
        (race(5), False),
        (race(6), True),
        (race(7), False),  # a comment has to say what it hides
        (race(5, other=6), True),  # the other side
        (race(3), True),
        (Finding("GS202", "race-global", "error", "m", "a", "k", Site(ptx_line=4)), False),
    ],
)
def test_comments(found: Finding, hidden: bool) -> None:
    assert ignored_in_source(found, line_of) is hidden


def test_a_comment_behind_code_does_not_hide_the_next_line() -> None:
    lines = ["flags[0] = 1;  // gridstride: ignore[race-global]", "flags[1] = 1;"]
    assert not ignored_in_source(race(2), lambda file, number: lines[(number or 1) - 1])


def test_rules_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("# ours\nrace-global kernel=hist* buffer=flags  # set by many\n\nGS301 file=legacy/*.cu:120\n* kernel=old\n")
    rules = read_rules(path)
    assert rules == (
        Rule("race-global", kernel="hist*", buffer="flags"),
        Rule("uninitialised", file="legacy/*.cu", line=120),
        Rule("*", kernel="old"),
    )
    assert rules[0].matches(race(5, kernel="histogram")) and not rules[0].matches(race(5))
    at = replace(race(5, kind="uninitialised", code="GS301"), site=Site("/home/me/legacy/a.cu", 120))
    assert rules[1].matches(at) and not rules[1].matches(replace(at, site=Site("/home/me/legacy/a.cu", 121)))
    assert rules[2].matches(race(1, kernel="old"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("race-globl", "line 1: there is no check 'race-globl'; did you mean race-global?"),
        ("race-global line=3", "line 1: a condition is kernel=PATTERN, file=PATTERN, buffer=PATTERN, not 'line=3'"),
        ("*", "line 1: a rule for every finding of every kernel would hide all; add a condition"),
    ],
)
def test_rules_wrong(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rules.txt"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match=re.escape(f"{path}, {message}")):
        read_rules(path)


def test_what_is_hidden_is_counted_and_faults_are_never_hidden() -> None:
    fault = Finding("GS101", "out-of-bounds", "error", "m", "a", "k", Site("src/k.cu", 4))
    left, by_comment, by_rule = suppress([race(4), race(5), fault], [Rule("*", file="*.cu")], line_of)
    assert (left, by_comment, by_rule) == ([fault], 1, 1)


def test_a_baseline_knows_findings_by_what_does_not_move(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    fault = Finding("GS101", "out-of-bounds", "error", "m", "a", "k", Site("src/k.cu", 4))
    assert write_baseline(path, [race(5), race(5), race(6, other=2), fault], line_of) == 2
    entries = read_baseline(path)
    moved = ["", "", *SOURCE]

    def moved_line(file: str | None, number: int | None) -> str | None:
        return "   " + moved[(number or 1) - 1] if file == "src/k.cu" else None

    left, met = leave_out([race(7), race(4 + 2, other=None), fault], entries, moved_line)
    assert left == [race(6), fault]  # line 6 was "flags[0] = 1" and is not in the baseline; a fault never is
    assert met == {known(race(5), line_of)}
    left, met = leave_out([race(8, other=4)], entries, moved_line)
    assert left == [] and len(met) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON: "),
        ("[]", " is no baseline; write one with --write-baseline"),
        (json.dumps({"schema": 9, "findings": []}), ": a baseline of schema 9, which this version does not read; write it anew"),
        (json.dumps({"schema": 1, "findings": [{"code": "GS201"}]}), " is no baseline; write one with --write-baseline"),
    ],
)
def test_baselines_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        read_baseline(path)
    with pytest.raises(UsageError, match=re.escape(f"cannot read {tmp_path / 'none'}: No such file or directory")):
        read_baseline(tmp_path / "none")
