"""Contracts that a source says of its kernels, in comments: `// gridstride: contract extent=n block=256 covers=y` above a kernel.

Several such lines above one kernel are one contract. `kernel=NAME,PATTERN*` says whom a line is about where no kernel follows, as where macros make
them. Here lines are found and given to kernels; what they mean is `gridstride.runtime.contracts.notation`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridstride.errors import UsageError
from gridstride.frontends.names import demangle
from gridstride.frontends.ptx_file import entry_places
from gridstride.frontends.signatures import kernel_places

_NOTE = re.compile(r"^[ \t]*(?://+|/\*+|\*)[ \t]*gridstride:[ \t]*contract\b[ \t]*(.*?)[ \t]*(?:\*/.*)?$", re.MULTILINE)
_MARK = "gridstride: contract"


@dataclass(frozen=True)
class Note:
    """One contract of a source: whom it is about (patterns, or the path of one kernel), its clauses, and where it stands."""

    patterns: tuple[str, ...]
    path: tuple[str, ...]
    clauses: str
    where: str

    def is_about(self, entry: str) -> bool:
        """Whether it is about an entry of the PTX."""
        name = demangle(entry)
        if self.patterns:
            return any(fnmatch.fnmatchcase(text, pattern) for pattern in self.patterns for text in (entry, name.base, name.qualified, name.short))
        return name.path == self.path or (entry,) == self.path


def contract_notes(texts: Iterable[tuple[str, str]], *, ptx: bool) -> tuple[Note, ...]:
    """The contracts in texts, each given with its name. Raises UsageError for one that is about no kernel."""
    found: list[Note] = []
    for name, text in texts:
        if _MARK not in re.sub(r"gridstride:\s*", "gridstride: ", text):
            continue
        places = entry_places(text) if ptx else kernel_places(text)
        joined: dict[object, Note] = {}
        for match in _NOTE.finditer(text):
            where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
            note = _note(match[1], match.end(1), places, where)
            key = note.patterns or note.path
            kept = joined.get(key)
            joined[key] = note if kept is None else Note(kept.patterns, kept.path, f"{kept.clauses} {note.clauses}", kept.where)
        found += joined.values()
    return tuple(found)


def _note(text: str, end: int, places: Sequence[tuple[int, tuple[str, ...]]], where: str) -> Note:
    words = text.split()
    patterns = tuple(part for word in words if word.startswith("kernel=") for part in word.removeprefix("kernel=").split(",") if part)
    clauses = " ".join(word for word in words if not word.startswith("kernel="))
    if patterns:
        return Note(patterns, (), clauses, where)
    path = next((path for start, path in places if start > end), None)
    if path is None:
        raise UsageError(f"{where}: no kernel follows this contract; put it above one, or say whom it is about: kernel=NAME")
    return Note((), path, clauses, where)
