"""Functions of the host that a GPU's streams call: CUDA knows one function, and a number says which of ours it is about."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import count
from typing import Any

from gridstride.errors import GridstrideError, UsageError
from gridstride.runtime.commands import HostCall
from gridstride.runtime.gpu_context import GpuContext


@dataclass(frozen=True)
class _Registered:
    context: GpuContext
    command: HostCall
    once: bool


_registered: dict[int, _Registered] = {}
_numbers = count(1)


def register(context: GpuContext, command: HostCall, *, once: bool) -> int:
    """A number for a function, to be handed to CUDA beside `CALLBACK`. once: it is forgotten when it was called."""
    number = next(_numbers)
    _registered[number] = _Registered(context, command, once)
    return number


def forget(number: int) -> None:
    _registered.pop(number, None)


def _call(number: int | None) -> None:
    """What CUDA calls, on a thread of its own. What the function raises is told at the next call that waits."""
    found = _registered.get(number or 0)
    if found is None:
        return
    if found.once:
        forget(number or 0)
    health = found.context.health
    if health.failure is not None:
        return
    with found.context.host_function():
        try:
            found.command.function(*found.command.arguments)
        except GridstrideError as error:
            health.raised(error)
        except BaseException as error:  # noqa: BLE001 - nobody is above us who could get it
            failure = UsageError(f"{found.command.what} raised {type(error).__name__}: {error}")
            failure.__cause__ = error
            health.raised(failure)


_KEPT: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_call)  # for as long as the process: CUDA may call it at any time
CALLBACK: int = ctypes.cast(_KEPT, ctypes.c_void_p).value or 0
