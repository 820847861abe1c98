"""Gridstride: run CUDA kernels on any machine.

    import gridstride as gs

    device = gs.device()
    saxpy = device.compile("saxpy.cu")["saxpy"]
    x, y = device.array(host_x), device.array(host_y)
    saxpy[blocks, 256](n, 2.0, x, y)
    y.numpy()
"""

from gridstride.errors import CompileError, GridstrideError, KernelFault, LaunchError, ParseError, UnsupportedError, UsageError
from gridstride.findings import Finding, Site
from gridstride.runtime import device
from gridstride.runtime.array import Array
from gridstride.runtime.checking import Findings, checking
from gridstride.runtime.device import Device
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.pointer import Pointer, pointer
from gridstride.runtime.profiling import Profile, profiling

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # devices and data
    "device",
    "pointer",
    "Array",
    "Device",
    "Pointer",
    # code
    "Kernel",
    "Module",
    # what launches did
    "Findings",
    "checking",
    "Profile",
    "profiling",
    # what can go wrong
    "CompileError",
    "Finding",
    "GridstrideError",
    "KernelFault",
    "LaunchError",
    "ParseError",
    "Site",
    "UnsupportedError",
    "UsageError",
]
