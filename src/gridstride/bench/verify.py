"""Whether the simulator's outputs are those of the C++ loops: equal bits, but for the kernels that cannot promise that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridstride.bench.cases import Array
from gridstride.runtime.request import LaunchRequest

# Relative to the largest value. On these the two sides may differ: approximate instructions here, the C library's functions there,
# and a sum of doubles whose order the program leaves open.
TOLERANCES = {"math_mix": 2e-6, "nbody_tile": 1e-4, "dot_double_atomic": 1e-12}


def difference(case: LaunchRequest, simulated: dict[int, Array], native: Sequence[Array | None]) -> str | None:
    """Say how an output differs more than it may; None if none does."""
    for index, got in simulated.items():
        want = native[index]
        assert want is not None
        wrong = _unequal(case.kernel, got, want)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            return (
                f"wrong result: argument {index} differs in {np.count_nonzero(wrong):,} of {want.size:,} elements, first in "
                f"element {first}, which is {got[first]} where the C++ loops have {want[first]}"
            )
    return None


def _unequal(kernel: str, got: Array, want: Array) -> Array:
    if kernel in TOLERANCES:
        bound = TOLERANCES[kernel] * float(np.abs(want).max())
        return ~(np.abs(got.astype(np.float64) - want) <= bound)  # written so that NaN is unequal
    bits = np.dtype(f"u{want.itemsize}")
    return np.asarray(got.view(bits) != want.view(bits))
