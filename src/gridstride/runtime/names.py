"""What the caller calls an array, so that a message can say `y[1000]` instead of an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from gridstride.runtime.array import Array, Storage
from gridstride.runtime.parameters import KernelParameter


def buffer_names(parameters: Sequence[KernelParameter], arguments: Sequence[Any], caller: FrameType | None) -> dict[int, str]:
    """Allocation address → name for every array passed.

    In this order: the array's own name, a variable of the caller (one that holds the whole allocation before one that
    holds a view), the kernel's parameter.
    """
    names: dict[int, str] = {}
    unnamed: dict[int, tuple[Storage, str]] = {}
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, Array):
            storage = argument.storage
            if storage.name:
                names[storage.address] = storage.name
            else:
                unnamed.setdefault(storage.address, (storage, parameter.name))
    if unnamed and caller is not None:
        variables = _variables(caller, [storage for storage, _ in unnamed.values()])
        names |= {address: variables.get(address, parameter) for address, (_, parameter) in unnamed.items()}
    else:
        names |= {address: parameter for address, (_, parameter) in unnamed.items()}
    return names


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
