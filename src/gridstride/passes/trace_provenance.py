"""From which kernel parameter each address was made: for messages, and to know which buffers a kernel cannot write."""

from __future__ import annotations

from collections.abc import Callable

from gridstride.ir.nodes import AddressOf, Arg, Function, Kind, Op, Reg

# A pointer in a parameter: the parameter's name and the pointer's offset in it. None: no pointer seen yet;
# UNKNOWN: from memory, or from several.
Provenance = tuple[str, int]
UNKNOWN: Provenance = ("", -1)
NUMBER: Provenance = ("", -3)
"""What is made of parameters that hold no addresses: added to a pointer it leaves that one's origin."""
_POINTER_BYTES = 8
_CARRIES = {"mov", "cvta", "add", "sub", "mad", "call", "and", "or", "selp", "min", "max", "cvt"}


def trace_provenance(function: Function) -> dict[int, Provenance]:
    """For every memory operation's site the pointer parameter (or ("variable", …)) that its address was made from;
    UNKNOWN where that cannot be said.

    Where the kernel says of some parameters that they hold addresses (`.ptr`), the other scalars of 64 bits are numbers as long as they
    meet such an address; alone, one may be an address all the same (of an integer that the source casts).
    """
    origin: dict[int, Provenance] = {}
    said = any(p.pointer for p in function.parameters)
    numbers = {p.name for p in function.parameters if said and not p.pointer and p.type.bytes == p.size == _POINTER_BYTES}

    def is_number(found: Provenance) -> bool:
        return found == NUMBER or found[0] in numbers

    def of(arg: Arg) -> Provenance | None:
        if isinstance(arg, Reg):
            return origin.get(arg.id)
        if isinstance(arg, AddressOf) and arg.space in ("global", "const"):
            return (arg.name, -2)
        return None

    def joined(a: Provenance | None, b: Provenance | None) -> Provenance | None:
        if a is None or b is None or a == b:
            return b if a is None else a
        if is_number(a) or is_number(b):
            return b if not is_number(b) else a if not is_number(a) else NUMBER
        return UNKNOWN

    changed = True
    while changed:
        changed = False
        for block in function.blocks:
            for op in block.ops:
                if not op.results or op.results[0] is None:
                    continue
                for result in op.results:
                    if result is None:
                        continue
                    new = joined(origin.get(result), _made(op, of, joined, is_number))
                    if new is not None and new != origin.get(result):
                        origin[result] = new
                        changed = True
    sites: dict[int, Provenance] = {}
    for block in function.blocks:
        for op in block.ops:
            if op.access is not None and op.site >= 0:
                found = of(op.args[0]) or UNKNOWN
                sites[op.site] = joined(sites.get(op.site), UNKNOWN if found == NUMBER else found) or UNKNOWN
    return sites


def _made(
    op: Op,
    of: Callable[[Arg], Provenance | None],
    joined: Callable[[Provenance | None, Provenance | None], Provenance | None],
    is_number: Callable[[Provenance], bool],
) -> Provenance | None:
    """Where a result's pointer comes from; None where it is no pointer as far as is known."""
    if op.kind is Kind.LOAD and op.access is not None:
        base = op.args[0]
        if op.access.space == "param" and isinstance(base, AddressOf) and base.space == "param":
            if op.access.element.bytes * op.access.count == _POINTER_BYTES:
                return base.name, base.offset
            return None if op.access.element.bytes < _POINTER_BYTES else UNKNOWN
        return UNKNOWN if op.access.element.bytes >= _POINTER_BYTES else None
    if op.kind is Kind.ATOMIC:
        return UNKNOWN if op.access is not None and op.access.element.bytes >= _POINTER_BYTES else None
    found: Provenance | None = None
    for arg in op.args:
        found = joined(found, of(arg))
    if found is None:
        return None
    if op.kind is Kind.MOVE and len(op.args) == 1 and len(op.results) == 1:
        return found
    if op.kind is Kind.COMPUTE and op.form is not None and op.form.operation.opcode in _CARRIES:
        return found
    return NUMBER if is_number(found) else UNKNOWN
