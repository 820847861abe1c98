"""Memory that a kernel allocated is still there when the checked part of the program ends.

`malloc` and `new` in a kernel take memory from the device's heap, which is small (8 MB unless set otherwise) and which nobody else gives back. Arrays that
Python made are freed with their owner and are no leaks.

Bad:

    __global__ void work(int* out) {
        int* scratch = (int*)malloc(64 * sizeof(int));
        if (!scratch) return;
        scratch[0] = threadIdx.x;
        out[threadIdx.x] = scratch[0];
    }

Good:

    __global__ void work(int* out) {
        int* scratch = (int*)malloc(64 * sizeof(int));
        if (!scratch) return;
        scratch[0] = threadIdx.x;
        out[threadIdx.x] = scratch[0];
        free(scratch);
    }

What to do:
Free what the kernel allocated, in this kernel or a later one; or pass in a buffer that was allocated before.
"""

from __future__ import annotations

from collections.abc import Sequence

from gridstride.findings import Finding
from gridstride.machine.memory import Allocation
from gridstride.observers.checks.check import Check

CHECK = Check("GS601", "leak", ("warning",), __doc__ or "")
HEAP_NAME = "device-side malloc"  # what the machine calls an allocation of the device's heap


def tell_leaks(kernel: str, left: Sequence[Allocation]) -> Finding | None:
    """The finding for allocations of the device's heap that `kernel` made and nobody freed; None where there are none."""
    if not left:
        return None
    total = sum(a.size for a in left)
    one = len(left) == 1
    message = f"{len(left):,} allocation{'' if one else 's'} of the device's heap ({total:,} bytes) {'was' if one else 'were'} never freed"
    advice = "free what the kernel allocates, or pass in a buffer"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, kernel, space="global", address=left[0].address, count=len(left))
