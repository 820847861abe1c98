"""What the caller calls an array, so that a message can say `y[1000]` instead of an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from gridstride.runtime.array import Array, Storage
from gridstride.runtime.parameters import KernelParameter


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
        names.update({address: variables.get(address, parameter) for address, (_, parameter) in unnamed.items()})
    else:
        names.update({address: parameter for address, (_, parameter) in unnamed.items()})
    return names


def _extent(array: Array) -> tuple[int, int]:
    """The addresses that an array's elements take up."""
    if array.size == 0:
        return array.address, array.address
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = array.address + sum(s for s in steps if s < 0)
    return low, array.address + sum(s for s in steps if s > 0) + array.dtype.itemsize


def _variables(frame: FrameType, storages: Iterable[Storage]) -> dict[int, str]:
    wanted = {id(storage): storage.address for storage in storages}
    views: dict[int, str] = {}
    wholes: dict[int, str] = {}
    scopes = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
    for scope in scopes:
        for name, value in list(scope.items()):
            if type(value) is Array and id(value.storage) in wanted and not name.startswith("_"):
                found = views if value.is_view else wholes
                found.setdefault(wanted[id(value.storage)], name)
    return views | wholes
