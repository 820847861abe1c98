"""The parts of a source file: a line `// == NAME: what it is` begins the part of a step, which ends where the next begins.

What stands above the first belongs to all; so does a part called `common`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"^// == ([\w-]+)(?:: (.*))?$")
COMMON = "common"


@dataclass(frozen=True)
class Part:
    """line: where its text begins in the file, counted from 1."""

    name: str
    title: str
    text: str
    line: int


def parts(source: str) -> list[Part]:
    """The parts of a source in its order; the first is what all share, and may be empty."""
    found = [Part(COMMON, "", "", 1)]
    lines: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        head = _HEAD.match(line)
        if head is None:
            lines.append(line)
            continue
        found[-1] = _closed(found[-1], lines)
        lines = []
        found.append(Part(head[1], head[2] or "", "", number + 1))
    found[-1] = _closed(found[-1], lines)
    return found


def _closed(part: Part, lines: list[str]) -> Part:
    return Part(part.name, part.title, "\n".join(lines).strip("\n") + "\n", part.line)


def part(source: str, name: str) -> str:
    """The text of one part. Raises KeyError where there is none."""
    for found in parts(source):
        if found.name == name:
            return found.text
    raise KeyError(name)
