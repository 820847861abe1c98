"""A launch or a copy was asked for in a way that cannot work.

The wrong number of arguments, one that does not fit its parameter, a host array where device memory belongs, an array of another device, an array that was
freed. Nothing runs: the call raises an error, and inside `gs.checking()` it is kept as a finding too.

Bad:

    // saxpy[blocks, 256](n, 2.0, host_x, y): host_x is a NumPy array
    __global__ void saxpy(int n, float a, const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = a * x[i] + y[i];
    }

Good:

    // x = device.array(host_x); saxpy[blocks, 256](n, 2.0, x, y)
    __global__ void saxpy(int n, float a, const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = a * x[i] + y[i];
    }

What to do:
The message names the argument, its parameter and what would fit.
"""

from __future__ import annotations

from gridstride.findings import Finding
from gridstride.observers.checks.check import Check

CHECK = Check("GS603", "api", ("error",), __doc__ or "")


def tell(kernel: str, reason: str) -> Finding:
    """The finding for a call that was refused."""
    return Finding(CHECK.code, CHECK.kind, "error", reason, "pass what the kernel's parameters ask for", kernel)
