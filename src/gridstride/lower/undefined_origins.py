"""Where an undefined value came from: loads that read undefined bytes write down what they read, and a finding looks there.

A load that reads only what was written costs a test. Of the loads that a value may come from (known from the code) the finding is
given one that the thread, or else another lane of its warp (values go round by shuffles), has been to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gridstride.lower.emitter import I32, I64, Emitter
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import BLOCK, ORIGIN, REGISTER, WARP, WORKER
from gridstride.lower.target import Target

_NOTE, _FIND = "note_origin", "find_origin"


def note(e: Emitter, t: Target, companions: Sequence[ir.Value]) -> None:
    """Write down which lanes have loaded undefined bytes (`companions`, one an element), and from where."""
    b, zero = e.b, e.values.warp.const("i32", 0)
    total = companions[0]
    for companion in companions[1:]:
        total = b.or_(total, companion)
    lanes = b.and_(b.bitcast(b.icmp_unsigned("!=", total, zero), I32), e.active)
    some, done = e.native.append_basic_block("undefined"), e.native.append_basic_block("loaded")
    b.cbranch(b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0)), some, done).set_weights([1, 100_000])
    b.position_at_end(some)
    addresses = e.values.vector(t.address)
    # the last first: of several elements the first one stays
    for number, companion in reversed(list(enumerate(companions))):
        undefined = b.and_(b.bitcast(b.icmp_unsigned("!=", companion, zero), I32), e.active)
        place = b.add(addresses, e.values.warp.const("i64", number * t.bits // 8))
        b.call(_note_function(e.module), [e.worker, e.block, e.warp, ir.Constant(I32, t.op.site), undefined, place])
    b.branch(done)
    b.position_at_end(done)


def finder(e: Emitter, sites: Sequence[int]) -> Callable[[ir.Value], tuple[ir.Value, ir.Value]]:
    """Emits, for a lane, the site and the address that its undefined value came from (-1: unknown, REGISTER: from no load)."""

    def find(lane: ir.Value) -> tuple[ir.Value, ir.Value]:
        if not sites:
            return ir.Constant(I32, REGISTER), ir.Constant(I64, 0)
        kind = ir.ArrayType(I32, len(sites))
        table = ir.GlobalVariable(e.module, kind, e.module.get_unique_name("origins"))
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, [ir.Constant(I32, site) for site in sites])
        found = e.b.call(_find_function(e.module), [e.worker, e.block, e.warp, lane, table, ir.Constant(I32, len(sites))])
        return e.b.trunc(e.b.extract_element(found, ir.Constant(I32, 0)), I32), e.b.extract_element(found, ir.Constant(I32, 1))

    return find


def _place(f: NativeFunction, worker: Native, site: Native) -> Native:
    return f.get(WORKER, worker, "origins") + site.to("i64") * ORIGIN.size


def _note_function(module: ir.Module) -> ir.Function:
    """(worker, block, warp, site, lanes, addresses)"""
    known: ir.Function | None = module.globals.get(_NOTE)
    if known is not None:
        return known
    f = NativeFunction(module, _NOTE, "void", ["ptr", "ptr", "ptr", "i32", "i32", "32xi64"], attributes=("noinline",))
    f.function.linkage = "internal"
    worker, block, warp, site, lanes, addresses = f.args
    entry = _place(f, worker, site)
    index, linear = f.get(WARP, warp, "index"), f.get(BLOCK, block, "linear")
    same = f.get(ORIGIN, entry, "block").eq(linear) & f.get(ORIGIN, entry, "warp").eq(index)
    f.put(ORIGIN, entry, "lanes", lanes | same.select(f.get(ORIGIN, entry, "lanes"), f.const("i32", 0)))
    f.put(ORIGIN, entry, "block", linear)
    f.put(ORIGIN, entry, "warp", index)
    with f.each_lane(lanes) as lane:
        f.put(ORIGIN, entry, "address", f.element(addresses, lane), lane.to("i64"))
    f.ret()
    return f.function


def _find_function(module: ir.Module) -> ir.Function:
    """(worker, block, warp, lane, sites, their count) -> site (-1: unknown) and address"""
    known: ir.Function | None = module.globals.get(_FIND)
    if known is not None:
        return known
    f = NativeFunction(module, _FIND, "2xi64", ["ptr", "ptr", "ptr", "i32", "ptr", "i32"], attributes=("noinline",))
    f.function.linkage = "internal"
    worker, block, warp, lane, sites, count = f.args
    best, address, own = f.variable("i64", -1), f.variable("i64", 0), f.variable("i32", 0)
    with f.count_to(count) as k:
        site = f.load("i32", sites, k.to("i64") * 4)
        entry = _place(f, worker, site)
        lanes = f.get(ORIGIN, entry, "lanes")
        here = f.get(ORIGIN, entry, "block").eq(f.get(BLOCK, block, "linear")) & f.get(ORIGIN, entry, "warp").eq(f.get(WARP, warp, "index"))
        mine = (lanes >> lane) & 1
        with f.if_(here & lanes.ne(0) & own.get().eq(0) & (mine.ne(0) | best.get().eq(f.const("i64", -1)))):
            chosen = mine.ne(0).select(lane, f.first_lane(lanes))
            best.set(site.to("i64"))
            address.set(f.get(ORIGIN, entry, "address", chosen.to("i64")))
            own.set(mine)
    f.ret(f.with_element(f.with_element(f.const("2xi64", 0), best.get(), 0), address.get(), 1))
    return f.function
