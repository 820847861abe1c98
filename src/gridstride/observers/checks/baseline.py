"""A baseline: the findings that an old code base has already, so that only new ones are shown.

A finding is known by its code, kernel, buffer and the text of its source lines, not by their numbers: what moves with the code stays known,
and what changes is new. `--write-baseline FILE` writes what a run found, `--baseline FILE` leaves it out of the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridstride.errors import UsageError
from gridstride.findings import Finding, Site
from gridstride.observers.checks import BY_KIND
from gridstride.observers.checks.suppress import LineOf

_SCHEMA = 1


@dataclass(frozen=True, order=True)
class Known:
    """What stays the same of a finding while the code around it changes."""

    code: str
    kernel: str
    buffer: str
    places: tuple[tuple[str, str], ...]
    """File name and text of each line, in alphabetical order."""


def known(found: Finding, line_of: LineOf) -> Known:
    """The lasting features of a finding."""
    places = {_place(site, line_of) for site in (found.site, found.other) if site is not None}
    return Known(found.code, found.kernel, found.buffer or "", tuple(sorted(places)))


def _place(site: Site, line_of: LineOf) -> tuple[str, str]:
    text = line_of(site.file, site.line)
    return os.path.basename(site.file or ""), " ".join(text.split()) if text is not None else f"line {site.line or site.ptx_line}"


def write_baseline(path: Path, findings: Iterable[Finding], line_of: LineOf) -> int:
    """Write what is known now; returns how many entries. Findings that stopped a kernel are not among them. Raises UsageError."""
    entries = sorted({known(found, line_of) for found in findings if not _stops(found)})
    document = {
        "schema": _SCHEMA,
        "findings": [{"code": e.code, "kernel": e.kernel, "buffer": e.buffer, "places": [list(p) for p in e.places]} for e in entries],
    }
    try:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return len(entries)


def read_baseline(path: Path) -> frozenset[Known]:
    """The entries of a baseline file. Raises UsageError where it is none."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    try:
        if document["schema"] != _SCHEMA:
            raise UsageError(f"{path}: a baseline of schema {document['schema']}, which this version does not read; write it anew")
        return frozenset(
            Known(str(e["code"]), str(e["kernel"]), str(e["buffer"]), tuple((str(f), str(t)) for f, t in e["places"])) for e in document["findings"]
        )
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} is no baseline; write one with --write-baseline") from None


def leave_out(findings: Sequence[Finding], entries: frozenset[Known], line_of: LineOf) -> tuple[list[Finding], frozenset[Known]]:
    """The findings that are not in the baseline, and the entries that were met."""
    left: list[Finding] = []
    met: set[Known] = set()
    for found in findings:
        entry = known(found, line_of)
        if entry in entries and not _stops(found):
            met.add(entry)
        else:
            left.append(found)
    return left, frozenset(met)


def _stops(found: Finding) -> bool:
    check = BY_KIND.get(found.kind)
    return check is None or check.stops
