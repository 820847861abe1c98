"""Findings for a terminal: what happened, the source line of both sides, which threads, which element, what to do; and the receipt."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gridstride.findings import Dim3, Finding, Site
from gridstride.report.model import CaseResult, Receipt
from gridstride.report.source_lines import SourceLines

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}

PTX = "<PTX>"
"""The name under which `SourceLines` may know the text of the PTX."""


def finding(found: Finding, sources: SourceLines) -> Text:
    """One finding over several lines. Code without line information is shown by its PTX, which `sources` may have under the name PTX."""
    text = Text()
    text.append(found.severity, style=_STYLES[found.severity]).append(f"[{found.code}] {found.kind}: ", style="bold")
    text.append(found.message)
    _append_site(text, found.kernel, found.site, sources)
    if found.buffer is not None or found.address is not None:
        text.append("\n  ").append(target(found))
    if found.other is not None:
        text.append("\n  the other side:")
        _append_site(text, None, found.other, sources)
    if found.count > 1:
        text.append(f"\n  {found.count:,} times")
    if found.advice:
        text.append("\n  what to do: ", style="bold").append(found.advice)
    return text


def _append_site(text: Text, kernel: str | None, site: Site, sources: SourceLines) -> None:
    if site.line is not None:
        text.append("\n  at ").append(f"{site.file}:{site.line}", style="bold")
        _append_line(text, site.line, sources.line(site.file, site.line))
    elif site.ptx_line is not None:
        text.append("\n  at ").append(f"PTX line {site.ptx_line}", style="bold")
        _append_line(text, site.ptx_line, sources.line(PTX, site.ptx_line))
    where = [f"kernel {kernel}"] if kernel else []
    if site.block is not None:
        where.append(f"block {_dim(site.block)}")
    if site.thread is not None:
        where.append(f"thread {_dim(site.thread)}")
    if where:
        text.append(f"\n  in {', '.join(where)}")


def _append_line(text: Text, number: int, line: str | None) -> None:
    if line:
        text.append(f"\n    {number} | {line}")


def target(found: Finding) -> str:
    """Which memory, which element of which buffer, at which address."""
    where = "" if found.address is None else f" (address {found.address:#x})"
    space = f"{found.space} memory" if found.space else "memory"
    if found.buffer is None:
        return f"{space}{where}"
    return f"{space}, {found.buffer}" + ("" if found.index is None else f"[{found.index}]") + where


def _dim(value: Dim3) -> str:
    return f"({value[0]}, {value[1]}, {value[2]})"


def verdict(cases: Sequence[CaseResult]) -> Text:
    """The last lines of a checked run: how many findings, what was looked at, and what was not."""
    counts = {severity: sum(f.severity == severity for case in cases for f in case.findings) for severity in ("error", "warning", "note")}
    text = Text()
    for severity, count in counts.items():
        if count:
            text.append(", " if text else "").append(f"{count:,} {severity}{'' if count == 1 else 's'}", style=_STYLES[severity])
    if not text:
        # A launch that did not come to its end was not looked at to its end.
        ended_early = any(case.failure is not None for case in cases)
        text.append("no findings before it ended early," if ended_early else "no findings", style="bold yellow" if ended_early else "bold green")
    receipts = [case.receipt for case in cases]
    text.append(" in ").append(_looked_at(receipts))
    kinds = list(dict.fromkeys(kind for receipt in receipts for kind in receipt.checks))
    if kinds:
        text.append(f"\nchecked: {', '.join(kinds)}")
    skipped: dict[str, int] = {}
    for receipt in receipts:
        for what in receipt.skipped:
            skipped[what] = skipped.get(what, 0) + 1
    for what, times in skipped.items():
        text.append(f"\nnot checked: {what}" + (f" ({times:,} cases)" if times > 1 else ""))
    return text


def _looked_at(receipts: Sequence[Receipt]) -> str:
    launches = sum(receipt.launches for receipt in receipts)
    parts = [f"{launches:,} launch{'' if launches == 1 else 'es'}", f"{sum(receipt.threads for receipt in receipts):,} threads"]
    counted = [receipt for receipt in receipts if receipt.accesses is not None]
    if counted:
        parts.append(f"{sum(receipt.accesses or 0 for receipt in counted):,} warp accesses")
        parts.append(f"{sum(receipt.bytes or 0 for receipt in counted):,} bytes")
    return ", ".join(parts)
