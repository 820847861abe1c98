"""The ladders there are, in the order of the gallery."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from gridstride.errors import UsageError
from gridstride.gallery.model import Ladder, Step
from gridstride.gallery.packages import load

LADDERS = (
    *("vector-add", "saxpy", "access-patterns", "transpose", "shared-patterns", "constant-memory"),
    *("reduction", "arg-max", "dot-product", "segmented-sum", "scan", "compaction", "histogram"),
    *("matrix-product", "matrix-vector", "batched-product"),
)
"""Each is the package of that name in `kernels/` (with _ for -), whose LADDER is the ladder."""


@cache
def ladder(name: str) -> Ladder:
    """The ladder of that name. Raises UsageError for a name that none has."""
    found, folder = load(name, LADDERS, "kernels", "LADDER", "the gallery has no ladder", "it has")
    made: Ladder = replace(found, folder=folder)
    return made


def ladders() -> Iterator[Ladder]:
    """All of them, in order."""
    return map(ladder, LADDERS)


def find(path: str) -> tuple[Ladder, tuple[Step, ...]]:
    """`NAME` or `NAME/STEP`: the ladder, and the steps that are meant. Raises UsageError where there is no such."""
    name, slash, wanted = path.partition("/")
    found = ladder(name)
    if not slash:
        return found, found.steps
    names = [step.name for step in found.steps]
    if wanted not in names:
        near = difflib.get_close_matches(wanted, names, 1)
        raise UsageError(f"{name} has no step {wanted!r}; " + (f"did you mean {near[0]!r}?" if near else f"it has {', '.join(names)}"))
    return found, (found[wanted],)
