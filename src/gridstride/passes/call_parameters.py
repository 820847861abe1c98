"""Which functions need their parameters in memory, because registers cannot stand for the pieces of them.

A parameter of a call becomes one register for each piece that is stored or loaded. That fails where pieces overlap
(the caller stores words, the callee loads bytes) and where a parameter's address is used as a value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from gridstride.isa.types import TYPES
from gridstride.ptx import nodes as ptx

Piece = tuple[int, int]  # offset and bytes


@dataclass
class _Uses:
    """What one function body does with its parameter variables, its own formal ones and those of its calls."""

    pieces: dict[str, set[Piece]] = field(default_factory=dict)
    addressed: set[str] = field(default_factory=set)
    by_register: bool = False  # ld.param or st.param through a register


def in_memory(module: ptx.Module) -> set[str]:
    """Names of the functions that are to be called for real, with their parameters in local memory."""
    callees = {n: f for n, f in module.functions.items() if f.has_body and not f.entry}
    if not callees:
        return set()
    uses = {f.name: _uses(f) for f in module.functions.values() if f.has_body}
    found = {n for n, f in callees.items() if uses[n].by_register or any(v.name in uses[n].addressed for v in (*f.parameters, *f.returns))}
    for function in module.functions.values():
        if not function.has_body:
            continue
        own = uses[function.name]
        for instruction in function.body:
            if instruction.opcode.split(".", 1)[0] != "call":
                continue
            name, returns, arguments = _parts_of_call(module, instruction)
            callee = callees.get(name)
            if callee is None or name in found or len(arguments) != len(callee.parameters) or len(returns) != len(callee.returns):
                continue
            for formal, actual in zip((*callee.parameters, *callee.returns), (*arguments, *returns), strict=True):
                if isinstance(actual, ptx.Symbol) and _overlap(own.pieces.get(actual.name, set()) | uses[name].pieces.get(formal.name, set())):
                    found.add(name)
    return found


def _parts_of_call(module: ptx.Module, at: ptx.Instruction) -> tuple[str, tuple[ptx.Operand, ...], tuple[ptx.Operand, ...]]:
    """Name of the function ("" through a pointer), results, arguments."""
    operands = list(at.operands)
    returns = operands.pop(0).items if operands and isinstance(operands[0], ptx.VectorOperand) else ()  # type: ignore[union-attr]
    target = operands.pop(0) if operands else None
    arguments = operands[0].items if operands and isinstance(operands[0], ptx.VectorOperand) else ()
    name = target.name if isinstance(target, ptx.Symbol) else ""
    return module.aliases.get(name, name), returns, arguments


def _uses(function: ptx.Function) -> _Uses:
    names = {v.name for v in (*function.parameters, *function.returns)} | {v.name for v in function.variables.values() if v.space == "param"}
    uses = _Uses()
    for instruction in function.body:
        words = instruction.opcode.split(".")
        for operand in instruction.operands:
            if isinstance(operand, ptx.Symbol) and operand.name in names and words[0] != "call":
                uses.addressed.add(operand.name)
            if not isinstance(operand, ptx.Address):
                continue
            if isinstance(operand.base, ptx.Symbol) and operand.base.name in names:
                start = operand.base.offset + operand.offset
                uses.pieces.setdefault(operand.base.name, set()).update(_pieces(words, start))
            elif isinstance(operand.base, ptx.Register) and "param" in (w.split("::")[0] for w in words):
                uses.by_register = True
    return uses


def _pieces(words: list[str], start: int) -> Iterable[Piece]:
    kind = TYPES.get(words[-1])
    width = kind.bytes if kind is not None else 4
    count = next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 1)
    return ((start + k * width, width) for k in range(count))


def _overlap(pieces: set[Piece]) -> bool:
    """Whether two different pieces share a byte."""
    ordered = sorted(pieces)
    return any(a[0] + a[1] > b[0] for a, b in itertools.pairwise(ordered))
