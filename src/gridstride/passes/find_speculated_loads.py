"""Loads from shared memory that the compiler has moved before a test: `if (a && s[i] > x)` becomes both tests and an `and` of them.

Lanes for which the other test decides do not read by what the source says, and nobody looks at what they read: such a read is no part of a
race. These loads are given the condition under which their value matters as a second argument.
"""

from __future__ import annotations

from gridstride.ir.nodes import Block, Function, Kind, Op, Reg
from gridstride.passes.split_webs import liveness

_PURE = (Kind.COMPUTE, Kind.MOVE)


def find_speculated_loads(function: Function) -> None:
    """Mark the loads of every block that ends in a branch on the `and` or the `or` of two tests."""
    for number, block in enumerate(function.blocks):
        block.index = number
    live: list[int] | None = None
    for block in function.blocks:
        loads = [op for op in block.ops if _may_be_early(op)]
        if not loads or block.terminator.kind is not Kind.BRANCH:
            continue
        live = live if live is not None else liveness(function).live_in
        for load in loads:
            matters = _matters(block, load, live)
            if matters is not None:
                load.args.append(matters)


def _may_be_early(op: Op) -> bool:
    access = op.access
    return op.kind is Kind.LOAD and access is not None and access.space == "shared" and access.ordering == "weak" and op.guard is None and len(op.args) == 1


def _matters(block: Block, load: Op, live: list[int]) -> Reg | None:
    """The predicate of lanes in which the load's value can matter, defined before it; None where it may matter in all."""
    start = block.ops.index(load)
    derived = {r for r in load.results if r is not None}
    joined: Op | None = None
    for op in block.ops[start + 1 : -1]:
        if derived.isdisjoint(op.uses()):
            if not derived.isdisjoint(r for r in op.results if r is not None):
                return None  # one register for several values
            continue
        if op.kind not in _PURE or op.guard is not None:
            return None
        derived.update(r for r in op.results if r is not None)
        joined = op
    test = block.terminator.args[0]
    if joined is None or joined.form is None or joined.form.operation.opcode not in ("and", "or") or not isinstance(test, Reg) or joined.results != [test.id]:
        return None
    others = [a for a in joined.args if isinstance(a, Reg) and a.id not in derived]
    if len(others) != 1 or len(joined.args) != 2 or joined.form.types[0].name != "pred":
        return None
    (other,) = others
    either = joined.form.operation.opcode == "or"
    # where the other test alone decides, the branch goes there
    decided = block.targets[0 if either != test.negated else 1]
    if any(live[decided.index] >> r & 1 for r in derived) or not _moved_before(block, start, other.id):
        return None
    return Reg(other.id, other.negated != either)


def _moved_before(block: Block, start: int, register: int) -> bool:
    """Whether a register has its value before the operation at `start`; what computes it is moved there where it can be."""
    places = [k for k, op in enumerate(block.ops) if register in op.results]
    if not places or places[-1] < start:
        return True
    (place, *more) = places
    op = block.ops[place]
    between = {r for earlier in block.ops[start:place] for r in earlier.results}
    used = any(register in earlier.uses() for earlier in block.ops[start:place])
    if more or used or op.kind not in _PURE or op.guard is not None or [r for r in op.results if r is not None] != [register] or not between.isdisjoint(op.uses()):
        return False
    block.ops.insert(start, block.ops.pop(place))
    return True
