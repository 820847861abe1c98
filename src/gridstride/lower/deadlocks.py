"""Native code that records a deadlock: where the block that cannot go on waits, and which meeting its threads miss."""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.race_cells import BLOCK_SHIFT, TIME_BITS
from gridstride.lower.records import BARRIER, BLOCK, DONE, FAULT_DEADLOCK, SCHEDULE, WARP, WARP_SYNC, WORKER, finding_code


def build_deadlock(module: ir.Module) -> ir.Function:
    """deadlock(worker, schedule, block): nobody can go on, and `block` is an example."""
    f = NativeFunction(module, "deadlock", "void", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    worker, schedule, block = f.args
    f.put(WORKER, worker, "fault_code", FAULT_DEADLOCK)
    f.put(WORKER, worker, "fault_block", f.get(BLOCK, block, "linear"))
    frame, first = f.get(WORKER, worker, "frame_bytes"), f.get(BLOCK, block, "warps")
    f.put(WORKER, worker, "fault_site", f.get(WARP, first, "site"))
    # the first group that waits says where
    count = f.get(BLOCK, block, "context_count")
    waiting, spinning = f.variable("i64", 0), f.variable("i32", 0)
    with f.count_to(count) as k:
        warp = first + (count - 1 - k).to("i64") * frame
        state = f.get(WARP, warp, "state")
        with f.if_(state.ne(DONE)):
            f.put(WORKER, worker, "fault_site", f.get(WARP, warp, "site"))
            f.put(WORKER, worker, "fault_warp", f.get(WARP, warp, "index"))
            f.put(WORKER, worker, "fault_lanes", f.get(WARP, warp, "alive"))
            waiting.set(state.eq(BARRIER).select(warp.to("i64"), waiting.get()))
            spinning.set(spinning.get() + (state.ne(BARRIER) & state.ne(WARP_SYNC)).to("i32"))
    # a thread that spins may be all that the others wait for
    f.ret_if(spinning.get().ne(0))
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        state = f.get(WARP, warp, "state")
        with f.if_(f.get(SCHEDULE, schedule, "barrier_check").ne(0) & state.eq(BARRIER)):
            here = waiting.get().to("ptr")
            with f.if_(f.get(WARP, here, "site").ne(f.get(WARP, warp, "site"))):
                _note(f, worker, schedule, block, "divergent-barrier", here, warp)
                f.ret()
                f.b.position_at_end(f.block("told"))
        with f.if_(f.get(SCHEDULE, schedule, "mask_check").ne(0) & state.eq(WARP_SYNC)):
            mask, index = f.get(WARP, warp, "sync_mask"), f.get(WARP, warp, "index")
            with f.count_to(count) as j:
                other = first + j.to("i64") * frame
                elsewhere = f.get(WARP, other, "state")
                alike = elsewhere.eq(WARP_SYNC) & f.get(WARP, other, "sync_mask").eq(mask)
                named = f.get(WARP, other, "index").eq(index) & elsewhere.ne(DONE) & (f.get(WARP, other, "active") & mask).ne(0)
                with f.if_(named & ~alike):
                    _note(f, worker, schedule, block, "warp-mask", warp, other)
                    f.ret()
                    f.b.position_at_end(f.block("named"))
    f.ret()
    return f.function


def _note(f: NativeFunction, worker: Native, schedule: Native, block: Native, kind: str, here: Native, there: Native) -> None:
    """A finding of two groups of lanes that wait at different places, each for the other."""
    thread, other = (f.get(WARP, w, "index") * 32 + f.first_lane(f.get(WARP, w, "active")) for w in (here, there))
    number = f.get(BLOCK, block, "linear") + f.get(WORKER, worker, "first_block")
    cell = (number << BLOCK_SHIFT) | (other.to("i64") << TIME_BITS)
    code = f.const("i32", finding_code(kind, "error", "waits-for-ever"))
    sites = f.get(WARP, here, "site"), f.get(WARP, there, "site")
    f.call_pointer(f.get(SCHEDULE, schedule, "note_finding"), "void", worker, block, code, *sites, thread, cell, f.const("i64", 0))
