"""An output of which each element belongs to one thread has an element that two threads write, or that none does.

A launch contract says which outputs these are: `covers=y` (every element of the extent is written, by exactly one thread, and nothing outside of it)
or `writes_once=y` (no element by two threads; some may be left out). It stands above the kernel, as below, or is given by `--covers y` and
`gs.Contract`; where no contract speaks of a launch, this check has nothing to look at. Atomic updates count as writes, several writes by one thread
are one, barriers between two threads change nothing, and vector accesses count for every element that they touch. Two threads that write different
bytes of one element share it.

Bad:

    // gridstride: contract extent=n covers=y
    __global__ void copy(const float* x, float* y, int n) {
        int i = blockIdx.x * 224 + threadIdx.x;  // blocks have 256 threads: neighbouring blocks overlap
        if (i < n) y[i] = x[i];
    }

Good:

    // gridstride: contract extent=n covers=y
    __global__ void copy(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i];
    }

What to do:
Make the index from the sizes that the launch really has (`blockDim.x`), give each thread elements of its own, and round the number of blocks up. To see
that a kernel does so for sizes around the borders of its blocks too, let `gridstride prove` run it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridstride.findings import Finding, Site
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.check import Check, Told
from gridstride.observers.checks.races import sides
from gridstride.observers.checks.scene import Scene, place


def tell(raw: RawFinding, scene: Scene) -> Told:
    """One sentence with both threads."""
    advice = "give each element to one thread: make the index from blockIdx, blockDim and threadIdx in every dimension that is launched"
    return Told("error", sides(raw, scene, "the contract gives each element to one thread"), advice)


def left_out(
    kernel: str, buffer: str, which: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_], shape: tuple[int, ...], address: int
) -> Finding:
    """The error for elements of the extent (`inside`) that no thread has written (`which`); one flag an element of an array of `shape`."""
    count, total, first = int(which.sum()), int(inside.sum()), int(np.argmax(which))
    where = f"`{buffer}`[{first:,}]"
    if len(shape) > 1:
        where += f" ({', '.join(str(int(k)) for k in np.unravel_index(first, shape))})"
    if count == total:
        message = f"no thread writes {where}" + (", its only element" if total == 1 else f" or any other of its {total:,} elements")
    else:
        message = f"no thread writes {where}" + (f" of {total:,} elements" if count == 1 else f", the first of {count:,} elements left out of {total:,}")
    advice = "let the threads reach every element: round the number of blocks up, and look at the guard and the index"
    return Finding(CHECK.code, CHECK.kind, "error", message, advice, kernel, space="global", buffer=buffer, index=first, address=address)


def outside(kernel: str, buffer: str, index: int | None, total: int, count: int, address: int, site: Site) -> Finding:
    """The error for writes to an output outside of the contract's extent; index: of the first one, None between the elements."""
    where = f"`{buffer}`[{index:,}]" if index is not None else f"`{buffer}` between its rows"
    more = f", one of {count:,} such places" if count > 1 else ""
    seen = place(site)
    message = f"a thread writes {where}, outside of the {total:,} elements of the contract{more}{f' ({seen})' if seen else ''}"
    advice = "let the guard hold back threads beyond the extent, or say in the contract how many elements there are"
    return Finding(CHECK.code, CHECK.kind, "error", message, advice, kernel, site, space="global", buffer=buffer, index=index, address=address)


CHECK = Check("GS503", "double-write", ("error",), __doc__ or "", native=True, declared=True, tell=tell)
