"""The ladders there are, in the order of the gallery."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from gridstride.errors import UsageError
from gridstride.gallery.model import Ladder, Step

LADDERS = (
    *("vector-add", "saxpy", "access-patterns", "transpose", "shared-patterns", "constant-memory"),
    *("reduction", "arg-max", "dot-product", "segmented-sum", "scan", "compaction", "histogram"),
    *("matrix-product", "matrix-vector", "batched-product"),
)
"""Each is the package of that name in `kernels/` (with _ for -), whose LADDER is the ladder."""


@cache
def ladder(name: str) -> Ladder:
    """The ladder of that name. Raises UsageError for a name that none has."""
    if name.replace("_", "-") not in LADDERS:
        near = difflib.get_close_matches(name, LADDERS, 1)
        raise UsageError(f"the gallery has no ladder {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"it has {', '.join(LADDERS)}"))
    module = importlib.import_module(f"gridstride.gallery.kernels.{name.replace('-', '_')}")
    found: Ladder = module.LADDER
    assert module.__file__ is not None
    return replace(found, folder=Path(module.__file__).parent)


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
