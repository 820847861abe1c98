"""The names of a PTX function's body: nested scopes, and families of registers such as %r<100>."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridstride.isa.types import ScalarType
from gridstride.ptx.nodes import Operand


@dataclass(frozen=True)
class Family:
    """The registers name0 to name(count - 1), or as many vectors of `elements` registers (PTX ISA 4.3.3, 5.4.6)."""

    count: int
    type: ScalarType
    elements: int


class Scope:
    """What is declared between one pair of braces."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, Operand] = {}
        self.labels: dict[str, str] = {}
        self.families: dict[str, Family] = {}

    def outwards(self) -> Iterator[Scope]:
        """This scope, then those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def member(self, name: str) -> Family | None:
        """The family of this very scope that has a register `name`."""
        stem = name.rstrip("0123456789") if self.families else name
        digits = name[len(stem) :][:20]
        for k in range(len(digits)):
            family = self.families.get(stem + digits[:k])
            if family is not None and (digits[k] != "0" or k + 1 == len(digits)) and int(digits[k:]) < family.count:
                return family
        return None

    def find_label(self, name: str) -> str | None:
        """The unique name of a label."""
        return next((scope.labels[name] for scope in self.outwards() if name in scope.labels), None)
