"""Two threads touch the same bytes of global memory, one of them writes, and nothing orders the two.

What orders: a barrier, inside a block; a release and an acquire that meet, between any threads, such as `__threadfence()` and an atomic on one
side and an atomic and `__threadfence()` on the other, with scopes that include both; the end of a kernel, for everything after it in its stream.
A fence alone orders nothing, and an atomic alone orders only its own location. Atomic against plain is a race too. Conflicts are found byte by byte.

Unordered writes of the same value are a warning: the memory model leaves them undefined, today's hardware does not mind.

What is not kept: of a location's atomics in kernels with fences, named barriers or `__syncwarp` of part of a warp, all but the last one (a plain
access that is ordered behind the last but not behind an earlier one is missed; elsewhere two speak for all); of single bytes that are read or
written one by one, what lies more than four million warp accesses back. Neither is a cause of false alarms.

Bad:

    __global__ void count(const unsigned char* d, int* bins, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) bins[d[i]] += 1;  // two threads read the same old value: one update is lost
    }

Good:

    __global__ void count(const unsigned char* d, int* bins, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&bins[d[i]], 1);
    }

What to do:
Update shared elements with atomics, give each element to one thread, read from one buffer and write to another, or split the work into two
kernels. To hand data to another block: write it, `__threadfence()`, then set the flag with an atomic; the reader takes the flag with an atomic,
then `__threadfence()`, then reads.
"""

from __future__ import annotations

from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.race_shared import same_line
from gridstride.observers.checks.races import severity_of, sides
from gridstride.observers.checks.scene import Scene


def tell(raw: RawFinding, scene: Scene) -> Told:
    """One sentence with both sides, and what could order them."""
    kinds = {scene.does(raw.site), scene.does(raw.other_site)}
    across = raw.block != raw.other_block
    if raw.detail == "same-value":
        advice = "let one thread write the value, or write it with an atomic"
    elif raw.detail == "unordered-volatile":
        advice = "make the accesses atomic and put __threadfence() between the data and the flag: volatile orders no threads"
    elif "atomically updates" in kinds:
        advice = "make both accesses atomic, or order the plain one by a fence and a flag (across blocks) or a barrier (inside a block)"
    elif raw.site == raw.other_site or same_line(raw, scene):
        advice = "use an atomic such as atomicAdd, or let each element be touched by one thread only; check that indices cannot meet"
    elif not across:
        advice = "put __syncthreads() between the two accesses, where every thread of the block passes"
    else:
        advice = (
            "write to another buffer than is read, or split the kernel in two; to hand data to another block, use __threadfence() before "
            "setting an atomic flag and after reading it"
        )
    why = "nothing orders the two" if across else "there is no barrier between them"
    return Told(severity_of(raw), sides(raw, scene, why), advice)


CHECK = Check("GS202", "race-global", ("error", "warning"), __doc__ or "", native=True, tell=tell)
