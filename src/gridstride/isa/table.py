"""The table of supported instructions, made from the registry: `python -m gridstride.isa.table > docs/instructions.md`."""

from __future__ import annotations

from collections.abc import Iterable

from gridstride.isa import families
from gridstride.isa.registry import ModifierGroup, Operation, operations, refused

assert families  # importing it fills the registry

_INTERNAL = {"barrier_result"}  # made by the compiler, written by nobody
_HEAD = """# Instructions

Made from the registry by `python -m gridstride.isa.table`; do not edit.

Every PTX opcode that runs, its forms by the types and modifiers they take, and the section of the PTX ISA that describes it.
`a|b` is one of the two, `(a)` may be left out. Modifiers may stand in any order.
An instruction that is not here is an error when its kernel is compiled; the error names the instruction, its line and, where PTX has it,
the section.

| opcode | modifiers | types | PTX ISA |
| --- | --- | --- | --- |
"""
_REFUSED_HEAD = """
## Refused by name

These are PTX, and do not run yet.

| instructions | part of | PTX ISA |
| --- | --- | --- |
"""


def table() -> str:
    """The page, in Markdown."""
    shown = dict.fromkeys(_row(entry) for entry in operations() if _is_written(entry))
    return _HEAD + _lines(shown) + _REFUSED_HEAD + _lines(f"| `{name}` | {feature} | {section} |" for name, feature, section in refused())


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def _is_written(entry: Operation) -> bool:
    """Whether programs write it, rather than the compiler for itself (those name no section of the PTX ISA)."""
    internal_call = entry.opcode == "call" and any("uni" not in group.alternatives for group in entry.modifiers)
    made_by_a_pass = any("'" in name for group in entry.modifiers for name in group.alternatives)
    return entry.opcode not in _INTERNAL and entry.section[:1].isdigit() and not internal_call and not made_by_a_pass


def _row(entry: Operation) -> str:
    modifiers = " ".join(_shown(group) for group in entry.modifiers)
    types = " ".join(".".join(t.name for t in alternative) for alternative in entry.types)
    return f"| `{entry.opcode}` | {modifiers} | {types} | {entry.section} |"


def _shown(group: ModifierGroup) -> str:
    # `|` ends a cell of a Markdown table
    text = "&#124;".join(sorted(group.alternatives))
    return f"({text})" if group.optional else text


if __name__ == "__main__":
    print(table(), end="")
