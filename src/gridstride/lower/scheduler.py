"""The scheduler of blocks and warps, as native code.

One block after the other runs to its end, warp by warp, each warp from barrier to barrier. Only when a block waits
for something that none of its own warps brings (a flag that another block sets, say) is the next one started beside
it, up to what the device could hold. The blocks of a cluster start together, in neighbouring places. When all that may run only spins and nothing changes any more, the launch ends
with a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.lower.clusters import build_cluster_is_free, build_release_cluster, build_start_cluster
from gridstride.lower.deadlocks import build_deadlock
from gridstride.lower.lane_groups import build_merge, build_split, build_tell_others
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import (
    BARRIER,
    BLOCK,
    CLUSTER,
    DONE,
    FRAME,
    POOL,
    RUNNABLE,
    SCHEDULE,
    STOPPED,
    WARP,
    WARP_SYNC,
    WORKER,
    YIELD,
)
from gridstride.lower.runtime import poll_body
from gridstride.lower.waiting_warps import (
    arrive,
    build_check_barrier,
    build_release_barriers,
    build_release_warp_syncs,
    build_settle,
    signature,
)

FREE, RUNNING = 0, 1
FINISHED, STALLED, ABORTED = 0, 1, 2
STALLS_BEFORE_OTHERS = 4
STALLS_WITH_CHANGES = 64
SHORT_TURN = 2  # loop iterations of a group after one that waits in vain
QUIET_ROUNDS = 16  # of all of a worker's blocks, before it takes itself for stuck
STUCK_BITS = 16
STUCK_MASK = (1 << STUCK_BITS) - 1


def build_scheduler() -> ir.Module:
    """The LLVM module with `run(worker, schedule, pool) -> i32`: 0 when all blocks are done, 1 when stopped."""
    module = ir.Module("scheduler")
    start = _start_block(module)
    others = build_tell_others(module)
    split, merge = build_split(module, others), build_merge(module, others)
    barriers = build_release_barriers(module, merge, build_check_barrier(module))
    syncs = build_release_warp_syncs(module, merge)
    deadlock = build_deadlock(module)
    clusters = build_release_cluster(module, merge)
    run_block = _run_block(module, build_settle(module), split, barriers, syncs, clusters, deadlock)
    _run(module, start, build_start_cluster(module, start), build_cluster_is_free(module), run_block, deadlock)
    return module


def _memset(f: NativeFunction, place: Native, size: Native) -> None:
    f.intrinsic("llvm.memset.p0.i64", "void", place, f.const("i8", 0), size, f.const("i1", 0))


def _start_block(module: ir.Module) -> ir.Function:
    """start_block(worker, schedule, block, linear)"""
    f = NativeFunction(module, "start_block", "void", ["ptr", "ptr", "ptr", "i64"], attributes=("noinline",))
    worker, schedule, block, linear = f.args
    f.put(BLOCK, block, "linear", linear)
    nx, ny = (f.get(WORKER, worker, n) for n in ("nctaid_x", "nctaid_y"))
    small = (linear >> 32).eq(0)
    with f.if_else(small) as (narrow, wide):  # a 64-bit division takes several times as long
        with narrow:
            short = linear.to("i32")
            rest = short // nx
            f.put(BLOCK, block, "ctaid_x", short - rest * nx)
            f.put(BLOCK, block, "ctaid_z", rest // ny)
            f.put(BLOCK, block, "ctaid_y", rest % ny)
        with wide:
            rest = linear // nx.to("i64")
            f.put(BLOCK, block, "ctaid_x", (linear % nx.to("i64")).to("i32"))
            f.put(BLOCK, block, "ctaid_y", (rest % ny.to("i64")).to("i32"))
            f.put(BLOCK, block, "ctaid_z", (rest // ny.to("i64")).to("i32"))
    f.put(BLOCK, block, "state", RUNNING)
    f.put(BLOCK, block, "progress", 0)
    f.put(BLOCK, block, "cluster_phase", 0)
    f.put(BLOCK, block, "cluster_waiting", 0)
    for what, size in (("shared", "undefined_shared"), ("local", "undefined_locals")):
        amount = f.get(SCHEDULE, schedule, size)
        with f.if_(amount.ne(0)):
            shadow = f.get(BLOCK, block, "shared_defined") if what == "shared" else (f.get(BLOCK, block, "locals") + f.get(BLOCK, block, "local_defined"))
            # nobody has written it (lower/definedness.py)
            f.intrinsic("llvm.memset.p0.i64", "void", shadow, f.const("i8", 0xFF), amount, f.const("i1", 0))
    f.put(BLOCK, block, "ended_after_work", 0)
    f.put(BLOCK, block, "ended_early", 0)
    warps = f.get(SCHEDULE, schedule, "warps")
    f.put(BLOCK, block, "context_count", warps)
    f.put(BLOCK, block, "live_threads", warps)
    shared_clear = f.get(SCHEDULE, schedule, "shared_clear")
    with f.if_(shared_clear.ne(0)):
        _memset(f, f.get(BLOCK, block, "shared"), shared_clear)
    clear = f.get(SCHEDULE, schedule, "locals_clear")
    with f.if_(clear.ne(0)):
        _memset(f, f.get(BLOCK, block, "locals"), clear)
    with f.if_(f.get(SCHEDULE, schedule, "races").ne(0)):
        f.call_pointer(f.get(SCHEDULE, schedule, "race_begin"), "void", block, warps)
    f.ret_if(f.get(SCHEDULE, schedule, "straight").ne(0))
    calls = f.get(SCHEDULE, schedule, "calls").ne(0)
    f.put(BLOCK, block, "fast", (f.get(SCHEDULE, schedule, "warp_order").to("i64").eq(0) & (warps > 1) & ~calls & f.get(SCHEDULE, schedule, "races").eq(0) & f.get(SCHEDULE, schedule, "barrier_check").eq(0)).to("i32"))
    _memset(f, block + BLOCK.offset("bar_arrived"), f.const("i64", 64))
    frame = f.get(SCHEDULE, schedule, "frame_bytes")
    first = f.get(BLOCK, block, "warps")
    last = warps - 1
    at_cluster_barriers = f.get(SCHEDULE, schedule, "cluster_barriers").ne(0)
    with f.count_to(warps) as k:
        warp = first + k.to("i64") * frame
        f.put(WARP, warp, "resume", 0)
        f.put(WARP, warp, "alive", k.eq(last).select(f.get(SCHEDULE, schedule, "last_alive"), f.const("i32", 0xFFFFFFFF)))
        f.put(WARP, warp, "state", RUNNABLE)
        f.put(WARP, warp, "pending", 0)
        f.put(WARP, warp, "others", 0)
        f.put(WARP, warp, "signature", 0)
        with f.if_(at_cluster_barriers):
            f.put(WARP, warp, "cluster_arrived", 0, 0)
            f.put(WARP, warp, "cluster_arrived", 0, 1)
        with f.if_(calls):
            f.put(WARP, warp, "function", 0)
            f.put(WARP, warp, "lanes", f.const("i32", 0xFFFFFFFF))
            f.put(WARP, warp, "exited", 0)
            f.put(WARP, warp, "frame", WARP.size)
            f.put(FRAME, warp + WARP.size, "local_base", 0)
    f.ret()
    return f.function


def _run_block(
    module: ir.Module, settle: ir.Function, split: ir.Function, barriers: ir.Function, syncs: ir.Function, clusters: ir.Function, deadlock: ir.Function
) -> ir.Function:
    """run_block(worker, schedule, block) -> FINISHED, STALLED or ABORTED"""
    f = NativeFunction(module, "run_block", "i32", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    worker, schedule, block = f.args
    frame, first = f.get(SCHEDULE, schedule, "frame_bytes"), f.get(BLOCK, block, "warps")
    kernel = f.get(SCHEDULE, schedule, "kernel")
    order = f.get(SCHEDULE, schedule, "warp_order")
    warps = f.get(SCHEDULE, schedule, "warps")
    races = f.get(SCHEDULE, schedule, "races").ne(0)
    with f.if_(f.get(SCHEDULE, schedule, "straight").ne(0)):
        state = f.call_pointer(kernel, "i32", worker, block, first)
        f.ret(state.eq(STOPPED).select(f.const("i32", ABORTED), f.const("i32", FINISHED)))
        f.b.position_at_end(f.block("dead"))
    stalls = f.variable("i64", 0)
    live = f.variable("i32", f.get(BLOCK, block, "live_threads"))
    with f.loop():
        moved, yielded, stuck = f.variable("i32", 0), f.variable("i32", 0), f.variable("i32", 0)
        moved.set(0)
        yielded.set(0)
        stuck.set(0)
        waiting_barrier, waiting_sync = f.variable("i32", 0), f.variable("i32", 0)
        waiting_barrier.set(0)
        waiting_sync.set(0)
        changes = f.get(WORKER, worker, "changes")
        count = f.get(BLOCK, block, "context_count")
        with f.count_to(count) as k:
            chosen = f.variable("i32", k)
            chosen.set(k)
            with f.if_(order.to("i64").ne(0) & (k < warps)):
                chosen.set(f.load("i32", order, k.to("i64") * 4))
            warp = first + chosen.get().to("i64") * frame
            with f.if_(f.get(WARP, warp, "state").eq(RUNNABLE)):
                f.put(BLOCK, block, "current", warp)
                state = f.call_pointer(kernel, "i32", worker, block, warp)
                f.ret_if(state.eq(STOPPED), f.const("i32", ABORTED))
                with f.if_(f.get(BLOCK, block, "fast").ne(0)):
                    live.set(f.call(settle, block, frame))
                    moved.set(1)
                warp = f.get(BLOCK, block, "current")
                with f.if_(state.eq(DONE)):
                    with f.if_(races):
                        f.call_pointer(f.get(SCHEDULE, schedule, "race_exit"), "void", block, warp)
                    f.put(WARP, warp, "state", DONE)
                    live.set(live.get() - 1)
                    moved.set(1)
                with f.if_(state.ne(DONE)):
                    lockstep = f.get(SCHEDULE, schedule, "lockstep").ne(0) & (state.eq(YIELD) | state.eq(WARP_SYNC))
                    with f.if_(f.get(WARP, warp, "pending").ne(0) & ~lockstep):
                        f.put(BLOCK, block, "live_threads", live.get())
                        f.call(split, schedule, block, warp)
                        live.set(f.get(BLOCK, block, "live_threads"))
                        moved.set(1)
                    with f.if_(state.eq(YIELD)):
                        f.ret_if(poll_body(f, worker).ne(0), f.const("i32", ABORTED))
                        now = signature(f, warp, f.get(SCHEDULE, schedule, "hash_bytes"))
                        same = now.eq(f.get(WARP, warp, "signature"))
                        stuck.set(stuck.get() + same.to("i32"))
                        # where one waits others often do too, and thousands of blocks may: each tries only a few times before it is the next one's turn
                        interval = f.get(WORKER, worker, "poll_interval")
                        f.put(WORKER, worker, "polls", same.select(f.const("i64", SHORT_TURN), interval))
                        f.add_to(WORKER, worker, "executed", same.select(f.const("i64", SHORT_TURN) - interval, f.const("i64", 0)))
                        f.put(WARP, warp, "signature", now)
                        yielded.set(yielded.get() + 1)
                    with f.if_(state.eq(BARRIER)):
                        with f.if_(races):
                            f.call_pointer(f.get(SCHEDULE, schedule, "race_arrive"), "void", block, warp)
                        arrive(f, block, warp)
                        waiting_barrier.set(1)
                        moved.set(1)
                    with f.if_(state.eq(WARP_SYNC) & ~lockstep):
                        f.put(WARP, warp, "state", WARP_SYNC)
                        waiting_sync.set(1)
                        moved.set(1)
                    with f.if_(state.eq(CLUSTER)):
                        f.put(WARP, warp, "state", CLUSTER)
                        f.add_to(BLOCK, block, "cluster_waiting", 1)
                        moved.set(1)
        f.put(BLOCK, block, "live_threads", live.get())
        f.ret_if(live.get().eq(0), f.const("i32", FINISHED))
        released = f.variable("i32", 0)
        released.set(f.call(barriers, worker, schedule, block))
        with f.if_((f.get(BLOCK, block, "context_count") > warps) | waiting_sync.get().ne(0)):
            released.set(released.get() + f.call(syncs, worker, schedule, block))
            f.ret_if(f.get(WORKER, worker, "fault_code").ne(0), f.const("i32", ABORTED))
        with f.if_(f.get(BLOCK, block, "cluster_waiting").ne(0)):
            released.set(released.get() + f.call(clusters, worker, schedule, block))
        live.set(f.get(BLOCK, block, "live_threads"))
        nothing = moved.get().eq(0) & released.get().eq(0)
        with f.if_(~nothing):
            stalls.set(0)
            f.put(BLOCK, block, "progress", 0)
        with f.if_(nothing):
            stalls.set(stalls.get() + 1)
            changed = f.get(WORKER, worker, "changes").ne(changes)
            patience = changed.select(f.const("i64", STALLS_WITH_CHANGES), f.const("i64", STALLS_BEFORE_OTHERS))
            # nobody spins: what is waited for can only come from other blocks of the cluster, or from nowhere
            quiet = yielded.get().eq(0)
            for_others = quiet & f.get(BLOCK, block, "cluster_waiting").ne(0)
            with f.if_(quiet & ~for_others):
                f.call(deadlock, worker, schedule, block)
                f.ret(ABORTED)
                f.b.position_at_end(f.block("dead"))
            all_stuck = stuck.get().eq(yielded.get()) & ~changed
            # rounds that brought nothing, one after the other
            f.put(BLOCK, block, "progress", all_stuck.select(f.get(BLOCK, block, "progress") + 1, f.const("i64", 0)))
            f.ret_if((stalls.get() >= patience) | for_others, f.const("i32", STALLED))
    f.b.unreachable()
    return f.function


def _run(
    module: ir.Module, start: ir.Function, start_cluster: ir.Function, cluster_is_free: ir.Function, run_block: ir.Function, deadlock: ir.Function
) -> None:
    """run(worker, schedule, pool): start blocks and run them until there are none.

    Deadlock: `steps` counts in its high bits what moves in any worker's blocks, and in its low ones the workers of whose
    blocks none has moved in QUIET_ROUNDS since the last step. Those are as many as have not finished: nobody ever will.
    """
    f = NativeFunction(module, "run", "i32", ["ptr", "ptr", "ptr"])
    worker, schedule, pool = f.args
    total = f.get(SCHEDULE, schedule, "total")
    order, factor = f.get(SCHEDULE, schedule, "order"), f.get(SCHEDULE, schedule, "order_factor")
    first, stride = f.get(POOL, pool, "first"), f.get(POOL, pool, "stride")
    limit = f.get(POOL, pool, "limit")
    exhausted, moved, busy = f.variable("i32", 0), f.variable("i32", 0), f.variable("i32", 0)
    quiet, stuck = f.variable("i32", 0), f.variable("i32", 0)
    seen = f.variable("i64", 0)
    steps = schedule + SCHEDULE.offset("steps")

    def add(name: str, value: int) -> Native:
        place = schedule + SCHEDULE.offset(name)
        return Native(f, f.b.atomic_rmw("add", place.v, ir.Constant(ir.IntType(64), value), "seq_cst"))

    def change_steps(change: Callable[[Native], Native]) -> None:
        with f.loop():
            old = add("steps", 0)
            pair = f.b.cmpxchg(steps.v, old.v, change(old).v, "seq_cst")
            f.break_if(Native(f, f.b.extract_value(pair, 1)))

    size = f.get(SCHEDULE, schedule, "cluster_size")
    f.put(POOL, pool, "open", size)
    with f.loop():
        busy.set(0)
        moved.set(0)
        with f.count_to(f.get(POOL, pool, "open")) as k:
            block = first + k.to("i64") * stride
            with f.loop():
                begins = f.variable("i32", 0)
                begins.set((f.get(BLOCK, block, "state").eq(FREE) & exhausted.get().eq(0)).to("i32"))
                with f.if_(begins.get().ne(0) & size.ne(1)):
                    begins.set(f.call(cluster_is_free, worker, block))
                with f.if_(begins.get().ne(0)):
                    number = add("next", 1)
                    with f.if_(number >= total):
                        exhausted.set(1)
                    with f.if_(number < total):
                        linear = f.variable("i64", number)
                        linear.set(number)
                        with f.if_(order.to("i64").ne(0)):
                            linear.set(f.load("i64", order, number * 8))
                        with f.if_(factor.ne(0)):
                            linear.set((number * factor + f.get(SCHEDULE, schedule, "order_shift")) % total)
                        with f.if_else(size.eq(1)) as (alone, together):
                            with alone:
                                f.call(start, worker, schedule, block, linear.get())
                            with together:
                                f.call(start_cluster, worker, schedule, block, linear.get())
                        moved.set(1)
                        # a block counts as a loop iteration: grids end too when they are asked to
                        left = f.add_to(WORKER, worker, "polls", -1)
                        with f.if_((left - 1) >= 1 << 63):
                            f.ret_if(poll_body(f, worker).ne(0), f.const("i32", 1))
                f.break_if(f.get(BLOCK, block, "state").eq(FREE))
                before = f.get(BLOCK, block, "progress")
                result = f.call(run_block, worker, schedule, block)
                f.ret_if(result.eq(ABORTED), f.const("i32", 1))
                with f.if_(result.eq(STALLED)):
                    busy.set(busy.get() + 1)
                    moved.set(moved.get() | (f.get(BLOCK, block, "progress") <= before).to("i32"))
                f.break_if(result.eq(STALLED))
                f.put(BLOCK, block, "state", FREE)
                moved.set(1)
        f.break_if(exhausted.get().ne(0) & busy.get().eq(0))
        # whoever waits may wait for a block that has not started
        opened = f.get(POOL, pool, "open")
        with f.if_(exhausted.get().eq(0) & (opened < limit) & busy.get().ne(0)):
            # an eighth more: thousands of blocks that all wait for one that has no place would take minutes one by one
            more = opened + size * (f.const("i32", 1) + (opened // size >> 3))
            f.put(POOL, pool, "open", (more < limit).select(more, limit))
            moved.set(1)
        with f.if_(moved.get().ne(0)):
            change_steps(lambda old: (old | STUCK_MASK) + 1)
        step = add("steps", 0) >> STUCK_BITS
        still = step.eq(seen.get()) & moved.get().eq(0)
        seen.set(step)
        quiet.set(still.select(quiet.get() + 1, f.const("i32", 0)))
        stuck.set(still.select(stuck.get(), f.const("i32", 0)))
        with f.if_(stuck.get().eq(0) & (quiet.get() >= QUIET_ROUNDS)):
            stuck.set(1)
            change_steps(lambda old: (old >> STUCK_BITS).eq(step).select(old + 1, old))
        with f.if_(stuck.get().ne(0)):
            left = f.get(SCHEDULE, schedule, "workers").to("i64") - add("finished", 0)
            with f.if_(add("steps", 0).eq((step << STUCK_BITS) | left)), f.count_to(opened) as k:
                block = first + k.to("i64") * stride
                with f.if_(f.get(BLOCK, block, "state").eq(RUNNING)):
                    f.call(deadlock, worker, schedule, block)
                    f.ret(1)
                    f.b.position_at_end(f.block("dead"))
    change_steps(lambda old: (old | STUCK_MASK) + 1)  # before it is counted: what it did last is a step
    add("finished", 1)
    f.ret(0)
