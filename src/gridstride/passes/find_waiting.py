"""Where lanes of a warp may wait for others of it while a block runs, and what follows for warp-wide operations.

Lanes that part run one group after the other (see `lower/flow.py`). Where a group suspends while others wait, the
two become groups that run apart, and an operation that exchanges values over the warp must first bring the named
lanes together again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gridstride.ir.nodes import Block, Function, Kind, Op
from gridstride.isa.registry import lookup

_EXCHANGES = {"shfl", "vote", "match", "redux", "elect"}


def single_exit(block: Block) -> bool:
    """A block in which lanes only end."""
    return len(block.ops) == 1 and block.ops[0].kind is Kind.EXIT and block.ops[0].info != "exit"


def find_waiting(blocks: list[Block], divergent: set[int], latches: set[int]) -> list[set[int]]:
    """For each block the later blocks at which lanes may be waiting while it runs."""
    pending: list[set[int]] = [set() for _ in blocks]

    def any_news(steps: Iterable[bool]) -> bool:
        """`any` that takes every step, for what it notes, even after one that brought news."""
        return True in list(steps)

    def runs(block: int, among: set[int]) -> bool:
        """Note that `block` may run while lanes wait at later ones of `among`; whether that is news."""
        new = {k for k in among if k > block} - pending[block]
        pending[block] |= new
        return bool(new)

    def handed_over(waiting: set[int]) -> bool:
        return any_news(runs(k, waiting) for k in waiting)

    def edge(i: int, target: int, waiting: set[int]) -> bool:
        if any(i < k < target for k in waiting):  # whoever would jump over waiting lanes waits too
            return handed_over(waiting | {target})
        return runs(target, waiting)

    changed = True
    while changed:
        changed = False
        for block in blocks:
            i, waiting = block.index, pending[block.index]
            targets = sorted({t.index for t in block.targets})
            if i in latches:
                changed |= not waiting <= pending[targets[0]]
                pending[targets[0]] |= waiting
            elif i in divergent:
                stay = [t for t in targets if not single_exit(blocks[t])]
                if len(stay) == 2:
                    waiting = waiting | {stay[1]}
                    changed |= edge(i, stay[0], waiting) | handed_over(waiting)
                else:
                    changed |= any_news(edge(i, t, waiting) for t in stay) | handed_over(waiting)
            elif targets:
                changed |= any_news(edge(i, t, waiting) for t in targets)
            else:
                changed |= handed_over(waiting)
    return pending


def may_split(function: Function, pending: list[set[int]]) -> bool:
    """Whether lanes of a warp can become groups that run apart: where some suspend while others wait."""
    return any(pending[b.index] and any(op.info == "suspends" or _exchanges(op) for op in b.ops) for b in function.blocks)


def _exchanges(op: Op) -> bool:
    return op.kind is Kind.EFFECT and op.form is not None and op.form.operation.opcode in _EXCHANGES and "sync" in op.form


def gather_before_exchanges(function: Function) -> None:
    """Before every operation that exchanges values, let the lanes that its mask names come together."""
    form = lookup("bar.warp.sync.gather'")
    ordered: list[Block] = []
    for block in function.blocks:
        ordered.append(block)
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            if _exchanges(op):
                rest = Block(label=f"gathered@{op.line}")
                rest.ops, rest.targets = block.ops[position:], block.targets
                brought = op.args[:1] if len(op.args) > 1 else []
                meet = Op(Kind.EFFECT, form, [], [op.args[-1], *brought], op.line, op.loc, info="suspends", site=op.site)
                block.ops[position:] = [meet, Op(Kind.JUMP, None, [], [])]
                block.targets = [rest]
                ordered.append(rest)
                block, position = rest, 1
            else:
                position += 1
    function.blocks = ordered
