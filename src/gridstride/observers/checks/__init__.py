"""The checks, one a module: what each finds, and how its findings are told. `CHECKS` is the list; `explain` the manual."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable

from gridstride.errors import UsageError
from gridstride.observers.checks import (
    api,
    assertion,
    barrier_misuse,
    budget,
    deadlock,
    divergent_barrier,
    double_free,
    double_write,
    launch_shape,
    leak,
    misaligned,
    order_dependent,
    out_of_bounds,
    race_global,
    race_shared,
    stream_hazard,
    trap,
    uninitialised,
    warp_mask,
)
from gridstride.observers.checks.check import Check

CHECKS: tuple[Check, ...] = (
    out_of_bounds.CHECK,
    misaligned.CHECK,
    trap.CHECK,
    assertion.CHECK,
    deadlock.CHECK,
    budget.CHECK,
    barrier_misuse.CHECK,
    race_shared.CHECK,
    race_global.CHECK,
    uninitialised.CHECK,
    divergent_barrier.CHECK,
    warp_mask.CHECK,
    launch_shape.CHECK,
    order_dependent.CHECK,
    double_write.CHECK,
    leak.CHECK,
    double_free.CHECK,
    api.CHECK,
    stream_hazard.CHECK,
)
BY_KIND = {check.kind: check for check in CHECKS}
ALWAYS = frozenset(check.kind for check in CHECKS if check.always)
NATIVE = frozenset(check.kind for check in CHECKS if check.native)
DECLARED = frozenset(check.kind for check in CHECKS if check.declared)
ALL = frozenset(check.kind for check in CHECKS if not check.optional)
"""What `all` means."""


def parse_kinds(text: str) -> frozenset[str]:
    """The kinds that `--checks TEXT` asks for: `all`, `none`, or kinds and codes with commas between.

    Raises UsageError for a word that is none of these.
    """
    kinds: set[str] = set()
    for word in (part.strip() for part in text.split(",")):
        if word == "all":
            kinds |= ALL
        elif word != "none":
            kinds.add(find_check(word).kind)
    return frozenset(kinds)


def find_check(word: str) -> Check:
    """The check of a code (`GS201`) or a kind (`race-shared`). Raises UsageError where there is none."""
    for check in CHECKS:
        if word.upper() == check.code or word.lower() == check.kind:
            return check
    known = [check.kind for check in CHECKS]
    near = difflib.get_close_matches(word.lower(), [*known, *(check.code.lower() for check in CHECKS)], 1)
    raise UsageError(
        f"there is no check {word!r}" + (f"; did you mean {near[0] if near[0] in known else near[0].upper()}?" if near else f"; there are {', '.join(known)}")
    )


def explain(word: str) -> str:
    """The manual's page on a check, as plain text. Raises UsageError for an unknown code or kind."""
    check = find_check(word)
    parts = [f"{check.code} {check.kind} ({' or '.join(check.severities)})", check.title, check.explanation]
    for name in ("Bad", "Good"):
        parts.append(f"{name}:\n\n" + _indented(check.section(name)))
    parts.append(f"What to do: {check.section('What to do')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def manual(checks: Iterable[Check] = CHECKS) -> str:
    """The pages of all checks in Markdown: docs/checks.md."""
    lines = [
        "# Checks",
        "",
        "Made from the checks' own texts by `python -m gridstride.observers.checks`; `gridstride check --explain CODE` prints a page of it.",
        "`--checks all` is all of them but `order-dependent`, which takes `--schedules N`. Those marked *always* are looked for in every run.",
        "",
        "| code | kind | severity | what is found |",
        "|---|---|---|---|",
    ]
    checks = tuple(checks)
    for check in checks:
        severity = ", ".join(check.severities) + (" (always)" if check.always or check.event else "")
        lines.append(f"| [{check.code}](#{check.code.lower()}-{check.kind}) | `{check.kind}` | {severity} | {check.title} |")
    for check in checks:
        lines += ["", f"## {check.code} {check.kind}", "", f"**{check.title}**", "", check.explanation]
        for name in ("Bad", "Good"):
            lines += ["", f"{name}:", "```cuda", check.section(name), "```"]
        lines += ["", f"What to do: {check.section('What to do')}"]
    lines += ["", "## Findings that are known", "", *_known_findings()]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _known_findings() -> list[str]:
    """How to leave out what somebody has looked at already, from the texts of the modules that do it."""
    from gridstride.observers.checks import baseline, suppress  # here: both need this module

    return [inspect.cleandoc(suppress.__doc__ or ""), "", inspect.cleandoc(baseline.__doc__ or "")]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
