"""A thread reads or writes outside any live allocation, and is stopped.

Every access is looked at, in every space: global, shared, local, constant and parameter memory, wholly inside or not at all. A null pointer
and memory that was freed count as outside. Between allocations lie unused bytes, so that running over an end is not taken for the neighbour.

An argument that is a view of a larger array is held to the view's own bytes in a launch that is checked (`check`, `--checks`, `gs.checking()`), as far as
the compiled code shows which argument an address is made from. In other launches the bounds are those of the whole allocation: looking for them at each
access would cost every run.

Bad:

    __global__ void scale(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        x[i] *= 2.0f;  // the last block reaches past n
    }

Good:

    __global__ void scale(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 2.0f;
    }

What to do:
Guard the access with the buffer's length, or make the buffer as large as the grid reaches. Compute indices of large buffers in 64 bits.
Free memory only when no kernel uses it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.machine.memory import Allocation
from gridstride.observers.checks.check import Check

CHECK = Check("GS101", "out-of-bounds", ("error",), __doc__ or "", always=True, stops=True)


def tell_use_after_free(fault: KernelFault, freed: Sequence[Allocation]) -> KernelFault:
    """The same fault, told as a use after free where the address lies in one of the allocations `freed` (the latest last)."""
    found = fault.fault
    if not isinstance(found, Finding) or found.kind != CHECK.kind or found.space != "global" or found.address is None:
        return fault
    address = found.address
    former = next((a for a in reversed(freed) if a.address <= address < a.address + a.size), None)
    if former is None:
        return fault
    verb = next((verb for verb in ("writes", "updates") if found.message.startswith(verb)), "reads")
    where = found.message[_start_of_place(found.message) :] if found.message.endswith(")") else ""
    what = f"`{former.name}`, which was freed," if former.name else "memory that was freed,"
    message = f"{verb} {what} at byte {address - former.address:,} of its {former.size:,} {where}".rstrip()
    told = replace(found, message=message, buffer=former.name or None, index=None, advice="free memory only after the last kernel that uses it")
    retold = KernelFault(str(fault).replace(found.message, message), fault.code, told)
    retold.raw_findings = fault.raw_findings
    return retold


def _start_of_place(message: str) -> int:
    """Where the parenthesis that ends a message begins."""
    depth = 0
    for k in range(len(message) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(message[k], 0)
        if depth == 0:
            return k
    return len(message)
