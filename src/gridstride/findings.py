"""`Finding`: one thing wrong (or worth knowing) about a program, said for a person and for a program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Site:
    """A place in a program reached by one thread."""

    file: str | None = None
    line: int | None = None
    ptx_line: int | None = None
    block: Dim3 | None = None
    thread: Dim3 | None = None


@dataclass(frozen=True)
class Finding:
    """See CHECKS in the documentation for the kinds. `code` is stable; `index` counts elements of `buffer`."""

    code: str
    kind: str
    severity: Severity
    message: str
    advice: str
    kernel: str
    site: Site = Site()
    other: Site | None = None
    space: str | None = None
    buffer: str | None = None
    index: int | None = None
    address: int | None = None
    count: int = 1

    def as_json(self) -> dict[str, Any]:
        """The finding as the published JSON schema has it: the site's fields at the top level."""
        fields = asdict(self)
        site = fields.pop("site")
        return {**fields, **site}
