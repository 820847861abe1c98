"""Ladders and laboratories are packages: finding one by its name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridstride.errors import UsageError


def load(name: str, known: Sequence[str], room: str, attribute: str, missing: str, others: str) -> tuple[Any, Path]:
    """What the package of that name (with _ for -) in a room of the gallery calls `attribute`, and the package's folder.

    Raises UsageError for a name that is not among the known: `missing` and the name, then the nearest, or `others` and all of them.
    """
    if name.replace("_", "-") not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise UsageError(f"{missing} {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"{others} {', '.join(known)}"))
    module = importlib.import_module(f"gridstride.gallery.{room}.{name.replace('-', '_')}")
    assert module.__file__ is not None
    return getattr(module, attribute), Path(module.__file__).parent
