"""A launch ran more loop iterations than it was given, and was stopped.

The budget is the caller's (`--budget`, `gs.device(budget=…)`); without one a loop may run for ever.

Bad:

    __global__ void collatz(unsigned* x) {
        while (x[threadIdx.x] != 1) x[threadIdx.x] /= 2;  // never 1 when it begins with 0
    }

Good:

    __global__ void collatz(unsigned* x) {
        while (x[threadIdx.x] > 1) x[threadIdx.x] /= 2;
    }

What to do:
Look for a loop that does not end, or raise the budget.
"""

from __future__ import annotations

from gridstride.observers.checks.check import Check

CHECK = Check("GS106", "budget", ("error",), __doc__ or "", stops=True, event=True)
