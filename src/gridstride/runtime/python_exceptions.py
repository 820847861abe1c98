"""Exceptions that kernels written in Python raise (`@cuda.jit(debug=True)`): what they left on the device, as a fault with its place.

A thread that raises ends, and the first one leaves a code and its indices in variables of the module; the others go on. numba-cuda reads them
after the launch (`numba/cuda/dispatcher.py`, `_Kernel.launch`), and so is it done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridstride.errors import KernelFault
from gridstride.findings import Finding, Site
from gridstride.frontends.python_function import RaisedException
from gridstride.machine.fault import place_of

if TYPE_CHECKING:
    from gridstride.runtime.module import Kernel

_UNKNOWN = RaisedException("builtins.RuntimeError", ("an exception that the compiler did not name",))


def may_raise(kernel: Kernel) -> bool:
    """Whether the kernel was compiled so that it notes exceptions down."""
    python = kernel.module.source.python
    return python is not None and python.function.options.debug


def require_none(kernel: Kernel) -> None:
    """Raise KernelFault where a thread of the kernel's last launch, which has ended, raised an exception."""
    if (fault := raised(kernel)) is not None:
        raise fault


def raised(kernel: Kernel) -> KernelFault | None:
    """The exception that a thread of the kernel's last launch raised, forgotten with this call."""
    python = kernel.module.source.python
    if python is None or not may_raise(kernel):
        return None
    code = _read(kernel, "errcode")
    if code == 0:
        return None
    error = python.exceptions.get(code, _UNKNOWN)
    block, thread = (tuple(_read(kernel, f"{what}{axis}") for axis in "xyz") for what in ("ctaid", "tid"))
    storage = kernel.module.variables[f"{python.entry}__errcode__"]
    storage.memory.write(storage.address, np.zeros(4, np.uint8))
    fault = KernelFault(*_told(kernel, error, block, thread))
    fault.raised = error
    return fault


def _read(kernel: Kernel, name: str) -> int:
    storage = kernel.module.variables[f"{kernel.entry}__{name}__"]
    return int(storage.memory.read(storage.address, 4).view(np.int32)[0])


def _told(kernel: Kernel, error: RaisedException, block: tuple[int, ...], thread: tuple[int, ...]) -> tuple[str, str, Finding]:
    """Message, code and finding of an exception."""
    text = ", ".join(map(str, error.arguments))
    if error.kind == "builtins.AssertionError":
        code, kind, what = "GS104", "assert", f"an assertion does not hold{f': {text}' if text else ''}"
        advice = "the condition in the source is false for this thread"
    else:
        code, kind, what = "GS103", "trap", f"raises {error.kind.removeprefix('builtins.')}{f': {text}' if text else ''}"
        advice = "look at what leads this thread to the exception"
    site = Site(error.file or None, error.line or None, None, (block[0], block[1], block[2]), (thread[0], thread[1], thread[2]))
    finding = Finding(code, kind, "error", f"{what} ({place_of(site)})", advice, kernel.name, site, None, None, None, None, None, 1)
    return f"kernel `{kernel.name}`: {finding.message}", kind, finding
