"""No thread of the launch can go on, and the kernel is stopped.

What is left waits for something that nobody brings: a barrier that cannot fill, a flag of a block that is not resident and cannot become so
before this one ends, a lock whose holder cannot run. On a GPU such a kernel hangs until it is killed.

Threads that wait at two barriers, each for the other, are told as `divergent-barrier`, and lanes that a warp-wide operation waits for in vain
as `warp-mask`, where those checks are on: they name both places.

Bad:

    __global__ void meet(volatile int* arrived) {
        if (threadIdx.x == 0) {
            atomicAdd((int*)arrived, 1);
            while (*arrived < (int)gridDim.x) { }  // the blocks that did not fit never start
        }
        __syncthreads();
    }

Good:

    __global__ void meet(int* arrived) {
        if (threadIdx.x == 0) atomicAdd(arrived, 1);
        // what comes after the meeting is a kernel of its own
    }

What to do:
Let every thread of the block reach the same barrier. Let a loop wait only for threads that are sure to run: launch a grid that meets
cooperatively (`cooperative=True`), or end the kernel where the grid has to meet.
"""

from __future__ import annotations

from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.observers.checks.check import Check

CHECK = Check("GS105", "deadlock", ("error",), __doc__ or "", always=True, stops=True)


def tell_missed_meeting(fault: KernelFault, why: Finding) -> KernelFault:
    """The same fault, told as the finding that is why nobody could go on."""
    told = KernelFault(f"kernel `{why.kernel}`: {why.message}", fault.code, why)
    told.raw_findings = fault.raw_findings
    return told
