"""Gridstride: run CUDA kernels on any machine.

    import gridstride as gs

    device = gs.device()
    saxpy = device.compile("saxpy.cu")["saxpy"]
    x, y = device.array(host_x), device.array(host_y)
    saxpy[blocks, 256](n, 2.0, x, y)
    y.numpy()

Names that need NumPy are loaded when they are first asked for, so that `gridstride --help` and programs that only want the errors start at once.
"""

import importlib
from typing import TYPE_CHECKING

from gridstride.errors import (
    CompileError,
    ContractError,
    GridstrideError,
    KernelFault,
    LaunchError,
    ParseError,
    UnsupportedError,
    UsageError,
)
from gridstride.findings import Finding, Site

if TYPE_CHECKING:
    from gridstride.frontends.includes import include_folder
    from gridstride.runtime import lazy
    from gridstride.runtime.array import Array
    from gridstride.runtime.checking import Findings, checking
    from gridstride.runtime.contracts.contract import Contract, contract
    from gridstride.runtime.contracts.proof import Proof
    from gridstride.runtime.device import Device
    from gridstride.runtime.graph import Graph, Replay
    from gridstride.runtime.host_memory import HostArray, ManagedArray
    from gridstride.runtime.module import Kernel, Module
    from gridstride.runtime.opening import device
    from gridstride.runtime.pointer import Pointer, pointer
    from gridstride.runtime.profiling import Profile, profiling
    from gridstride.runtime.recording import Recording, timeline
    from gridstride.runtime.streams import Event, Stream

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # devices and data
    "device",
    "pointer",
    "Array",
    "Device",
    "HostArray",
    "ManagedArray",
    "Pointer",
    # work in order
    "Event",
    "Graph",
    "Replay",
    "Stream",
    "lazy",
    # code
    "Contract",
    "Kernel",
    "Module",
    "Proof",
    "contract",
    "include_folder",
    # what launches did
    "Findings",
    "checking",
    "Profile",
    "profiling",
    "Recording",
    "timeline",
    # what can go wrong
    "CompileError",
    "ContractError",
    "Finding",
    "GridstrideError",
    "KernelFault",
    "LaunchError",
    "ParseError",
    "Site",
    "UnsupportedError",
    "UsageError",
]

_HOMES = {
    "device": "gridstride.runtime.opening",
    "Array": "gridstride.runtime.array",
    "Contract": "gridstride.runtime.contracts.contract",
    "Device": "gridstride.runtime.device",
    "Event": "gridstride.runtime.streams",
    "Findings": "gridstride.runtime.checking",
    "Graph": "gridstride.runtime.graph",
    "HostArray": "gridstride.runtime.host_memory",
    "Kernel": "gridstride.runtime.module",
    "ManagedArray": "gridstride.runtime.host_memory",
    "Module": "gridstride.runtime.module",
    "Pointer": "gridstride.runtime.pointer",
    "Profile": "gridstride.runtime.profiling",
    "Proof": "gridstride.runtime.contracts.proof",
    "Recording": "gridstride.runtime.recording",
    "Replay": "gridstride.runtime.graph",
    "Stream": "gridstride.runtime.streams",
    "checking": "gridstride.runtime.checking",
    "contract": "gridstride.runtime.contracts.contract",
    "include_folder": "gridstride.frontends.includes",
    "pointer": "gridstride.runtime.pointer",
    "profiling": "gridstride.runtime.profiling",
    "timeline": "gridstride.runtime.recording",
}
_MODULES = {"lazy": "gridstride.runtime.lazy"}
"""Names that stand for a whole module."""
"""Where each of the names lives that are loaded on demand (the same as the imports for type checkers above)."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # so that this is asked once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
