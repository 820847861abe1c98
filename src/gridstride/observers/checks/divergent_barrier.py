"""Part of a block waits at a barrier that the rest does not reach, or reaches elsewhere.

`__syncthreads()` is for all threads of the block that have not ended. A barrier in a branch that divides the block, in a loop whose trip count differs from
thread to thread, or after some threads went another way, is undefined: hardware may go on with data that is not there, or hang.

The test is what the absent threads do: if they go on past the branch's join, or wait at another barrier, that is an error. If all that is left to them is to
exit, as after an early return, it is a note: threads that have ended do not count since Volta; older devices hang.

Bad:

    __global__ void halve(float* x) {
        __shared__ float s[256];
        s[threadIdx.x] = x[threadIdx.x];
        if (threadIdx.x < 128) {
            __syncthreads();  // the other half never comes here
            s[threadIdx.x] += s[threadIdx.x + 128];
        }
        x[threadIdx.x] = s[threadIdx.x];
    }

Good:

    __global__ void halve(float* x) {
        __shared__ float s[256];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x < 128) s[threadIdx.x] += s[threadIdx.x + 128];
        x[threadIdx.x] = s[threadIdx.x];
    }

What to do:
Move the barrier out of the branch, to where every thread of the block passes equally often; keep only the work inside the branch.
"""

from __future__ import annotations

from typing import cast

from gridstride.findings import Severity
from gridstride.machine.raw_findings import FOR_EVER, RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.scene import Scene, dim, lines, place, unravel


def tell(raw: RawFinding, scene: Scene) -> Told:
    """Who waits where, and what the absent do."""
    here = scene.site(raw.site, raw.block, raw.thread)
    other = scene.site(raw.other_site, raw.other_block if raw.other_block >= 0 else raw.block, raw.other_thread)
    known = raw.other_site >= 0 or raw.other_thread >= 0
    waiting = f"thread {dim(unravel(raw.thread, scene.block))}" if raw.thread >= 0 else "part of the block"
    absent = f"thread {dim(unravel(raw.other_thread, scene.block))}" if raw.other_thread >= 0 else "the rest of the block"
    block = "" if here.block is None else f"block {dim(here.block)}, "
    where = f" ({block}{lines(here, other) if known and raw.other_site >= 0 else place(here, threads=False)})"
    if raw.detail == "exited":
        advice = "since Volta threads that have ended do not count; for older devices let every thread reach the barrier"
        return Told("note", f"{waiting} waits at a barrier, and {absent} has ended before it{where}", advice)
    if raw.detail in ("waits-elsewhere", FOR_EVER):
        message = f"{waiting} waits at one barrier, while {absent} waits at another"
        if raw.detail == FOR_EVER:
            message += ", and neither can go on: a deadlock"
        return Told(cast(Severity, raw.severity), message + where, "let all threads of the block take the same barriers in the same order")
    message = f"{waiting} waits at a barrier that {absent} passes by"
    return Told(cast(Severity, raw.severity), message + where, "move the barrier out of the branch or loop, to where every thread of the block passes")


CHECK = Check("GS401", "divergent-barrier", ("error", "note"), __doc__ or "", native=True, tell=tell)
