"""The options about checks that `launch` and `check` share, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gridstride.cases import CheckRequest
from gridstride.errors import UsageError
from gridstride.findings import Finding
from gridstride.observers import checks as manual
from gridstride.observers.checks.baseline import Known, leave_out, read_baseline, write_baseline
from gridstride.observers.checks.suppress import LineOf, read_rules
from gridstride.report.files import require_writable
from gridstride.report.model import CaseResult, Receipt, RunResult


def _explain(word: str | None) -> None:
    if word is not None:
        print(manual.explain(word), end="")
        raise typer.Exit


ChecksOption = Annotated[
    str, typer.Option("--checks", metavar="all|none|KIND,…", help="What to look for, beyond the bounds and alignment of every run.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Warnings too end with exit status 1.")]
SchedulesOption = Annotated[
    int, typer.Option("--schedules", metavar="N", min=0, help="Run each launch again in N other orders, and compare what they leave (order-dependent).")
]
SuppressOption = Annotated[Path | None, typer.Option("--suppress", metavar="FILE", help="Rules for findings that are not to be shown.")]
BaselineOption = Annotated[Path | None, typer.Option("--baseline", metavar="FILE", help="Leave out what this baseline has already.")]
WriteBaselineOption = Annotated[Path | None, typer.Option("--write-baseline", metavar="FILE", help="Write what is found as a baseline.")]
ExplainOption = Annotated[
    str | None,
    typer.Option("--explain", metavar="CODE", callback=_explain, is_eager=True, help="Explain a code or kind of finding, such as GS201, and exit."),
]


@dataclass(frozen=True)
class CheckOptions:
    """The options as given, their files read. request: None where nothing beyond bounds and alignment is looked for."""

    request: CheckRequest | None
    strict: bool
    baseline: frozenset[Known]
    baseline_path: Path | None
    write_path: Path | None

    @staticmethod
    def of(checks: str, strict: bool, schedules: int, suppress: Path | None, baseline: Path | None, write: Path | None) -> CheckOptions:
        """Raises UsageError for unknown kinds, unreadable files, and options that make no sense together."""
        kinds = manual.parse_kinds(checks)
        order_dependent = manual.order_dependent.CHECK.kind
        if order_dependent in kinds and not schedules:
            raise UsageError("order-dependent runs each launch again in other orders: say how many with --schedules N")
        if baseline is not None and write is not None and baseline == write:
            raise UsageError(f"{baseline} cannot be read as the baseline and written as one at once")
        if write is not None:
            require_writable(write)
        rules = read_rules(suppress) if suppress is not None else ()
        wanted = bool(kinds or schedules or rules or baseline or write)
        return CheckOptions(
            CheckRequest(kinds, schedules, rules) if wanted else None,
            strict,
            read_baseline(baseline) if baseline is not None else frozenset(),
            baseline,
            write,
        )

    def settle(self, run: RunResult, line_of: LineOf, say: Callable[[str], object]) -> RunResult:
        """The run without what the baseline has, after the new baseline is written. `say` is told about entries that are out of date."""
        found = [finding for case in run.cases for finding in case.findings]
        if self.write_path is not None:
            count = write_baseline(self.write_path, found, line_of)
            say(f"{self.write_path}: a baseline of {count:,} finding{'' if count == 1 else 's'}")
        if self.baseline_path is None:
            return replace(run, strict=self.strict)
        cases, met = [], set[Known]()
        for case in run.cases:
            left, known = leave_out(case.findings, self.baseline, line_of)
            met |= known
            cases.append(_without(case, left))
        gone = len(self.baseline - met)
        if gone:
            say(f"{self.baseline_path}: {gone:,} finding{' is' if gone == 1 else 's are'} in the baseline and did not happen; write it anew if they are repaired")
        return replace(run, cases=tuple(cases), strict=self.strict)


def _without(case: CaseResult, left: list[Finding]) -> CaseResult:
    hidden = len(case.findings) - len(left)
    if not hidden:
        return case
    receipt: Receipt = case.receipt
    note = f"{hidden:,} finding{'' if hidden == 1 else 's'} of the baseline"
    return replace(case, findings=tuple(left), receipt=replace(receipt, skipped=(*receipt.skipped, note)))
