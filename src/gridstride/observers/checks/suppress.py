"""Findings that somebody has looked at and does not want to see again: comments in the source, and a file.

In the source, on the line of the finding (either side of a race) or on the line above it:

    s[t] += s[t + 16];  // gridstride: ignore[race-shared]

In a file (`--suppress FILE`), one rule a line: a kind or code (or `*`), then conditions that all must hold; `#` begins a comment:

    race-global kernel=histogram* buffer=flags     # several threads set the same flag
    GS301 file=legacy/*.cu:120

A finding that stopped its kernel is always shown.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridstride.errors import UsageError
from gridstride.findings import Finding, Site
from gridstride.observers.checks import BY_KIND, find_check

_COMMENT = re.compile(r"//\s*gridstride:\s*ignore\[([^\]]*)\]|/\*\s*gridstride:\s*ignore\[([^\]]*)\]\s*\*/")
_FIELDS = ("kernel", "file", "buffer")

LineOf = Callable[[str | None, int | None], str | None]
"""The text of a source line by file and number, None where it cannot be read."""


@dataclass(frozen=True)
class Rule:
    """One line of a suppression file. Patterns are shell patterns; `line` belongs to the file's."""

    kind: str
    kernel: str = "*"
    file: str = "*"
    line: int | None = None
    buffer: str = "*"

    def matches(self, found: Finding) -> bool:
        if self.kind not in ("*", found.kind) or not fnmatch.fnmatchcase(found.kernel, self.kernel):
            return False
        if self.buffer != "*" and not fnmatch.fnmatchcase(found.buffer or "", self.buffer):
            return False
        if self.file == "*" and self.line is None:
            return True
        return any(self._at(site) for site in (found.site, found.other) if site is not None)

    def _at(self, site: Site) -> bool:
        if site.file is None or (self.line is not None and site.line != self.line):
            return False
        return fnmatch.fnmatchcase(site.file, self.file) or fnmatch.fnmatchcase(site.file, f"*/{self.file}")


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a suppression file. Raises UsageError with the line that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            rules.append(_rule(words, f"{path}, line {number}"))
    return tuple(rules)


def _rule(words: Sequence[str], where: str) -> Rule:
    try:
        kind = "*" if words[0] == "*" else find_check(words[0]).kind
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    fields: dict[str, str] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals or name not in _FIELDS or not value:
            raise UsageError(f"{where}: a condition is {', '.join(f'{field}=PATTERN' for field in _FIELDS)}, not {word!r}")
        fields[name] = value
    if kind == "*" and not fields:
        raise UsageError(f"{where}: a rule for every finding of every kernel would hide all; add a condition")
    file, line = fields.get("file", "*"), None
    head, colon, number = file.rpartition(":")
    if colon and number.isdecimal():
        file, line = head, int(number)
    return Rule(kind, fields.get("kernel", "*"), file, line, fields.get("buffer", "*"))


def ignored_in_source(found: Finding, line_of: LineOf) -> bool:
    """Whether a comment on a line of the finding, or alone on the line above one, says to ignore its kind or code."""
    return any(_ignored_at(found, site, line_of) for site in (found.site, found.other) if site is not None and site.line is not None)


def _ignored_at(found: Finding, site: Site, line_of: LineOf) -> bool:
    assert site.line is not None
    here, above = line_of(site.file, site.line), line_of(site.file, site.line - 1)
    texts = [here or ""]
    if above is not None and above.lstrip().startswith(("//", "/*")):
        texts.append(above)
    words = [word.strip().lower() for text in texts for match in _COMMENT.finditer(text) for word in (match[1] or match[2] or "").split(",")]
    return found.kind in words or found.code.lower() in words


def suppress(findings: Iterable[Finding], rules: Sequence[Rule], line_of: LineOf) -> tuple[list[Finding], int, int]:
    """What is left of `findings`, and how many were taken out by comments in the source and by rules."""
    left: list[Finding] = []
    by_comment = by_rule = 0
    for found in findings:
        check = BY_KIND.get(found.kind)
        if check is None or check.stops:
            left.append(found)
        elif ignored_in_source(found, line_of):
            by_comment += 1
        elif any(rule.matches(found) for rule in rules):
            by_rule += 1
        else:
            left.append(found)
    return left, by_comment, by_rule
