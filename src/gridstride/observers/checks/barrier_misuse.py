"""A cluster's barrier or an mbarrier is used as it must not be, and the kernel is stopped.

An mbarrier counts the arrivals of a phase. It has to be initialised first, nobody may arrive more often than the phase still awaits, and the number
of arrivals and of bytes that it awaits has an end (1,048,575). At the barrier of a cluster each thread arrives once and then waits once, in turn.
On a GPU what happens otherwise is undefined: threads go on too early, or never.

Bad:

    #include <cuda/barrier>

    __global__ void shift(const int* in, int* out) {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;  // nobody initialises it
        __shared__ int s[64];
        s[threadIdx.x] = in[threadIdx.x];
        bar.arrive_and_wait();
        out[threadIdx.x] = s[(threadIdx.x + 1) % 64];
    }

Good:

    #include <cuda/barrier>

    __global__ void shift(const int* in, int* out) {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        __shared__ int s[64];
        if (threadIdx.x == 0) init(&bar, blockDim.x);
        __syncthreads();
        s[threadIdx.x] = in[threadIdx.x];
        bar.arrive_and_wait();
        out[threadIdx.x] = s[(threadIdx.x + 1) % 64];
    }

What to do:
Initialise the mbarrier with the number of arrivals that come in one phase, let a barrier of the block (or of the cluster) stand between that and its
first use, and let nobody arrive for the next phase before this one is complete.
"""

from __future__ import annotations

from gridstride.observers.checks.check import Check

CHECK = Check("GS109", "barrier-misuse", ("error",), __doc__ or "", stops=True, event=True)
