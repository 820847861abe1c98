"""No thread of the launch can go on, and the kernel is stopped.

What is left waits for something that nobody brings: a barrier that cannot fill, a flag of a block that is not resident and cannot become so
before this one ends, a lock whose holder cannot run. On a GPU such a kernel hangs until it is killed.

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

from gridstride.observers.checks.check import Check

CHECK = Check("GS105", "deadlock", ("error",), __doc__ or "", always=True, stops=True)
