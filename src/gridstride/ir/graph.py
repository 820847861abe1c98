"""Control-flow graph algorithms: order, dominators, post-dominators, natural loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridstride.ir.nodes import Block


def reverse_postorder(entry: Block) -> list[Block]:
    """Reachable blocks, each before its successors but for back edges."""
    seen: set[int] = {id(entry)}
    order: list[Block] = []
    stack: list[tuple[Block, int]] = [(entry, 0)]
    while stack:
        block, k = stack.pop()
        # later targets first, so that the first target comes first in reverse postorder
        if k < len(block.targets):
            stack.append((block, k + 1))
            target = block.targets[len(block.targets) - 1 - k]
            if id(target) not in seen:
                seen.add(id(target))
                stack.append((target, 0))
        else:
            order.append(block)
    order.reverse()
    return order


def number(blocks: list[Block]) -> None:
    for index, block in enumerate(blocks):
        block.index = index


def predecessors(blocks: list[Block]) -> list[list[int]]:
    """For each block (numbered by position) the indices of its distinct predecessors."""
    found: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for target in block.targets:
            if block.index not in found[target.index]:
                found[target.index].append(block.index)
    return found


def immediate_dominators(count: int, order: list[int], preds: list[list[int]], root: int) -> list[int]:
    """Cooper, Harvey and Kennedy's algorithm over `order` (a reverse postorder from `root`); -1: unreachable."""
    position = {b: k for k, b in enumerate(order)}
    idom = [-1] * count
    idom[root] = root
    changed = True
    while changed:
        changed = False
        for block in order:
            if block == root:
                continue
            new = -1
            for p in preds[block]:
                if idom[p] == -1:
                    continue
                if new == -1:
                    new = p
                    continue
                a, b = p, new
                while a != b:
                    while position[a] > position[b]:
                        a = idom[a]
                    while position[b] > position[a]:
                        b = idom[b]
                new = a
            if new != -1 and idom[block] != new:
                idom[block] = new
                changed = True
    return idom


def dominates(idom: list[int], a: int, b: int) -> bool:
    while b != a:
        if idom[b] == b or idom[b] == -1:
            return False
        b = idom[b]
    return True


def immediate_postdominators(blocks: list[Block]) -> list[int]:
    """For each block the index of its immediate post-dominator; len(blocks) is the virtual exit.

    A block that never reaches an exit (an endless loop) has the virtual exit.
    """
    count = len(blocks)
    successors = [[t.index for t in b.targets] or [count] for b in blocks]
    reverse: list[list[int]] = [[] for _ in range(count + 1)]
    for index, targets in enumerate(successors):
        for target in targets:
            reverse[target].append(index)
    # blocks that cannot reach the exit get an artificial edge to it
    reaches = {count}
    stack = [count]
    while stack:
        for p in reverse[stack.pop()]:
            if p not in reaches:
                reaches.add(p)
                stack.append(p)
    for index in range(count):
        if index not in reaches:
            successors[index].append(count)
            reverse[count].append(index)
    seen, order = {count}, []
    walk: list[tuple[int, int]] = [(count, 0)]
    while walk:
        node, k = walk.pop()
        if k < len(reverse[node]):
            walk.append((node, k + 1))
            following = reverse[node][k]
            if following not in seen:
                seen.add(following)
                walk.append((following, 0))
        else:
            order.append(node)
    order.reverse()
    return immediate_dominators(count + 1, order, [*successors, []], count)


@dataclass(eq=False)
class Loop:
    """A natural loop; `body` holds block identities, inner loops' included."""

    header: Block
    body: set[int]
    parent: Loop | None = None
    latch: Block | None = None
    children: list[Loop] = field(default_factory=list)


def natural_loops(blocks: list[Block], idom: list[int]) -> list[Loop]:
    """Loops of a reducible graph, merged by header, outer before inner."""
    preds = predecessors(blocks)
    loops: dict[int, Loop] = {}
    for block in blocks:
        for target in block.targets:
            if dominates(idom, target.index, block.index):
                loop = loops.setdefault(target.index, Loop(target, {id(target)}))
                stack = [block]
                while stack:
                    node = stack.pop()
                    if id(node) in loop.body:
                        continue
                    loop.body.add(id(node))
                    stack += [blocks[p] for p in preds[node.index]]
    ordered = sorted(loops.values(), key=lambda loop: -len(loop.body))
    for k, loop in enumerate(ordered):
        for outer in reversed(ordered[:k]):
            if id(loop.header) in outer.body:
                loop.parent = outer
                outer.children.append(loop)
                break
    return ordered
