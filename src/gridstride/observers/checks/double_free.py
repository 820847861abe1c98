"""Memory is freed a second time, or was never allocated.

The second call would free what somebody else owns by then. In a kernel it stops the launch; in Python it raises an error.

Bad:

    __global__ void work(int* out) {
        int* scratch = (int*)malloc(64);
        if (!scratch) return;
        scratch[0] = 1;
        out[threadIdx.x] = scratch[0];
        free(scratch);
        free(scratch);
    }

Good:

    __global__ void work(int* out) {
        int* scratch = (int*)malloc(64);
        if (!scratch) return;
        scratch[0] = 1;
        out[threadIdx.x] = scratch[0];
        free(scratch);
    }

What to do:
Let one place own the memory and free it once; set a pointer to null when it is freed (freeing null does nothing).
"""

from __future__ import annotations

from dataclasses import replace

from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.observers.checks.check import Check

CHECK = Check("GS602", "double-free", ("error",), __doc__ or "")
ADVICE = "free it once; let one place own the memory"


def tell_double_free(fault: KernelFault) -> KernelFault:
    """The same fault, told as a double free where the kernel's `free` is what stopped it."""
    found = fault.fault
    if not isinstance(found, Finding) or found.kind != "out-of-bounds" or found.space is not None or "call" not in found.message:
        return fault
    message = "frees memory that is not allocated (any more)"
    return KernelFault(f"kernel `{found.kernel}`: {message}", fault.code, replace(found, message=message, advice=ADVICE))


def freed_again(array: str) -> Finding:
    """The finding for an array that Python frees a second time."""
    return Finding(CHECK.code, CHECK.kind, "error", f"{array} is freed a second time", ADVICE, "")
