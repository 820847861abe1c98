"""Lanes that a warp-wide operation names and that go past it: an error once they do something there that others could notice.

An operation waits until each lane that its mask names has come or has ended. Where lanes get by without it decides what they do
next: those that only end (an early return) are none of its business. So the question is asked not at the operation but beyond it, where
lanes begin a block that does something: does another group of the warp wait for one of them?

Compilers make one of two stores that end a kernel, also where the source returns after one of them. Such a tail is told apart for that
reason: only the source can say what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llvmlite import ir

from gridstride.ir.nodes import Block, Kind, Op
from gridstride.lower.emitter import I32, Emitter
from gridstride.lower.native import NativeFunction
from gridstride.lower.race_cells import BLOCK_SHIFT, TIME_BITS
from gridstride.lower.records import BLOCK, RUNTIME_FUNCTIONS, WARP, WARP_SYNC, WORKER, finding_code

_HELPER = "lanes_go_on"


def operations_passed(blocks: Sequence[Block]) -> dict[int, list[int]]:
    """For each block that does something, the warp-wide operations (their sites) that lie behind: the block can be reached from
    them and never leads back to them."""
    reach = _reachable(blocks)
    passed: dict[int, list[int]] = {}
    for block in blocks:
        for op in block.ops:
            if not _meets(op):
                continue
            for k in _members(reach[block.index]):
                # lanes that come to another __syncwarp meet there: it need not be the same one
                comes_to_another = _is_syncwarp(op) and any(_is_syncwarp(o) for j in (k, *_members(reach[k])) for o in blocks[j].ops)
                if not reach[k] >> block.index & 1 and not comes_to_another and any(map(_noticeable, blocks[k].ops)):
                    passed.setdefault(k, []).append(op.site)
    return passed


def check_passing(e: Emitter, block: Block, sites: Iterable[int]) -> None:
    """Where lanes begin `block`: does another group of their warp wait for them at one of the operations `sites`?"""
    b = e.b
    ask, done = e.native.append_basic_block("passing"), e.native.append_basic_block("passed")
    b.cbranch(b.icmp_unsigned("!=", e.field(b, WARP, e.warp, "others"), ir.Constant(I32, 0)), ask, done)
    b.position_at_end(ask)
    here = next((op.site for op in block.ops if _noticeable(op) and op.site >= 0), -1)
    code = finding_code("warp-mask", "error", "lane-in-the-tail" if _is_tail(block) else "lane-elsewhere")
    table = _constant_table(e, sorted(set(sites)))
    b.call(_helper(e.module), [e.worker, e.block, e.warp, e.active, table, ir.Constant(I32, here), ir.Constant(I32, code)])
    b.branch(done)
    b.position_at_end(done)


def _meets(op: Op) -> bool:
    return op.info == "suspends" and op.form is not None and "warp" in op.form


def _is_syncwarp(op: Op) -> bool:
    return _meets(op) and op.form is not None and "gather'" not in op.form


def _noticeable(op: Op) -> bool:
    """Whether others could notice that a thread has got to this operation."""
    if op.kind in (Kind.STORE, Kind.ATOMIC):
        return op.access is not None and op.access.space != "local"
    return op.info == "suspends" or (op.kind is Kind.EFFECT and op.form is not None and op.form.operation.opcode in ("call", "trap"))


def _is_tail(block: Block) -> bool:
    """Whether all that is left from `block` on is to store something and end."""
    waiting, seen = [block], {block.index}
    while waiting:
        one = waiting.pop()
        plain = (Kind.COMPUTE, Kind.MOVE, Kind.LOAD, Kind.STORE, Kind.JUMP, Kind.BRANCH, Kind.EXIT)
        if any(op.kind not in plain and not _follows_definedness(op) for op in one.ops) or any(t.index in seen for t in one.targets):
            return False
        seen |= {t.index for t in one.targets}
        waiting += one.targets
    return True


def _follows_definedness(op: Op) -> bool:
    return op.form is not None and op.form.operation.opcode == "shadow"


def _reachable(blocks: Sequence[Block]) -> Mapping[int, int]:
    """Of each block the ones that it leads to, as bits."""
    reach = {block.index: 0 for block in blocks}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            found = reach[block.index]
            for target in block.targets:
                found |= reach[target.index] | 1 << target.index
            changed |= found != reach[block.index]
            reach[block.index] = found
    return reach


def _members(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _constant_table(e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """Their count and they themselves, as constant memory."""
    kind = ir.ArrayType(I32, len(numbers) + 1)
    made = ir.GlobalVariable(e.module, kind, e.module.get_unique_name("passed"))
    made.linkage, made.global_constant = "internal", True
    made.initializer = ir.Constant(kind, [ir.Constant(I32, n) for n in (len(numbers), *numbers)])
    return made


def _helper(module: ir.Module) -> ir.Function:
    """(worker, block, warp, lanes, table of sites, the lanes' next site, code of the finding): note each group of the warp that waits at one of the sites
    with a mask that names one of the lanes."""
    known: ir.Function | None = module.globals.get(_HELPER)
    if known is not None:
        return known
    f = NativeFunction(module, _HELPER, "void", ["ptr", "ptr", "ptr", "i32", "ptr", "i32", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    worker, block, warp, lanes, table, here, code = f.args
    frame, first = f.get(WORKER, worker, "frame_bytes"), f.get(BLOCK, block, "warps")
    index = f.get(WARP, warp, "index")
    count = f.load("i32", table)
    with f.count_to(f.get(BLOCK, block, "context_count")) as k:
        other = first + k.to("i64") * frame
        named = f.get(WARP, other, "sync_mask") & lanes
        with f.if_(f.get(WARP, other, "index").eq(index) & f.get(WARP, other, "state").eq(WARP_SYNC) & named.ne(0)):
            site = f.get(WARP, other, "site")
            with f.count_to(count) as n, f.if_(f.load("i32", table, (n + 1).to("i64") * 4).eq(site)):
                waits = index * 32 + f.first_lane(f.get(WARP, other, "active"))
                number = f.get(BLOCK, block, "linear") + f.get(WORKER, worker, "first_block")
                cell = (number << BLOCK_SHIFT) | ((index * 32 + f.first_lane(named)).to("i64") << TIME_BITS)
                note = f.load("ptr", f.get(WORKER, worker, "runtime"), list(RUNTIME_FUNCTIONS).index("note_finding") * 8)
                f.call_pointer(note, "void", worker, block, code, site, here, waits, cell, f.const("i64", 0))
    f.ret()
    return f.function
