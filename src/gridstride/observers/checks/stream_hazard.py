"""Two operations of different streams, or one and the host, work on the same bytes with nothing that says which comes first.

A copy or kernel that uses a buffer which another stream may still be reading or writing needs an event between them (`stream.wait(event)`) or a wait of the
host. The order is that of CUDA: within a stream operations follow each other; the legacy default stream waits for all blocking streams and they for it; what
the host has waited for is past. What a kernel touched is known to the four bytes, so that parts of one buffer may be used side by side (a warning where they meet within
four bytes). Atomics of two kernels do not mind each other. The host's own access
to pinned or managed memory that a copy or kernel in flight uses is one too. An asynchronous copy of pageable memory is a warning: it is not asynchronous.

Bad:

    // copied.record() stands before the copy: the kernel's stream waits for nothing
    // event = copies.record(); x.copy_from(staged, stream=copies); work.wait(event); scale[1, 32](x, stream=work)
    __global__ void scale(float* x) {
        x[threadIdx.x] *= 2.0f;
    }

Good:

    // x.copy_from(staged, stream=copies); event = copies.record(); work.wait(event); scale[1, 32](x, stream=work)
    __global__ void scale(float* x) {
        x[threadIdx.x] *= 2.0f;
    }

What to do:
Record an event behind the first operation in its stream and let the other stream wait for it; or give each stream a buffer of its own.
"""

from __future__ import annotations

from gridstride.events.hazards import Hazard
from gridstride.findings import Finding, Severity
from gridstride.observers.checks.check import Check

CHECK = Check("GS701", "stream-hazard", ("error", "warning"), __doc__ or "")


WORD = 4
"""Bytes to which it is known what kernels touch."""


def tell(hazard: Hazard, buffer: str | None, index: int | None, itemsize: int = WORD) -> Finding:
    """The finding for two operations at once on `buffer`, from element `index` on, whose elements have `itemsize` bytes."""
    earlier, later = hazard.earlier, hazard.later
    place = f"`{buffer}`" + (f"[{index}]" if index is not None else "") if buffer else f"{hazard.nbytes} bytes at {hazard.address:#x}"
    if later is None:
        message = f"the host {hazard.how[1]} {place} while {earlier.what} in {earlier.stream} may still be under way, which {hazard.how[0]} it"
        advice = f"wait first: {earlier.stream}.synchronize(), or the synchronize() of an event recorded behind it"
    else:
        message = (
            f"{later.what} in {later.stream} {hazard.how[1]} {place}, which {earlier.what} in {earlier.stream} {hazard.how[0]}, "
            "and nothing says which comes first"
        )
        advice = f"record an event in {earlier.stream} behind it and let {later.stream} wait for it, or use a buffer for each stream"
    kernel = (later.kernel if later is not None else "") or earlier.kernel
    unsure = itemsize < WORD and hazard.nbytes <= WORD and bool(earlier.kernel or kernel)
    if unsure:
        message += "; they meet in four bytes at most, and what kernels touch is not known any closer"
    severity: Severity = "warning" if unsure else "error"
    return Finding(CHECK.code, CHECK.kind, severity, message, advice, kernel, buffer=buffer, index=index, address=hazard.address, space="global")


def pageable(what: str, stream: str, buffer: str | None) -> Finding:
    """The finding for an asynchronous copy of pageable memory."""
    message = f"{what} in {stream} is asked for asynchronously, but the host's memory is pageable: the call waits until it is copied"
    advice = "allocate the host's side with device.pinned(…), so that the copy runs beside other work"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, "", buffer=buffer)
