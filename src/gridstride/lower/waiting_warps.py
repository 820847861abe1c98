"""Native code that lets warps go on: barriers that are complete, lanes that a warp-wide operation waited for."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.barriers import ARRIVE, OR, POPC
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import BLOCK_SHIFT, TIME_BITS
from gridstride.lower.records import (
    BARRIER,
    BLOCK,
    DONE,
    RUNNABLE,
    SCHEDULE,
    WARP,
    WARP_SYNC,
    WORKER,
    finding_code,
)


def build_check_barrier(module: ir.Module) -> ir.Function:
    """check_barrier(worker, schedule, block): a barrier of the whole block completes. Is the whole block there?"""
    f = NativeFunction(module, "check_barrier", "void", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    worker, schedule, block = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    chosen, other = f.variable("i64", 0), f.variable("i64", 0)
    with f.count_to(f.get(BLOCK, block, "context_count")) as k:
        warp = first + k.to("i64") * frame
        with f.if_(f.get(WARP, warp, "state").eq(BARRIER)), f.if_else(chosen.get().eq(0)) as (one, more):
            with one:
                chosen.set(warp.to("i64"))
            with more:
                differs = f.get(WARP, warp, "site").ne(f.get(WARP, chosen.get().to("ptr"), "site"))
                other.set(differs.select(warp.to("i64"), other.get()))
    here = chosen.get().to("ptr")
    thread = f.get(WARP, here, "index") * 32 + f.first_lane(f.get(WARP, here, "active"))
    elsewhere, worked, early = other.get().ne(0), f.get(BLOCK, block, "ended_after_work").ne(0), f.get(BLOCK, block, "ended_early").ne(0)
    codes = [finding_code("divergent-barrier", s, d) for s, d in (("error", "waits-elsewhere"), ("error", "goes-on"), ("note", "exited"))]
    code = elsewhere.select(f.const("i32", codes[0]), worked.select(f.const("i32", codes[1]), f.const("i32", codes[2])))
    other_site = f.variable("i32", 0xFFFFFFFF)
    other_cell = f.variable("i64", 0)
    with f.if_(elsewhere):
        there = other.get().to("ptr")
        other_site.set(f.get(WARP, there, "site"))
        number = f.get(WARP, there, "index") * 32 + f.first_lane(f.get(WARP, there, "active"))
        other_cell.set(((f.get(BLOCK, block, "linear") + f.get(WORKER, worker, "first_block")) << BLOCK_SHIFT) | (number.to("i64") << TIME_BITS))
    with f.if_(elsewhere | worked | early):
        note = f.get(SCHEDULE, schedule, "note_finding")
        f.call_pointer(note, "void", worker, block, code, f.get(WARP, here, "site"), other_site.get(), thread, other_cell.get(), f.const("i64", 0))
    f.ret()
    return f.function


def build_release_barriers(module: ir.Module, merge: ir.Function, check: ir.Function) -> ir.Function:
    """release_barriers(worker, schedule, block) -> number of groups let go."""
    f = NativeFunction(module, "release_barriers", "i32", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    worker, schedule, block = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    count = f.get(BLOCK, block, "context_count")
    released = f.variable("i32", 0)
    ids = f.variable("i32", 0)  # barriers that somebody waits at
    uncounted = f.variable("i32", 0)  # of those, the ones that wait for the whole block
    waiting, live = f.variable("i32", 0), f.variable("i32", 0)
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        state = f.get(WARP, warp, "state")
        live.set(live.get() + state.ne(DONE).to("i32"))
        with f.if_(state.eq(BARRIER)):
            bit = f.const("i32", 1) << f.get(WARP, warp, "barrier")
            ids.set(ids.get() | bit)
            waiting.set(waiting.get() + 1)
            whole = f.get(WARP, warp, "barrier_count").eq(0)
            uncounted.set(uncounted.get() | whole.select(bit, f.const("i32", 0)))
    everyone_waits = waiting.get().eq(live.get())
    with f.each_lane(ids.get()) as number:
        arrived = f.get(BLOCK, block, "bar_arrived", number.to("i64"))
        expected = f.get(BLOCK, block, "bar_expected", number.to("i64"))
        bit = f.const("i32", 1) << number
        whole = (uncounted.get() & bit).ne(0)
        alone = ids.get().eq(bit)
        complete = f.b.select(whole.v, (everyone_waits & alone).v, (arrived >= expected).v)
        with f.if_(Native(f, complete) & whole & f.get(SCHEDULE, schedule, "barrier_check").ne(0)):
            f.call(check, worker, schedule, block)
        with f.if_(Native(f, complete)):
            _let_go(f, schedule, block, number, released)
    split = count > f.get(SCHEDULE, schedule, "warps")
    with f.if_(released.get().ne(0) & split), f.count_to(f.get(SCHEDULE, schedule, "warps")) as k:
        f.call(merge, schedule, block, k)
    f.ret(released.get())
    return f.function


def _let_go(f: NativeFunction, schedule: Native, block: Native, number: Native, released: object) -> None:
    """All groups at barrier `number` go on, with what the barrier has reduced."""
    from gridstride.lower.native import Variable

    assert isinstance(released, Variable)
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    count = f.get(BLOCK, block, "context_count")
    holds, all_hold = f.variable("i32", 0), f.variable("i1", f.const("i1", 1))
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        here = f.get(WARP, warp, "state").eq(BARRIER) & f.get(WARP, warp, "barrier").eq(number)
        with f.if_(here):
            mask, active = f.get(WARP, warp, "barrier_mask"), f.get(WARP, warp, "active")
            holds.set(holds.get() + f.count_bits(mask & active))
            all_hold.set(all_hold.get() & (mask & active).eq(active))
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        here = f.get(WARP, warp, "state").eq(BARRIER) & f.get(WARP, warp, "barrier").eq(number)
        with f.if_(here):
            mode = f.get(WARP, warp, "barrier_mode")
            some = holds.get().ne(0).to("i32")
            result = mode.eq(POPC).select(holds.get(), mode.eq(OR).select(some, all_hold.get().to("i32")))
            f.put(WARP, warp, "result", result)
            with f.if_(f.get(SCHEDULE, schedule, "races").ne(0)):
                f.call_pointer(f.get(SCHEDULE, schedule, "race_release"), "void", block, warp)
            f.put(WARP, warp, "state", RUNNABLE)
            released.set(released.get() + 1)
    f.put(BLOCK, block, "bar_arrived", f.const("i32", 0), number.to("i64"))


def build_release_warp_syncs(module: ir.Module, merge: ir.Function) -> ir.Function:
    """release_warp_syncs(worker, schedule, block) -> number of groups let go.

    A group at bar.warp.sync goes on when every lane that its mask names is at one with the same mask, or has ended.
    """
    f = NativeFunction(module, "release_warp_syncs", "i32", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    _, schedule, block = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    count = f.get(BLOCK, block, "context_count")
    released = f.variable("i32", 0)
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        with f.if_(f.get(WARP, warp, "state").eq(WARP_SYNC)):
            mask, index = f.get(WARP, warp, "sync_mask"), f.get(WARP, warp, "index")
            missing = f.variable("i32", 0)
            missing.set(0)
            with f.count_to(count) as j:
                other = first + j.to("i64") * frame
                state = f.get(WARP, other, "state")
                concerned = f.get(WARP, other, "index").eq(index) & state.ne(DONE) & (f.get(WARP, other, "alive") & mask).ne(0)
                arrived = state.eq(WARP_SYNC) & f.get(WARP, other, "sync_mask").eq(mask)
                missing.set(missing.get() + (concerned & ~arrived).to("i32"))
            with f.if_(missing.get().eq(0)):
                present = f.variable("i32", 0)
                present.set(0)
                with f.count_to(count) as j:
                    other = first + j.to("i64") * frame
                    same = f.get(WARP, other, "index").eq(index) & f.get(WARP, other, "state").eq(WARP_SYNC)
                    here = same & f.get(WARP, other, "sync_mask").eq(mask)
                    present.set(present.get() | here.select(f.get(WARP, other, "active"), f.const("i32", 0)))
                published = first + index.to("i64") * frame + WARP.offset("published")
                with f.count_to(count) as j:
                    other = first + j.to("i64") * frame
                    same = f.get(WARP, other, "index").eq(index) & f.get(WARP, other, "state").eq(WARP_SYNC)
                    with f.if_(same & f.get(WARP, other, "sync_mask").eq(mask)):
                        f.put(WARP, other, "present", present.get())
                        f.intrinsic("llvm.memcpy.p0.p0.i64", "void", other + WARP.offset("received"), published, f.const("i64", 256), f.const("i1", 0))
                        f.put(WARP, other, "state", RUNNABLE)
                        released.set(released.get() + 1)
                f.call(merge, schedule, block, index)
    f.ret(released.get())
    return f.function


def signature(f: NativeFunction, warp: Native, frame: Native) -> Native:
    """A hash of what a group of lanes would go on with."""
    total = f.variable("i64", f.get(WARP, warp, "active").to("i64"))
    total.set(total.get() * 31 + f.get(WARP, warp, "resume").to("i64"))
    with f.count_to(frame >> 3, start=WARP.size // 8) as k:
        word = f.load("i64", warp, k * 8)
        mixed = (total.get() ^ word) * 0x9E3779B97F4A7C15
        total.set(mixed ^ (mixed >> 29))
    return total.get()


def build_settle(module: ir.Module) -> ir.Function:
    """settle(block, frame bytes) -> warps that have not ended, the current one included.

    The kernel went from warp to warp and came back at `current`: those before it have ended or arrived at the
    barrier. From here on the scheduler takes each step of this block."""
    f = NativeFunction(module, "settle", "i32", ["ptr", "i64"], attributes=("noinline",))
    block, frame = f.args
    f.put(BLOCK, block, "fast", 0)
    first = f.get(BLOCK, block, "warps")
    current = f.get(WARP, f.get(BLOCK, block, "current"), "index")
    ended = f.variable("i32", 0)
    with f.count_to(current) as k:
        warp = first + k.to("i64") * frame
        over = f.get(WARP, warp, "state").eq(DONE)
        ended.set(ended.get() + over.to("i32"))
        f.put(WARP, warp, "state", over.select(f.const("i32", DONE), f.const("i32", BARRIER)))
    f.ret(f.get(BLOCK, block, "warp_count") - ended.get())
    return f.function


def arrive(f: NativeFunction, block: Native, warp: Native) -> None:
    """Count a group at its barrier; one that only arrives goes on at once."""
    mode = f.get(WARP, warp, "barrier_mode")
    f.put(WARP, warp, "state", mode.eq(ARRIVE).select(f.const("i32", RUNNABLE), f.const("i32", BARRIER)))
    number = f.get(WARP, warp, "barrier").to("i64")
    # a warp counts as a whole, whatever lanes of it have ended (PTX ISA 9.7.13.1)
    whole = f.get(WARP, warp, "others").eq(0)
    lanes = whole.select(f.const("i32", 32), f.count_bits(f.get(WARP, warp, "active")))
    f.add_to(BLOCK, block, "bar_arrived", lanes, number)
    f.put(BLOCK, block, "bar_expected", f.get(WARP, warp, "barrier_count"), number)
