"""The kernel leaves other bits behind when its blocks and warps run in another order.

Looked for with `--schedules N`: the launch is run again under N seeds, each time on the same data, and all memory is compared bit for bit. Where only
the rounding of floating-point sums differs (floating-point addition is not associative, and atomics add in the order of arrival) that is a note. Where
values differ it is a warning: either a race, which the race checks explain, or an order that the program leaves open, such as
the places that an atomic counter hands out; the finding says which block (or warp) before which other is enough to see it. A launch that is stopped under some order only is an error.

One run more is in strict lockstep, in which lanes of a warp never run apart, as on GPUs before Volta (compute capability 7.0). What ends only where
lanes run independently, such as a lane that waits for another of its warp, is a warning, and so are values that differ.

Bad:

    __global__ void last(int* winner) {
        if (threadIdx.x == 0) *winner = blockIdx.x;  // whoever comes last
    }

Good:

    __global__ void last(int* winner) {
        if (threadIdx.x == 0) atomicMax(winner, (int)blockIdx.x);
    }

What to do:
The finding names the seed: run again with `--seed` to see the other result. Give each result to one thread, use an operation whose order does not
matter (integer sums, minimum, maximum), or sum floating-point numbers in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.findings import Dim3, Finding
from gridstride.observers.checks.check import Check
from gridstride.observers.checks.scene import dim, unravel

CHECK = Check("GS502", "order-dependent", ("warning", "note", "error"), __doc__ or "", optional=True)

# Relative to the largest magnitude in the buffer: what summing in another order can do to some thousands of terms, and far below a wrong value.
_ROUNDING = {2: 2e-2, 4: 1e-4, 8: 1e-11}


@dataclass(frozen=True)
class Difference:
    """How two results of one buffer differ. elements: how many do; first: index of the first; rounding: only in rounding.

    relative: the largest difference relative to the largest magnitude; None for anything that is no floating-point number.
    """

    elements: int
    first: int
    rounding: bool
    relative: float | None

    @property
    def rank(self) -> tuple[bool, float]:
        """Larger for what is worse."""
        return not self.rounding, self.relative or 0.0


def difference(natural: npt.NDArray[Any], other: npt.NDArray[Any]) -> Difference | None:
    """How `other` differs from `natural` (two results of one buffer, in its type); None where all bits agree."""
    wrong = np.flatnonzero((_bits(natural) != _bits(other)).any(axis=1))
    if wrong.size == 0:
        return None
    first, relative = int(wrong[0]), None
    if natural.dtype.kind in "fc":
        a, b = natural.reshape(-1)[wrong], other.reshape(-1)[wrong]
        finite = np.isfinite(natural.reshape(-1))
        with np.errstate(all="ignore"):
            largest = float(np.abs(natural.reshape(-1)[finite]).max(initial=0.0))
            apart = float(np.abs(a.astype(np.complex128) - b.astype(np.complex128)).max())
        relative = apart / largest if largest else float("inf")
        if not np.isfinite(relative):
            relative = float("inf")
    size = natural.dtype.itemsize // (2 if natural.dtype.kind == "c" else 1)
    return Difference(int(wrong.size), first, relative is not None and relative <= _ROUNDING.get(size, 0.0), relative)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def tell_difference(kernel: str, buffer: str, elements: int, found: Difference, seed: int, schedules: int, differing: int, address: int, change: str = "") -> Finding:
    """The finding for one buffer: `differing` of `schedules` seeds gave other bits than the natural order, `seed` the one with the largest difference.

    change: what of that seed's order is enough (`tell_change`)."""
    of = f"{found.elements:,} of {elements:,} elements"
    seeds = f"with seed {seed}" if differing == 1 else f"with {differing} of {schedules} seeds (most with {seed})"
    if found.rounding:
        message = (
            f"`{buffer}` depends on the order of execution by floating-point rounding only: {of} differ {seeds}, by {found.relative:.1e} "
            "of the largest value at most"
        )
        advice = "nothing, if that much rounding is fine; else sum in a fixed order"
    else:
        size = f", by up to {found.relative:.1e} of the largest" if found.relative is not None and np.isfinite(found.relative) else ""
        message = f"`{buffer}` depends on the order of execution: the values of {of} differ {seeds}, the first at [{found.first:,}]{size}{f'; {change}' if change else ''}"
        advice = f"look for a race (`--checks race-shared,race-global`), or make the result independent of who comes first; replay with --seed {seed}"
    return Finding(
        code=CHECK.code,
        kind=CHECK.kind,
        severity="note" if found.rounding else "warning",
        message=message,
        advice=advice,
        kernel=kernel,
        space="global",
        buffer=buffer,
        index=found.first,
        address=address,
        count=found.elements,
    )


def tell_change(what: str, first: int, second: int, moved: int, grid: Dim3) -> str:
    """What is enough to see the other result: one block (or one warp of each block) before another. moved: others that are not where they usually are."""
    if what == "blocks":
        pair = f"block {dim(unravel(first, grid))} runs before block {dim(unravel(second, grid))}"
    else:
        pair = f"warp {first} of each block runs before warp {second}"
    return f"it is enough that {pair}, all else in the usual order" if not moved else f"what makes the difference is that {pair}, with {moved:,} other {what} out of their places"


def tell_other_model(kernel: str, buffer: str, elements: int, found: Difference, address: int) -> Finding:
    """The finding for one buffer that strict lockstep leaves in another state."""
    only = ", by floating-point rounding only" if found.rounding else f", the first at [{found.first:,}]"
    return Finding(
        code=CHECK.code,
        kind=CHECK.kind,
        severity="note" if found.rounding else "warning",
        message=f"`{buffer}` depends on the execution model: {found.elements:,} of {elements:,} elements differ in strict lockstep{only}",
        advice="put __syncwarp() where lanes of a warp hand each other values; replay with --lockstep",
        kernel=kernel,
        space="global",
        buffer=buffer,
        index=found.first,
        address=address,
        count=found.elements,
    )


def stopped_in_lockstep(kernel: str, reason: str) -> Finding:
    """The finding for a launch that strict lockstep stops and independent lanes do not."""
    message = f"in strict lockstep, as on GPUs before Volta, the kernel is stopped, though it ends where lanes run independently: {reason}"
    advice = "nothing, if it runs on compute capability 7.0 or newer only; else let no lane wait for another of its warp; replay with --lockstep"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, kernel)


def stopped_under(kernel: str, seed: int, reason: str) -> Finding:
    """The finding for a launch that one order of execution stops and the natural one does not."""
    message = f"with seed {seed} the kernel is stopped, though it ends in the natural order: {reason}"
    return Finding(CHECK.code, CHECK.kind, "error", message, f"replay with --seed {seed}; the fault depends on who comes first", kernel)
