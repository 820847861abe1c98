"""Contracts as text: `extent=n block=256 covers=y distinct=x,y`, as comments above a kernel and the command line have them.

Clauses are separated by blanks; parts of a clause by commas, groups of `distinct` by `|`, and the buffers of `extents` too, as in
`extents=x:n+2|image:width,height`. Words that are alone are switches: `grid_stride`, `nonempty`, `unguarded`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from gridstride.errors import UsageError
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.expressions import split_at_commas


def parse_contract(text: str) -> Contract:
    """The contract that a text says. Raises UsageError with the clause that is wrong."""
    given: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if name == "unguarded" and not equals:
            name, reading = "guard", False
        elif name in ("grid_stride", "nonempty") and not equals:
            reading = True
        elif name not in _READERS or not equals or not value:
            known = [f"{clause}=…" for clause in _READERS] + ["grid_stride", "nonempty", "unguarded"]
            near = difflib.get_close_matches(name, [*_READERS, "nonempty", "unguarded"], 1)
            hint = f"; did you mean {near[0]}?" if near and near[0] != name else f"; the clauses are {', '.join(known)}"
            raise UsageError(f"a contract has no clause {word!r}{hint}")
        else:
            reading = _READERS[name](value)
        if name in given:
            raise UsageError(f"the clause {name} stands twice in the contract {text.strip()!r}")
        given[name] = reading
    if not given:
        raise UsageError("a contract without clauses says nothing; write some, such as extent=n block=256 covers=y")
    return Contract(**given)


def _list(text: str) -> tuple[str, ...]:
    return tuple(split_at_commas(text))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no whole number") from None


def _wholes(text: str) -> tuple[int, ...]:
    return tuple(_whole(part) for part in text.replace("x", ",").split(","))


def _groups(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_list(group) for group in text.split("|"))


def _buffers(text: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for part in text.split("|"):
        name, colon, value = part.partition(":")
        if not colon or not name or not value:
            raise UsageError(f"extents says BUFFER:ELEMENTS, as in extents=x:n+2, not {part!r}")
        found[name] = _list(value)
    return found


_READERS: dict[str, Callable[[str], Any]] = {
    "extent": _list,
    "block": _wholes,
    "block_multiple_of": _whole,
    "elements_per_thread": _wholes,
    "tile": _wholes,
    "grid_stride": str,
    "covers": _list,
    "writes_once": _list,
    "extents": _buffers,
    "distinct": _groups,
    "shared": str,
}
