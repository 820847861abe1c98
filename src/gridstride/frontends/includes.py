"""Which files a source draws in: NVRTC does not tell, and a cached result is good only while they stay the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridstride.frontends.cxx_tokens import TokenKind, tokenize

_INCLUDE = re.compile(r'#\s*(?:include|include_next|import)\b\s*(?:"(?P<quoted>[^"]+)"|<(?P<angled>[^>]+)>|(?P<computed>\S.*))', re.DOTALL)
_CHANGES_BY_ITSELF = re.compile(r"\b(?:__DATE__|__TIME__|__TIMESTAMP__)\b")


@dataclass(frozen=True)
class Inclusions:
    """`files` are a person's own headers and their texts, `standard` the names that none of the given folders holds.

    `names` maps each name in an include directive to the file it stands for (None where two files are meant by one name).
    `complete` is False when the source has an include whose name a macro makes, or a time of day: such a result is not to be kept.
    """

    files: dict[Path, str]
    names: dict[str, Path | None]
    standard: frozenset[str]
    complete: bool


def include_folder() -> Path:
    """The folder of Gridstride's own headers (`#include <gridstride/index.cuh>`), for compilers that do not know them: `nvcc -I FOLDER`."""
    return Path(__file__).parents[1] / "include"


def inclusions(text: str, source_folder: Path | None, include_dirs: Sequence[Path]) -> Inclusions:
    """Follow every `#include` through the source's folder and the given ones, whatever conditions stand around it."""
    files: dict[Path, str] = {}
    names: dict[str, Path | None] = {}
    standard: set[str] = set()
    complete = True
    near = [] if source_folder is None else [source_folder]
    pending = [(text, near)]
    while pending:
        content, folders = pending.pop()
        complete = complete and not _CHANGES_BY_ITSELF.search(content)
        for token in tokenize(content):
            match = _INCLUDE.match(token.text) if token.kind is TokenKind.DIRECTIVE else None
            if match is None:
                continue
            if match["computed"]:
                complete = False
                continue
            name = match["quoted"] or match["angled"]
            path = _found(name, [*folders, *near, *include_dirs])
            if path is None:
                standard.add(name)
                continue
            names[name] = path if names.get(name, path) == path else None
            if path not in files:
                try:
                    files[path] = path.read_text(errors="replace")
                except OSError:
                    complete = False
                    continue
                pending.append((files[path], [path.parent]))
    return Inclusions(files, names, frozenset(standard), complete)


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path.resolve()
    return None
