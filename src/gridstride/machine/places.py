"""Where in the user's own source an instruction stands: headers of the toolkit are looked through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridstride.ptx.places import is_toolkit_header


def user_place(site: Sequence[Any], file_names: Mapping[int, str]) -> tuple[str | None, int | None]:
    """File and line of a site (`KernelCode.sites`): the innermost that is the user's, else the outermost; (None, None) without line information."""
    _, file, line, *rest = site
    inlined = rest[-1] if rest and isinstance(rest[-1], list | tuple) else []
    chain = [(file, line), *((f, n) for f, n in inlined)] if file is not None else []
    named = [(file_names[f], n) for f, n in chain if f in file_names]
    if not named:
        return None, None
    return next(((name, n) for name, n in named if not is_toolkit_header(name)), named[-1])
