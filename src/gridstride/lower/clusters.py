"""Clusters of blocks as native code: starting their blocks together, letting warps go on at their barrier (PTX ISA 9.7.13.3).

A group of lanes notes in its record in which phase of the cluster's barrier its lanes have arrived, by the phase's
parity: a lane that has arrived and not yet waited can be at most one phase behind. A phase is complete when every lane
of the cluster that has not ended has arrived in it; blocks that have ended have no such lanes.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.lower.native import Native, NativeFunction, Variable
from gridstride.lower.records import BLOCK, CLUSTER, DONE, FRAME, RUNNABLE, SCHEDULE, WARP, WORKER

AT_CLUSTER_BARRIER = 16  # the barrier's number for the race detector, beside those of the block: two, one a parity


def build_cluster_is_free(module: ir.Module) -> ir.Function:
    """cluster_is_free(worker, block) -> 1 if `block` is the first of a cluster's places and nobody is in any of them."""
    f = NativeFunction(module, "cluster_is_free", "i32", ["ptr", "ptr"], attributes=("noinline",))
    worker, block = f.args
    f.ret_if(f.get(BLOCK, block, "cluster_rank").ne(0), f.const("i32", 0))
    with f.count_to(f.get(WORKER, worker, "cluster_size")) as rank:
        f.ret_if(f.get(BLOCK, _member(f, worker, block, rank), "state").ne(0), f.const("i32", 0))
    f.ret(1)
    return f.function


def _member(f: NativeFunction, worker: Native, first: Native, rank: Native) -> Native:
    return first + rank.to("i64") * f.get(WORKER, worker, "block_stride")


def build_start_cluster(module: ir.Module, start: ir.Function) -> ir.Function:
    """start_cluster(worker, schedule, block, number): the blocks of cluster `number` start, that of rank 0 at `block`."""
    f = NativeFunction(module, "start_cluster", "void", ["ptr", "ptr", "ptr", "i64"], attributes=("noinline",))
    worker, schedule, block, number = f.args
    extents = {axis: f.get(WORKER, worker, f"cluster_nctaid_{axis}").to("i64") for axis in "xyz"}
    grid = {axis: f.get(WORKER, worker, f"nctaid_{axis}").to("i64") for axis in "xy"}
    across, down = grid["x"] // extents["x"], grid["y"] // extents["y"]
    first = {"x": number % across, "y": number // across % down, "z": number // (across * down)}
    with f.count_to(f.get(WORKER, worker, "cluster_size")) as rank:
        r = rank.to("i64")
        inside = {"x": r % extents["x"], "y": r // extents["x"] % extents["y"], "z": r // (extents["x"] * extents["y"])}
        x, y, z = (first[axis] * extents[axis] + inside[axis] for axis in "xyz")
        f.call(start, worker, schedule, _member(f, worker, block, rank), x + grid["x"] * (y + grid["y"] * z))
    f.ret()
    return f.function


def build_release_cluster(module: ir.Module, merge: ir.Function) -> ir.Function:
    """release_cluster(worker, schedule, block) -> groups of lanes of `block` let go that waited at the cluster's barrier."""
    f = NativeFunction(module, "release_cluster", "i32", ["ptr", "ptr", "ptr"], attributes=("noinline",))
    worker, schedule, block = f.args
    frame = f.get(SCHEDULE, schedule, "frame_bytes")
    leader = f.get(BLOCK, block, "cluster")
    phase = f.variable("i32", f.get(BLOCK, leader, "cluster_phase"))
    with f.if_(_everyone_has_arrived(f, worker, schedule, leader, phase.get() & 1)):
        phase.set(phase.get() + 1)
        f.put(BLOCK, leader, "cluster_phase", phase.get())
        f.add_to(WORKER, worker, "changes", 1)  # whoever spins in another block may have something to see soon
    released = f.variable("i32", 0)
    count, first = f.get(BLOCK, block, "context_count"), f.get(BLOCK, block, "warps")
    parity = phase.get() & 1
    with f.count_to(count) as k:
        warp = first + k.to("i64") * frame
        with f.if_(f.get(WARP, warp, "state").eq(CLUSTER)):
            active = f.get(WARP, warp, "active")
            with f.if_((f.get(WARP, warp, "cluster_arrived", parity.to("i64")) & active).eq(0)):
                for q in range(2):
                    f.put(WARP, warp, "cluster_arrived", f.get(WARP, warp, "cluster_arrived", q) & ~active, q)
                f.put(WARP, warp, "state", RUNNABLE)
                released.set(released.get() + 1)
                f.add_to(BLOCK, block, "cluster_waiting", 0xFFFFFFFF)
                with f.if_(f.get(SCHEDULE, schedule, "races").ne(0)):
                    # the barrier of the phase before this one
                    f.put(WARP, warp, "barrier", f.const("i32", AT_CLUSTER_BARRIER + 1) - parity)
                    f.put(WARP, warp, "barrier_count", 1)  # not one after which everything is known: others may have gone on
                    f.call_pointer(f.get(SCHEDULE, schedule, "race_release"), "void", block, warp)
    with f.if_(released.get().ne(0) & (count > f.get(SCHEDULE, schedule, "warps"))), f.count_to(f.get(SCHEDULE, schedule, "warps")) as k:
        f.call(merge, schedule, block, k)
    f.ret(released.get())
    return f.function


def _everyone_has_arrived(f: NativeFunction, worker: Native, schedule: Native, leader: Native, parity: Native) -> Native:
    frame = f.get(SCHEDULE, schedule, "frame_bytes")
    calls = f.get(SCHEDULE, schedule, "calls").ne(0)
    missing = f.variable("i32", 0)
    missing.set(0)
    with f.count_to(f.get(WORKER, worker, "cluster_size")) as rank:
        block = _member(f, worker, leader, rank)
        with f.if_(f.get(BLOCK, block, "state").ne(0)):
            _add_missing(f, block, frame, calls, parity, missing)
    return missing.get().eq(0)


def _add_missing(f: NativeFunction, block: Native, frame: Native, calls: Native, parity: Native, missing: Variable) -> None:
    """Lanes of a block that have neither arrived nor ended."""
    first = f.get(BLOCK, block, "warps")
    with f.count_to(f.get(BLOCK, block, "context_count")) as k:
        warp = first + k.to("i64") * frame
        with f.if_(f.get(WARP, warp, "state").ne(DONE)):
            alive = f.variable("i32", f.get(WARP, warp, "alive"))
            alive.set(f.get(WARP, warp, "alive"))
            with f.if_(calls):  # those of the function that runs; the kernel's own frame has all that have not ended
                with f.if_(f.get(WARP, warp, "function").ne(0)):
                    alive.set(f.get(FRAME, warp + WARP.size, "alive"))
                alive.set(alive.get() & f.get(WARP, warp, "lanes") & ~f.get(WARP, warp, "exited"))
            missing.set(missing.get() | (alive.get() & ~f.get(WARP, warp, "cluster_arrived", parity.to("i64"))))
