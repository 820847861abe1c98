"""Where two implementations gave different results for one image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.pipeline.reference import TOLERANCE
from gridstride.pipeline.results import LIBRARY, EdgeResult


@dataclass(frozen=True)
class Difference:
    """An array of which some elements differ in their bits. first: index of the first of them, with both values there."""

    array: str
    impls: tuple[str, str]
    count: int
    size: int
    first: tuple[int, ...]
    values: tuple[Any, Any]
    largest: float

    def __str__(self) -> str:
        place = f"bin {self.first[0]}" if self.array == "histogram" else f"pixel ({self.first[1]}, {self.first[0]})"
        (one, other), (value, instead) = self.impls, self.values
        return (
            f"`{other}` differs from `{one}` in {self.count:,} of {self.size:,} values of {self.array}, by {self.largest:.3g} at most, "
            f"first at {place}: {instead} instead of {value}"
        )


def differences(one: EdgeResult, other: EdgeResult) -> list[Difference]:
    """What differs between two results of one image, in the arrays that both have: edges, histogram, output, and stages.

    Bits must be equal; where one is of `library`, whose bits are its own, stages must agree within twice the reference's tolerance, and what is
    rounded from them, which `verify` looks at, is left out.
    """
    tolerant = LIBRARY in (one.impl, other.impl)
    pairs: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {
        name: (one.floats[name], other.floats[name]) for name in one.floats if name in other.floats
    }
    if not tolerant:
        pairs |= {name: (getattr(one, name), getattr(other, name)) for name in ("edges", "histogram")}
    if one.output is not one.edges and not tolerant:
        pairs["output"] = (one.output, other.output)
    found = []
    for name, (a, b) in pairs.items():
        unequal = np.abs(a.astype(np.float64) - b) > 2 * TOLERANCE if tolerant else _bits(a) != _bits(b)
        if unequal.any():
            first = tuple(map(int, np.argwhere(unequal)[0]))
            largest = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
            impls = (one.impl, other.impl)
            found.append(Difference(name, impls, int(unequal.sum()), a.size, first, (a[first].item(), b[first].item()), largest))
    return found


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats by their bits, so that 0 and -0 differ and a NaN equals itself."""
    return np.ascontiguousarray(array).view(np.uint32) if array.dtype == np.float32 else array
