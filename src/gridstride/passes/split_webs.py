"""Give every independent use of a register a register of its own, and compute liveness.

A web is a set of definitions that meet in some use (the classes of SSA names joined by phi functions). NVVM's
output nearly is in that form already; hand-written PTX reuses registers for unrelated values.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstride.ir.graph import immediate_dominators, predecessors
from gridstride.ir.nodes import Function, Op, Reg


@dataclass
class Liveness:
    """Bit sets of registers, by block index."""

    live_in: list[int]
    live_out: list[int]


def liveness(function: Function) -> Liveness:
    blocks = function.blocks
    use, define = [], []
    for block in blocks:
        u = d = 0
        for op in block.ops:
            for r in op.uses():
                if not d >> r & 1:
                    u |= 1 << r
            for result in op.results:
                if result is not None:
                    d |= 1 << result
        use.append(u)
        define.append(d)
    live_in, live_out = [0] * len(blocks), [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out = 0
            for target in block.targets:
                out |= live_in[target.index]
            new = use[block.index] | out & ~define[block.index]
            if out != live_out[block.index] or new != live_in[block.index]:
                live_out[block.index], live_in[block.index] = out, new
                changed = True
    return Liveness(live_in, live_out)


@dataclass
class Webs:
    """`joins[r]`: blocks where definitions of r meet; `definitions[r]`: blocks that define it."""

    joins: dict[int, set[int]]
    definitions: dict[int, list[int]]


def split_webs(function: Function) -> Webs:
    """Rename registers so that each is one web; returns where each web's definitions meet."""
    blocks = function.blocks
    live = liveness(function)
    defined: dict[int, set[int]] = {}
    count: dict[int, int] = {}
    for block in blocks:
        for op in block.ops:
            for r in op.results:
                if r is not None:
                    defined.setdefault(r, set()).add(block.index)
                    count[r] = count.get(r, 0) + 1
    several = {r for r, n in count.items() if n > 1}
    joins: dict[int, set[int]] = {}
    if several:
        phis = _phi_places(function, several, defined, live)
        _rename(function, several, phis, joins)
    definitions: dict[int, list[int]] = {}
    for block in blocks:
        for op in block.ops:
            for r in op.results:
                if r is not None:
                    definitions.setdefault(r, []).append(block.index)
    return Webs(joins, definitions)


def _phi_places(function: Function, several: set[int], defined: dict[int, set[int]], live: Liveness) -> list[set[int]]:
    blocks = function.blocks
    preds = predecessors(blocks)
    idom = immediate_dominators(len(blocks), list(range(len(blocks))), preds, 0)
    frontier: list[set[int]] = [set() for _ in blocks]
    for b in range(len(blocks)):
        if len(preds[b]) >= 2:
            for p in preds[b]:
                while p != idom[b]:
                    frontier[p].add(b)
                    p = idom[p]
    places: list[set[int]] = [set() for _ in blocks]
    for r in several:
        work = [*defined[r], 0]
        done: set[int] = set()
        while work:
            for f in frontier[work.pop()]:
                if f not in done and live.live_in[f] >> r & 1:
                    done.add(f)
                    places[f].add(r)
                    work.append(f)
    return places


def _rename(function: Function, several: set[int], phis: list[set[int]], joins: dict[int, set[int]]) -> None:
    blocks = function.blocks
    parent: list[int] = []

    def new() -> int:
        parent.append(len(parent))
        return len(parent) - 1

    def find(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    # number every definition, every phi, and the undefined value at the entry, of each register
    entry_value = {r: new() for r in several}
    phi_value = [{r: new() for r in at} for at in phis]
    at_exit: list[dict[int, int]] = [{} for _ in blocks]
    defs: dict[tuple[int, int, int], int] = {}
    uses: list[tuple[Op, int, int]] = []
    preds = predecessors(blocks)
    idom = immediate_dominators(len(blocks), list(range(len(blocks))), preds, 0)
    for block in blocks:  # idom comes before its children in this order
        current = dict(phi_value[block.index])
        base = {} if block.index == 0 else at_exit[idom[block.index]]
        lookup_value = {**(entry_value if block.index == 0 else base), **current}
        for op in block.ops:
            for r in set(op.uses()):
                if r in several:
                    uses.append((op, r, lookup_value[r]))
            for k, result in enumerate(op.results):
                if result is not None and result in several:
                    value = new()
                    if op.guard is not None:  # keeps the old value where the guard is false
                        parent[find(value)] = find(lookup_value[result])
                    defs[id(op), result, k] = value
                    lookup_value[result] = value
        at_exit[block.index] = lookup_value
    for block in blocks:
        for r, value in phi_value[block.index].items():
            for p in preds[block.index]:
                parent[find(at_exit[p][r])] = find(value)
    names: dict[int, int] = {}
    taken: set[int] = set()

    def web(register: int, value: int) -> int:
        root = find(value)
        if root not in names:
            again = register in taken
            names[root] = function.new_register(function.types[register], function.names[register]) if again else register
            taken.add(register)
        return names[root]

    for block in blocks:
        for r, value in phi_value[block.index].items():
            joins.setdefault(web(r, value), set()).add(block.index)
    renames: dict[int, dict[int, int]] = {}
    for op, r, value in uses:
        renames.setdefault(id(op), {})[r] = web(r, value)
    for block in blocks:
        for op in block.ops:
            table = renames.get(id(op), {})
            if table:
                op.args = [Reg(table.get(a.id, a.id), a.negated) if isinstance(a, Reg) else a for a in op.args]
                if op.guard is not None:
                    op.guard = Reg(table.get(op.guard.id, op.guard.id), op.guard.negated)
            op.results = [web(r, defs[id(op), r, k]) if r is not None and r in several else r for k, r in enumerate(op.results)]
