"""A thread ran into a trap, and the kernel is stopped.

`__trap()` and `asm("trap;")` end a kernel with an error; compilers also put one where the source says that control cannot get to.

Bad:

    __global__ void pick(int* x, int kind) {
        if (kind > 3) __trap();
        x[threadIdx.x] = kind;
    }

Good:

    __global__ void pick(int* x, int kind) {
        x[threadIdx.x] = kind > 3 ? 3 : kind;
    }

What to do:
Look at why the thread got there: the finding names the line.
"""

from __future__ import annotations

from gridstride.observers.checks.check import Check

CHECK = Check("GS103", "trap", ("error",), __doc__ or "", stops=True, event=True)
