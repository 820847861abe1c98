"""Where lanes of a warp may wait for others of it while a block runs, and what follows for warp-wide operations.

Lanes that part run one group after the other (see `lower/flow.py`). Where a group suspends while others wait, the
two become groups that run apart, and an operation that exchanges values over the warp must first bring the named
lanes together again.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.ir.nodes import Block, Function, Kind, Op
from gridstride.isa.registry import lookup

_EXCHANGES = {"shfl", "vote", "match", "redux", "elect"}


def single_exit(block: Block) -> bool:
    """A block in which lanes only end."""
    return len(block.ops) == 1 and block.ops[0].kind is Kind.EXIT and block.ops[0].info != "exit"


def find_waiting(blocks: list[Block], divergent: set[int], latches: set[int]) -> list[set[int]]:
    """For each block the later blocks at which lanes may be waiting while it runs."""
    pending = [0] * len(blocks)  # bit sets of blocks
    settled = [-1] * len(blocks)  # of each block the set that it has last been followed up with

    def runs(block: int, among: int) -> None:
        """Note that `block` may run while lanes wait at later ones of `among`."""
        pending[block] |= among >> (block + 1) << (block + 1)

    def handed_over(waiting: int) -> None:
        for k in _members(waiting):
            runs(k, waiting)

    def edge(i: int, target: int, waiting: int) -> None:
        if target > i and (waiting >> (i + 1)) & ((1 << (target - i - 1)) - 1):  # whoever would jump over waiting lanes waits too
            handed_over(waiting | 1 << target)
        else:
            runs(target, waiting)

    def follow(block: Block, waiting: int) -> None:
        i, targets = block.index, sorted({t.index for t in block.targets})
        if i in latches:
            pending[targets[0]] |= waiting
        elif i in divergent:
            stay = [t for t in targets if not single_exit(blocks[t])]
            if len(stay) == 2:
                waiting |= 1 << stay[1]
                edge(i, stay[0], waiting)
            else:
                for target in stay:
                    edge(i, target, waiting)
            handed_over(waiting)
        elif targets:
            for target in targets:
                edge(i, target, waiting)
        else:
            handed_over(waiting)

    while any(pending[b.index] != settled[b.index] for b in blocks):
        for block in blocks:
            if pending[block.index] != settled[block.index]:
                settled[block.index] = pending[block.index]
                follow(block, pending[block.index])
    return [set(_members(p)) for p in pending]


def _members(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


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
                meet = Op(Kind.EFFECT, form, [], [op.args[-1], *brought], op.line, op.loc, info="suspends", site=op.site, added=True)
                block.ops[position:] = [meet, Op(Kind.JUMP, None, [], [])]
                block.targets = [rest]
                ordered.append(rest)
                block, position = rest, 1
            else:
                position += 1
    function.blocks = ordered
