"""The text of a source line, for messages that point at one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_MOST_BYTES = 16 << 20
"""Larger files are no sources: nothing is read from them."""


class SourceLines:
    """Finds lines by the file name that the compiler recorded, which may be a path of another machine.

    Looked for, in this order: among `texts` (sources that have no file), at the recorded path, in `folder` (where the launched
    source lies) under the recorded path, and in `folder` under the bare name.
    """

    def __init__(self, folder: Path | None = None, texts: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._texts = dict(texts or {})

    def line(self, file: str | None, number: int | None) -> str | None:
        """The line's text without its end and outer blanks; None where it cannot be found."""
        if file is None or number is None or number < 1:
            return None
        text = self._texts.get(file)
        candidates = [Path(file)] if self._folder is None else [Path(file), self._folder / file, self._folder / Path(file).name]
        lines = text.splitlines() if text is not None else next((found for path in candidates if (found := _lines_of(path))), [])
        return lines[number - 1].strip() if number <= len(lines) else None


def _lines_of(path: Path) -> list[str]:
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_size) if found.st_size <= _MOST_BYTES else []
    except OSError:
        return []


@lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int) -> list[str]:
    """The lines of one state of a file: an edited one is read again."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()
