"""Two threads of a block touch the same bytes of shared memory, one of them writes, and nothing orders the two.

What orders is a barrier that both took between the accesses: `__syncthreads()`, a named barrier, or, between lanes of one warp,
`__syncwarp()` with both in its mask. Lanes of a warp are not taken to run in step, shuffles and votes order no memory, and which of the
two happened to come first does not matter. The barrier of a cluster orders all its threads, and an arrival at an mbarrier comes before what those
do who have waited for its phase. Atomic against plain is a race too. Conflicts are found byte by byte: neighbours in one word
do not conflict.

Two kinds are warnings: unordered writes of the same value, which today's hardware does not mind; and `volatile` or relaxed accesses that hand
over values with no barrier between, which worked by lockstep on old devices and works by luck since Volta.

Not checked: accesses to the shared memory of another block of the cluster. They are no cause of false alarms; the receipt of such a run says so.

Bad:

    __global__ void reverse(const float* a, float* b) {
        __shared__ float s[256];
        s[threadIdx.x] = a[threadIdx.x];
        b[threadIdx.x] = s[255 - threadIdx.x];  // that element may not be there yet
    }

Good:

    __global__ void reverse(const float* a, float* b) {
        __shared__ float s[256];
        s[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        b[threadIdx.x] = s[255 - threadIdx.x];
    }

What to do:
Put `__syncthreads()` between the two accesses where all threads of the block pass (inside one warp `__syncwarp()` is enough). In a loop over
tiles there are two: after filling the tile, and before it is filled again.
"""

from __future__ import annotations

from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.races import severity_of, sides
from gridstride.observers.checks.scene import Scene


def tell(raw: RawFinding, scene: Scene) -> Told:
    """One sentence with both sides, and which barrier is missing."""
    severity = severity_of(raw)
    same_warp = raw.other_thread >= 0 and raw.thread // 32 == raw.other_thread // 32
    barrier = "__syncwarp()" if same_warp else "__syncthreads()"
    if raw.detail == "unordered-volatile":
        advice = f"put {barrier} between the two: volatile keeps the compiler from caching values, it orders no threads"
    elif raw.detail == "same-value":
        advice = "let one thread write the value"
    elif raw.detail == "write-write" and raw.site == raw.other_site:
        advice = "let one thread write the element, give each thread an element of its own, or update it with an atomic"
    elif raw.site == raw.other_site or same_line(raw, scene):
        advice = f"put {barrier} between the steps, where every thread passes; if several threads update one element, use an atomic"
    else:
        advice = f"put {barrier} between the two accesses, where every thread of the {'warp' if same_warp else 'block'} passes"
    return Told(severity, sides(raw, scene, f"there is no {'__syncwarp() or ' if same_warp else ''}barrier between them"), advice)


def same_line(raw: RawFinding, scene: Scene) -> bool:
    """Whether both sides stand on one source line."""
    first, second = scene.site(raw.site), scene.site(raw.other_site)
    return first.line is not None and (first.file, first.line) == (second.file, second.line)


CHECK = Check("GS201", "race-shared", ("error", "warning"), __doc__ or "", native=True, tell=tell)
