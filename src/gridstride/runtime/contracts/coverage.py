"""The outputs of one launch of which each element belongs to one thread: what native code has to watch, and what its notes say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridstride.findings import Finding
from gridstride.machine.launch_options import Covered, Writers
from gridstride.observers.checks import double_write
from gridstride.observers.checks.scene import Scene
from gridstride.runtime.array import Array
from gridstride.runtime.names import extent_of

if TYPE_CHECKING:
    from gridstride.runtime.contracts.bound import BoundContract


@dataclass(frozen=True)
class Output:
    """One output of a launch. inside: of each element (in the array's order) whether it belongs to the extent.

    complete: every element of the extent has to be written (`covers`), not only by no two threads (`writes_once`).
    """

    parameter: str
    array: Array
    inside: npt.NDArray[np.bool_]
    complete: bool

    @property
    def elements(self) -> int:
        """Elements of the extent."""
        return int(self.inside.sum())

    @property
    def watched(self) -> Covered:
        """The addresses, in units that neither elements nor steps between them cut."""
        spans = extent_of(self.array)
        unit = math.gcd(self.array.dtype.itemsize, *self.array.strides)
        return Covered(min(low for low, _ in spans), max(high for _, high in spans), unit)

    def findings(self, kernel: str, writers: Writers, scene: Scene, name: str) -> list[Finding]:
        """What is wrong with who wrote what; two threads at one element were found as it happened."""
        watched = self.watched
        units = self._units(watched)
        written = writers.blocks >= 0
        found = []
        if self.complete:
            left_out = self.inside & ~written[units].all(axis=1)
            if left_out.any():
                address = watched.low + int(units[np.argmax(left_out), 0]) * watched.unit
                found.append(double_write.left_out(kernel, name, left_out, self.inside, self.array.shape, address))
        allowed = np.zeros(len(written), np.bool_)
        allowed[units[self.inside]] = True
        outside = np.flatnonzero(written & ~allowed)
        if outside.size:
            first = int(outside[0])
            where = np.flatnonzero((units == first).any(axis=1))
            site = scene.site(int(writers.sites[first]), int(writers.blocks[first]), int(writers.threads[first]))
            index = int(where[0]) if where.size else None
            address = watched.low + first * watched.unit
            found.append(double_write.outside(kernel, name, index, self.elements, outside.size, address, site))
        return found

    def _units(self, watched: Covered) -> npt.NDArray[np.int64]:
        """For each element the units that it is made of, a row each."""
        array = self.array
        offsets = np.full((1,) * array.ndim, array.address - watched.low, np.int64)
        for axis, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            offsets = offsets + (np.arange(extent, dtype=np.int64) * stride).reshape([-1 if k == axis else 1 for k in range(array.ndim)])
        first = offsets.reshape(-1, 1) // watched.unit
        return first + np.arange(array.dtype.itemsize // watched.unit, dtype=np.int64)


def outputs_of(bound: BoundContract, arguments: Sequence[Any]) -> tuple[Output, ...]:
    """The outputs of a launch that a contract speaks about; those given as a bare address cannot be watched and are left out."""
    scalars = bound.scalars(arguments)
    found = []
    for name in bound.contract.outputs:
        array = bound.argument(name, arguments)
        if isinstance(array, Array) and array.size:
            found.append(Output(name, array, _inside(array, bound.elements(name, scalars)), name in bound.contract.covers))
    return tuple(found)


def _inside(array: Array, extent: tuple[int, ...] | None) -> npt.NDArray[np.bool_]:
    """Which elements an extent (x, y, z) means: of an array with gaps between its rows the box at its start, else the first so many."""
    inside = np.zeros(array.shape, np.bool_)
    if extent is None:
        inside[...] = True
    elif array.contiguous or len(extent) != array.ndim:
        inside.reshape(-1)[: math.prod(extent)] = True
    else:
        inside[tuple(slice(n) for n in reversed(extent))] = True
    return inside.reshape(-1)
