"""Native code that parts a warp into groups of lanes that run apart, and makes groups that meet one again."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import (
    BLOCK,
    DONE,
    RUNNABLE,
    SCHEDULE,
    WARP,
)


def build_split(module: ir.Module, others: ir.Function) -> ir.Function:
    """split(schedule, block, warp): lanes that wait elsewhere in the kernel become a group of their own."""
    f = NativeFunction(module, "split", "void", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    schedule, block, warp = f.args
    frame = f.get(SCHEDULE, schedule, "frame_bytes")
    first = f.get(BLOCK, block, "warps")
    count = f.variable("i32", f.get(BLOCK, block, "context_count"))
    # a place that an ended group of a split has left, else a new one
    place = f.variable("i32", count.get())
    warps = f.get(SCHEDULE, schedule, "warps")
    with f.count_to(count.get()) as k:
        ended = f.get(WARP, first + k.to("i64") * frame, "state").eq(DONE) & (k >= warps)
        place.set(ended.select(k, place.get()))
    with f.if_(place.get().eq(count.get())):
        f.put(BLOCK, block, "context_count", count.get() + 1)
    new = first + place.get().to("i64") * frame
    f.intrinsic("llvm.memcpy.p0.p0.i64", "void", new, warp, frame, f.const("i1", 0))
    pending = f.get(WARP, warp, "pending")
    staying = f.get(WARP, warp, "alive") & ~pending
    f.put(WARP, warp, "alive", staying)
    f.put(WARP, new, "lanes", pending)
    f.put(WARP, warp, "lanes", f.get(WARP, warp, "lanes") & ~pending)
    f.put(WARP, warp, "pending", 0)
    f.put(WARP, new, "alive", pending)
    f.put(WARP, new, "pending", 0)
    f.put(WARP, new, "active", 0)
    f.put(WARP, new, "resume", 1)
    f.put(WARP, new, "state", RUNNABLE)
    f.put(WARP, new, "signature", 0)
    start = f.get(SCHEDULE, schedule, "wait_start")
    with f.count_to(f.get(SCHEDULE, schedule, "wait_count")) as k:
        f.store(f.const("i32", 0), warp + (start + k.to("i64") * 4))
    f.add_to(BLOCK, block, "live_threads", 1)
    f.call(others, schedule, block, f.get(WARP, warp, "index"))
    f.ret()
    return f.function


def build_tell_others(module: ir.Module) -> ir.Function:
    """tell_others(schedule, block, index): every group of warp `index` learns which lanes of it are in other groups."""
    f = NativeFunction(module, "tell_others", "void", ["ptr", "ptr", "i32"], attributes=("noinline",))
    schedule, block, index = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    total = f.get(BLOCK, block, "context_count")
    everyone = f.variable("i32", 0)
    with f.count_to(total) as k:
        other = first + k.to("i64") * frame
        same = f.get(WARP, other, "index").eq(index) & f.get(WARP, other, "state").ne(DONE)
        everyone.set(everyone.get() | same.select(f.get(WARP, other, "alive"), f.const("i32", 0)))
    with f.count_to(total) as k:
        other = first + k.to("i64") * frame
        with f.if_(f.get(WARP, other, "index").eq(index)):
            f.put(WARP, other, "others", everyone.get() & ~f.get(WARP, other, "alive"))
    f.ret()
    return f.function


def build_merge(module: ir.Module, others: ir.Function) -> ir.Function:
    """merge(schedule, block, index): groups of warp `index` that would go on at the same place become one."""
    f = NativeFunction(module, "merge", "void", ["ptr", "ptr", "i32"], attributes=("noinline",))
    schedule, block, index = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    table, entries = f.get(SCHEDULE, schedule, "merge"), f.get(SCHEDULE, schedule, "merge_count")
    total = f.get(BLOCK, block, "context_count")
    f.ret_if(entries.eq(0))
    with f.count_to(total) as k:
        warp = first + k.to("i64") * frame
        able = f.get(WARP, warp, "index").eq(index) & f.get(WARP, warp, "state").eq(RUNNABLE) & (f.get(WARP, warp, "resume") > 1)
        with f.if_(able), f.count_to(total) as j:
            other = first + j.to("i64") * frame
            same = f.get(WARP, other, "index").eq(index) & f.get(WARP, other, "state").eq(RUNNABLE)
            with f.if_((j > k) & same & f.get(WARP, other, "resume").eq(f.get(WARP, warp, "resume"))):
                _take_over(f, warp, other, table, entries)
                f.add_to(BLOCK, block, "live_threads", 0xFFFFFFFF)
    f.call(others, schedule, block, index)
    f.ret()
    return f.function


def _take_over(f: NativeFunction, warp: Native, other: Native, table: Native, entries: Native) -> None:
    """The lanes of `other` go on in `warp`."""
    lanes = f.get(WARP, other, "alive")
    for name in ("alive", "active", "pending"):
        f.put(WARP, warp, name, f.get(WARP, warp, name) | f.get(WARP, other, name))
    for parity in range(2):
        arrived = (f.get(WARP, warp, "cluster_arrived", parity) & ~lanes) | (f.get(WARP, other, "cluster_arrived", parity) & lanes)
        f.put(WARP, warp, "cluster_arrived", arrived, parity)
    f.put(WARP, other, "state", DONE)
    with f.count_to(entries) as n:
        place = f.load("i64", table, n.to("i64") * 16)
        size = f.load("i64", table, n.to("i64") * 16 + 8)
        with f.if_(size.eq(0)):
            mixed = (f.load("i32", warp, place) & ~lanes) | (f.load("i32", other, place) & lanes)
            f.store(mixed, warp, place)
        with f.if_(size.ne(0)), f.each_lane(lanes) as lane:
            at = place + lane.to("i64") * size
            f.intrinsic("llvm.memcpy.p0.p0.i64", "void", warp + at, other + at, size, f.const("i1", 0))
