"""A value that nobody wrote decides something: a branch, an address, an output, a result that the host reads.

Memory that was never written holds whatever was there before: global memory after an allocation, shared memory at the start of a block, local arrays
and registers. Copying such bytes around is no error, and neither is loading them along with others (padding of structures, wide loads):
each byte is followed until something depends on it. An output that the host reads and of which no thread wrote some elements is found too; one that
holds copies of memory that nobody wrote is a warning. A finding names the memory that the value was loaded from, as far as that is known; a variable in a
register that no path has given a value counts where it decides something, and so does memory that an atomic counts on without anybody having zeroed it.

Bad:

    __global__ void threshold(float* out) {
        __shared__ float s[256];
        if (threadIdx.x < 128) s[threadIdx.x] = 1.0f;
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x] > 0.5f ? 2.0f : 3.0f;  // half of s was never written
    }

Good:

    __global__ void threshold(float* out) {
        __shared__ float s[256];
        s[threadIdx.x] = threadIdx.x < 128 ? 1.0f : 0.0f;
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x] > 0.5f ? 2.0f : 3.0f;
    }

What to do:
Write the memory before it is read: copy the input into the buffer, zero it, or let a thread write every element. For an output that stays unwritten, see
that the grid reaches all of it: round the number of blocks up.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from gridstride.findings import Finding, Severity
from gridstride.machine.raw_findings import REGISTER, RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.scene import Scene, Target, place

NEVER, COPIED = 0xFF, 0x01
"""States of a byte in the shadow of memory (`Memory.definedness`): nobody has written it; it is a copy of such a byte."""
_USES = {
    "branch": "a branch depends on",
    "address": "an address is made from",
    "decision": "a comparison or selection depends on",
    "output": "an output is made from",
    "update": "an atomic changes",
}
_ADVICE = {
    "shared": "write every element of the shared array that is read, and put a barrier between",
    "local": "give the variable or the array a value before it is read",
}


def tell(raw: RawFinding, scene: Scene) -> Told:
    """One sentence with what depends on the value and where it came from."""
    here = scene.site(raw.site, raw.block, raw.thread)
    origin = scene.site(raw.origin_site)
    what = "a variable that was never given a value" if raw.origin_site == REGISTER else "a value that was never written"
    if raw.space:
        target = scene.target(raw.space, raw.address, raw.bytes)
        what += f", loaded from {_described(target)}"
    came = ""
    if raw.origin_site >= 0 and raw.origin_site != raw.site and (origin.file, origin.line) != (here.file, here.line):
        came = f"; it was read at {place(origin)}"
    where = place(here)
    if raw.origin_site == REGISTER:
        advice = "give the variable a value on every path that leads here"
    else:
        advice = _ADVICE.get(raw.space, "copy data into the buffer or zero it before the launch, or see that a thread writes it first")
    message = f"{_USES.get(raw.detail, 'something depends on')} {what}{came}{f' ({where})' if where else ''}"
    return Told(cast(Severity, raw.severity), message, advice)


def _described(target: Target) -> str:
    if target.buffer is not None:
        return f"{target} in {target.space} memory"
    return f"{target.space} memory" if target.space == "local" else str(target)


def unwritten_output(kernel: str, buffer: str, never: npt.NDArray[np.bool_], address: int) -> Finding:
    """The error for an output that the host reads and of which nobody wrote some elements (`never`, one flag an element)."""
    return _output(
        kernel,
        buffer,
        never,
        address,
        "error",
        "were never written",
        "let a thread write every element (round the number of blocks up, not down), or fill the buffer before the launch",
    )


def copied_output(kernel: str, buffer: str, copied: npt.NDArray[np.bool_], address: int) -> Finding:
    """The warning for an output of which some elements are copies of memory that was never written: legal, but nothing to go on."""
    what = "are copies of memory that was never written"
    return _output(kernel, buffer, copied, address, "warning", what, "write the memory that is copied, or leave these elements alone")


def _output(kernel: str, buffer: str, which: npt.NDArray[np.bool_], address: int, severity: Severity, what: str, advice: str) -> Finding:
    total, count, first = which.size, int(which.sum()), int(np.argmax(which))
    if count == total:
        elements = "its one element" if total == 1 else f"all of its {total:,} elements"
    elif which[first:].all():
        elements = f"its last {count:,} of {total:,} elements"
    else:
        elements = f"{count:,} of its {total:,} elements (the first at [{first:,}])"
    return Finding(
        code=CHECK.code,
        kind=CHECK.kind,
        severity=severity,
        message=f"the host reads `{buffer}`, but {elements} {what}",
        advice=advice,
        kernel=kernel,
        space="global",
        buffer=buffer,
        index=first,
        address=address,
        count=count,
    )


CHECK = Check("GS301", "uninitialised", ("error", "warning"), __doc__ or "", native=True, tell=tell)
