"""What can be read off a PTX text without parsing its code: that it is one, its target, its entries, its files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gridstride.ptx.lexer import plain_name

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION_FIRST = re.compile(r"(?:\s|//[^\n]*(?:\n|$)|/\*.*?\*/)*\.version\s+\d+\.\d+", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(r"\.param\b[^,]*?([A-Za-z_$%][\w$]*)\s*(?:\[\s*\d*\s*\])?\s*$")
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)


def is_ptx(text: str) -> bool:
    """Is it PTX? PTX ISA 4.1: a module begins with `.version`; comments may stand before."""
    return _VERSION_FIRST.match(text.removeprefix("\ufeff")) is not None


def entries(ptx: str) -> dict[str, tuple[str, ...]]:
    """The entry functions in order, each with the names of its parameters as PTX has them."""
    found: dict[str, tuple[str, ...]] = {}
    for match in _ENTRY.finditer(_COMMENT.sub(" ", ptx)):
        parameters = (_PARAMETER.search(part) for part in (match.group(2) or "").split(",") if part.strip())
        found[match.group(1)] = tuple(p.group(1) if p else "" for p in parameters)
    return found


def entry_places(ptx: str) -> list[tuple[int, tuple[str, ...]]]:
    """Where each entry function is declared (a place in the text), and its name as a path of one."""
    blanked = _COMMENT.sub(lambda comment: " " * len(comment[0]), ptx)
    return [(match.start(), (match[1],)) for match in _ENTRY.finditer(blanked)]


def target(ptx: str) -> str | None:
    """The architecture of `.target` ("sm_90"), None when there is none."""
    match = _TARGET.search(_COMMENT.sub(" ", ptx))
    return match.group(1) if match else None


def files(ptx: str) -> Mapping[int, str]:
    """The files of the line information by their number (PTX ISA 11.5.3, `.file`)."""
    return {int(number): plain_name(name) for number, name in _FILE.findall(ptx)}


def own_parameter_names(entry: str, parameters: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names that somebody chose; None for the compiler's `entry_param_0`, which say nothing."""
    made = all(re.fullmatch(rf"{re.escape(entry)}_param_\d+", name) for name in parameters)
    return None if made and parameters else parameters
