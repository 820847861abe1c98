"""An `assert` in the kernel does not hold, and the kernel is stopped.

The condition is false for the thread that the finding names. Compile with `-DNDEBUG` to leave assertions out.

Bad:

    #include <cassert>
    __global__ void invert(float* x) {
        assert(x[threadIdx.x] != 0.0f);
        x[threadIdx.x] = 1.0f / x[threadIdx.x];
    }

Good:

    __global__ void invert(float* x) {
        if (x[threadIdx.x] != 0.0f) x[threadIdx.x] = 1.0f / x[threadIdx.x];
    }

What to do:
The message has the condition, the function and the line as `assert` reports them.
"""

from __future__ import annotations

from gridstride.observers.checks.check import Check

CHECK = Check("GS104", "assert", ("error",), __doc__ or "", stops=True, event=True)
