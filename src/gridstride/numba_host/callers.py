"""The program that called numba: its frame, and what its variables call device arrays."""

from __future__ import annotations

import sys
from types import FrameType

from gridstride.runtime.array import Array

_NOT_THE_PROGRAM = ("numba.", "numba_cuda.", "gridstride.", "contextlib", "functools")


def callers_frame() -> FrameType | None:
    """The innermost frame of the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_NOT_THE_PROGRAM):
        frame = frame.f_back
    return frame


def variables(wanted: set[int]) -> dict[int, str]:
    """Address → a variable of the program that holds a device array there."""
    caller = callers_frame() if wanted else None
    if caller is None:
        return {}
    found: dict[int, str] = {}
    for scope in [caller.f_locals] if caller.f_locals is caller.f_globals else [caller.f_locals, caller.f_globals]:
        for name, value in list(scope.items()):
            if getattr(type(value), "__cuda_ndarray__", False) is True and not name.startswith("_"):
                address = value.device_ctypes_pointer.value
                if address in wanted:
                    found.setdefault(address, name)
    return found


def look_up(*arrays: object) -> None:
    """Let device arrays without a name be known as the program's variables that hold them."""
    storages = {a.storage.address: a.storage for a in arrays if isinstance(a, Array) and not a.storage.name and a.storage.known_as is None}
    for address, name in variables(set(storages)).items():
        storages[address].known_as = name
