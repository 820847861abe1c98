"""What the caller calls an array, so that a message can say `y[1000]` instead of an address."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from gridstride.runtime.array import Array
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.storage import Storage

_MOST_PIECES = 1 << 16


class Buffers(dict[int, str]):
    """The arrays that a launch was given: allocation address → name. extents: offset of the parameter → the addresses
    from the first byte of the array (or view) to behind its last."""

    extents: dict[int, tuple[int, int]]


def buffer_names(parameters: Sequence[KernelParameter], arguments: Sequence[Any], caller: FrameType | None) -> Buffers:
    """Allocation address → name for every array passed.

    In this order: the array's own name, a variable of the caller (one that holds the whole allocation before one that
    holds a view), the kernel's parameter.
    """
    names = Buffers()
    names.extents = {}
    unnamed: dict[int, tuple[Storage, str]] = {}
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, Array):
            storage = argument.storage
            names.extents[parameter.offset] = _extent(argument)
            if storage.name:
                names[storage.address] = storage.name
            else:
                unnamed.setdefault(storage.address, (storage, parameter.name))
    if unnamed and caller is not None:
        variables = _variables(caller, [storage for storage, _ in unnamed.values()])
        for address, (storage, _) in unnamed.items():
            storage.known_as = variables.get(address, storage.known_as)
        names.update({address: variables.get(address, parameter) for address, (_, parameter) in unnamed.items()})
    else:
        names.update({address: parameter for address, (_, parameter) in unnamed.items()})
    return names


def _extent(array: Array) -> tuple[int, int]:
    """The addresses that an array's elements take up, from the first to behind the last."""
    if array.size == 0:
        return array.address, array.address
    spans = extent_of(array)
    return min(low for low, _ in spans), max(high for _, high in spans)


def extent_of(array: Any) -> list[tuple[int, int]]:
    """The spans of addresses under an array's elements (a device array or a NumPy array), one a piece where there are gaps between them."""
    address = array.address if isinstance(array, Array) else int(array.ctypes.data)
    steps = sorted(((abs(s), n, s) for n, s in zip(array.shape, array.strides, strict=True) if n > 1), reverse=True)
    low = address + sum((n - 1) * s for _, n, s in steps if s < 0)
    width = array.dtype.itemsize
    while steps and steps[-1][0] <= width:  # elements that follow each other without a gap
        width += (steps[-1][1] - 1) * steps[-1][0]
        steps.pop()
    if math.prod(n for _, n, _ in steps) > _MOST_PIECES:
        return [(low, low + width + sum((n - 1) * step for step, n, _ in steps))]
    starts = [low]
    for step, n, _ in steps:
        starts = [start + k * step for start in starts for k in range(n)]
    return [(start, start + width) for start in starts]


def look_up(arrays: Iterable[Any], caller: FrameType) -> None:
    """Let arrays without a name be known as the caller's variables that hold them."""
    storages = [a.storage for a in arrays if isinstance(a, Array) and not a.storage.name and a.storage.known_as is None]
    if storages:
        found = _variables(caller, storages)
        for storage in storages:
            storage.known_as = found.get(storage.address)


def _variables(frame: FrameType, storages: Iterable[Storage]) -> dict[int, str]:
    wanted = {id(storage): storage.address for storage in storages}
    views: dict[int, str] = {}
    wholes: dict[int, str] = {}
    scopes = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
    for scope in scopes:
        for name, value in list(scope.items()):
            if isinstance(value, Array) and id(value.storage) in wanted and not name.startswith("_"):
                found = views if value.is_view else wholes
                found.setdefault(wanted[id(value.storage)], name)
    return views | wholes
