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
from gridstride.observers.checks.scene import place

CHECK = Check("GS602", "double-free", ("error",), __doc__ or "")
ADVICE = "free it once; let one place own the memory"


def tell_double_free(fault: KernelFault) -> KernelFault:
    """The same fault, told as a double free where it is a kernel's call of `free` that was stopped (it accesses no bytes)."""
    found = fault.fault
    if not isinstance(found, Finding) or found.kind != "out-of-bounds" or not found.message.startswith("updates 0 bytes"):
        return fault
    what = f"`{found.buffer}`" if found.buffer and found.index == 0 else f"{found.address:#x}"
    where = place(found.site)
    message = f"frees {what}, which the device's heap did not give out, or which was freed before" + (f" ({where})" if where else "")
    told = replace(found, code=CHECK.code, kind=CHECK.kind, message=message, advice=ADVICE, space="global", index=None)
    if found.index != 0:
        told = replace(told, buffer=None)
    retold = KernelFault(f"kernel `{found.kernel}`: {message}", fault.code, told)
    retold.raw_findings = fault.raw_findings
    return retold


def freed_again(array: str) -> Finding:
    """The finding for an array that Python frees a second time."""
    return Finding(CHECK.code, CHECK.kind, "error", f"{array} is freed a second time", ADVICE, "")
