"""Bring the graph into the shape that masked execution needs.

Every loop gets a single latch, which is its last block and jumps to the header; loops are contiguous and their
exits come after their body. In that order "the waiting block with the lowest index runs next" reconverges as
early as possible, and the only backward edges are from latches to headers. An irreducible cycle is first given
a header that sends each lane on to the entry it wanted.
"""

from __future__ import annotations

import heapq

from gridstride.ir.graph import Loop, dominates, immediate_dominators, natural_loops, number, predecessors, reverse_postorder
from gridstride.ir.nodes import Block, Const, Function, Kind, Op, Reg
from gridstride.isa.registry import lookup
from gridstride.isa.types import TYPES


def order_blocks(function: Function) -> list[Loop]:
    """Reorder `function.blocks` (dropping unreachable ones), number them, and return the loops with their latches."""
    entry = Block(label="start")
    entry.ops.append(Op(Kind.JUMP, None, [], []))
    entry.targets = [function.blocks[0]]
    _thread_jumps(entry)
    while True:
        blocks = reverse_postorder(entry)
        number(blocks)
        idom = immediate_dominators(len(blocks), list(range(len(blocks))), predecessors(blocks), 0)
        cycle = _irreducible_entries(blocks, idom)
        if not cycle:
            break
        _add_dispatcher(function, blocks, cycle)
    loops = natural_loops(blocks, idom)
    for loop in loops:
        _single_latch(loop, blocks)
    function.blocks = _layout(entry, loops)
    number(function.blocks)
    return loops


def _thread_jumps(entry: Block) -> None:
    """Skip blocks that only jump on, so that the order is not cluttered by them."""

    def final(block: Block) -> Block:
        seen = set()
        while len(block.ops) == 1 and block.ops[0].kind is Kind.JUMP and id(block) not in seen:
            seen.add(id(block))
            block = block.targets[0]
        return block

    for block in reverse_postorder(entry):
        block.targets = [final(t) for t in block.targets]
        if len(block.targets) == 2 and block.targets[0] is block.targets[1]:
            block.ops[-1] = Op(Kind.JUMP, None, [], [])
            block.targets = block.targets[:1]


def _irreducible_entries(blocks: list[Block], idom: list[int]) -> list[int]:
    """Entries of one cycle that is entered at several places; empty for a reducible graph."""
    for block in blocks:
        for target in block.targets:
            if target.index <= block.index and not dominates(idom, target.index, block.index):
                component = _cycle_of(blocks, target.index, idom[target.index])
                preds = predecessors(blocks)
                return [b for b in sorted(component) if any(p not in component for p in preds[b])]
    return []


def _cycle_of(blocks: list[Block], start: int, outside: int) -> set[int]:
    """Blocks on cycles through `start` that do not leave through the block `outside` that dominates them."""

    def reach(edges: list[list[int]]) -> set[int]:
        seen, stack = {start}, [start]
        while stack:
            for b in edges[stack.pop()]:
                if b not in seen and b != outside:
                    seen.add(b)
                    stack.append(b)
        return seen

    forward = [[t.index for t in b.targets] for b in blocks]
    return reach(forward) & reach(predecessors(blocks))


def _add_dispatcher(function: Function, blocks: list[Block], entries: list[int]) -> None:
    wanted = function.new_register(TYPES["b32"], "%dispatch")
    equal = lookup("setp.eq.u32")
    move = lookup("mov.b32")
    heads = [Block(label="dispatch") for _ in entries[:-1]]
    targets = [blocks[e] for e in entries]
    for k, head in enumerate(heads):
        hit = function.new_register(TYPES["pred"])
        head.ops = [Op(Kind.COMPUTE, equal, [hit, None], [Reg(wanted), Const(k)]), Op(Kind.BRANCH, None, [], [Reg(hit)])]
        head.targets = [targets[k], heads[k + 1] if k + 1 < len(heads) else targets[-1]]
    for block in blocks:
        for position, target in enumerate(block.targets):
            if target in targets:
                stub = Block(label="to dispatch")
                stub.ops = [Op(Kind.MOVE, move, [wanted], [Const(targets.index(target))]), Op(Kind.JUMP, None, [], [])]
                stub.targets = [heads[0]]
                block.targets[position] = stub


def _single_latch(loop: Loop, blocks: list[Block]) -> None:
    latch = Block(label=f"latch of {loop.header.label}")
    latch.ops.append(Op(Kind.JUMP, None, [], []))
    latch.targets = [loop.header]
    for block in blocks:
        if id(block) in loop.body:
            block.targets = [latch if t is loop.header else t for t in block.targets]
    # the latches of inner loops made earlier are not in `blocks`, and never jump to this header
    loop.latch = latch
    outer: Loop | None = loop
    while outer is not None:
        outer.body.add(id(latch))
        outer = outer.parent


def _layout(entry: Block, loops: list[Loop]) -> list[Block]:
    everything = reverse_postorder(entry)
    rank = {id(b): k for k, b in enumerate(everything)}
    # what stands for each block in what is being placed: itself, or the largest loop around it that has its order already
    units: dict[int, Block | Loop] = {id(b): b for b in everything}
    finished: dict[int, list[Block]] = {}  # by loop: its blocks in their order
    exits: dict[int, list[Block]] = {}  # by loop: where one can go from it

    def targets(unit: Block | Loop) -> list[Block]:
        return unit.targets if isinstance(unit, Block) else exits[id(unit)]

    def place(region: Loop | None) -> list[Block]:
        inside = everything if region is None else [b for b in everything if id(b) in region.body]
        members = {id(units[id(b)]): units[id(b)] for b in inside}
        degree = dict.fromkeys(members, 0)
        follow: dict[int, set[int]] = {u: set() for u in members}
        for key, unit in members.items():
            for target in targets(unit):
                if region is not None and (target is region.header or id(target) not in region.body):
                    continue
                other = id(units[id(target)])
                if other != key and other not in follow[key]:
                    follow[key].add(other)
                    degree[other] += 1

        def priority(key: int) -> tuple[bool, int]:
            unit = members[key]
            first = unit if isinstance(unit, Block) else unit.header
            return (region is not None and unit is region.latch, rank[id(first)])

        ready = [(priority(k), k) for k, d in degree.items() if d == 0]
        heapq.heapify(ready)
        placed: list[Block] = []
        while ready:
            _, key = heapq.heappop(ready)
            unit = members[key]
            placed += [unit] if isinstance(unit, Block) else finished[id(unit)]
            for after in follow[key]:
                degree[after] -= 1
                if degree[after] == 0:
                    heapq.heappush(ready, (priority(after), after))
        if region is not None:
            finished[id(region)] = placed
            exits[id(region)] = [t for unit in members.values() for t in targets(unit) if id(t) not in region.body]
            units.update(dict.fromkeys((id(b) for b in inside), region))
        return placed

    for loop in reversed(loops):  # inner loops before those around them
        place(loop)
    return place(None)
