"""What a device refuses to launch, and why, in a sentence."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

from gridstride.errors import LaunchError
from gridstride.findings import Dim3
from gridstride.machine.devices import Architecture, DeviceSpec

# The same for every compute capability from 3.0 on (CUDA C++ Programming Guide, technical specifications).
MAX_BLOCK_DIMENSIONS: Dim3 = (1024, 1024, 64)
MAX_GRID_DIMENSIONS: Dim3 = (2**31 - 1, 65_535, 65_535)
AXES = "xyz"

Extent = SupportsIndex | Sequence[SupportsIndex]


def as_dim3(value: Extent, what: str) -> Dim3:
    """`value`, an integer or one to three of them, as (x, y, z); what is missing is 1.

    Raises LaunchError, naming `what` ("grid", "block"), for anything else.
    """
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    try:
        numbers = [operator.index(part) for part in parts]
    except TypeError:
        raise LaunchError(f"the {what} must be an integer or a tuple of up to three, not {value!r}") from None
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"the {what} must have one to three dimensions, not {len(numbers)}: {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def format_dim3(extent: Dim3) -> str:
    """The dimensions as people write them: those after the last that is not 1 are left out."""
    used = max((axis + 1 for axis in range(3) if extent[axis] != 1), default=1)
    return " × ".join(f"{size:,}" for size in extent[:used])


def max_threads_for_registers(architecture: Architecture, registers: int) -> int:
    """The largest block, in threads, that kernels of `registers` registers a thread can have.

    Registers belong to the parts of a multiprocessor and are given out by the warp, so what one part cannot fit is lost:
    72 registers allow 896 threads, though 65,536 / 72 is 910.
    """
    return warps_for_registers(architecture, registers) * architecture.warp_size


def warps_for_registers(architecture: Architecture, registers: int) -> int:
    """How many warps of `registers` registers a thread have room in a multiprocessor's register file."""
    granularity = architecture.register_granularity
    per_warp = -(-max(registers, 1) * architecture.warp_size // granularity) * granularity
    per_part = architecture.registers_per_multiprocessor // architecture.subpartitions // per_warp
    return per_part * architecture.subpartitions


def check_launch(
    spec: DeviceSpec,
    grid: Dim3,
    block: Dim3,
    shared_bytes: int = 0,
    registers: int | None = None,
    max_threads: int | None = None,
    *,
    shared_optin: bool = True,
) -> None:
    """Raise LaunchError if `spec` would refuse the launch.

    `shared_bytes`  a block's static and dynamic shared memory together.
    `registers`     registers a thread, as the compiler reported them; None: not known, not checked.
    `max_threads`   the kernel's own bound on its block (`__launch_bounds__`, `.maxntid`).
    `shared_optin`  whether the kernel may have more than the default 48 KB (`cudaFuncAttributeMaxDynamicSharedMemorySize`).
    """
    architecture = spec.architecture
    _check_dimensions("block", block, MAX_BLOCK_DIMENSIONS, "threads")
    _check_dimensions("grid", grid, MAX_GRID_DIMENSIONS, "blocks")
    threads = block[0] * block[1] * block[2]
    shape = f"a block of {format_dim3(block)} threads" if block[1:] == (1, 1) else f"a block of {format_dim3(block)} = {threads:,} threads"
    if threads > architecture.threads_per_block:
        raise LaunchError(f"{shape} is too large: {spec.name} allows {architecture.threads_per_block:,} threads a block")
    if max_threads is not None and threads > max_threads:
        raise LaunchError(
            f"{shape} is too large: the kernel was compiled for at most {max_threads:,} threads a block (`__launch_bounds__` or `.maxntid`)"
        )
    _check_shared(spec, shared_bytes, shared_optin)
    if registers is not None:
        _check_registers(spec, shape, threads, registers)


def _check_dimensions(what: str, extent: Dim3, limits: Dim3, unit: str) -> None:
    for axis, size, limit in zip(AXES, extent, limits, strict=True):
        if size < 1:
            raise LaunchError(f"the {what}'s {axis} dimension is {size:,}; every dimension must be at least 1")
        if size > limit:
            raise LaunchError(f"the {what}'s {axis} dimension is {size:,} {unit}; the limit is {limit:,}")


def _check_shared(spec: DeviceSpec, shared_bytes: int, optin: bool) -> None:
    architecture = spec.architecture
    if shared_bytes < 0:
        raise LaunchError(f"a block cannot have {shared_bytes:,} bytes of shared memory")
    if shared_bytes > architecture.shared_per_block_optin:
        raise LaunchError(
            f"{shared_bytes:,} bytes of shared memory a block are too many: {spec.name} allows {architecture.shared_per_block_optin:,}, "
            "static and dynamic together"
        )
    if shared_bytes > architecture.shared_per_block and not optin:
        raise LaunchError(
            f"{shared_bytes:,} bytes of shared memory a block are more than the default of {architecture.shared_per_block:,}: "
            f"opt in with cudaFuncAttributeMaxDynamicSharedMemorySize ({spec.name} then allows {architecture.shared_per_block_optin:,})"
        )


def _check_registers(spec: DeviceSpec, shape: str, threads: int, registers: int) -> None:
    architecture = spec.architecture
    if not 0 <= registers <= architecture.registers_per_thread:
        raise LaunchError(f"{registers:,} registers a thread are impossible: {spec.name} has at most {architecture.registers_per_thread}")
    most = max_threads_for_registers(architecture, registers)
    warps = -(-threads // architecture.warp_size)
    if warps * architecture.warp_size > most:
        raise LaunchError(
            f"{shape} needs too many registers: at {registers} registers a thread, {spec.name} (64 K registers a block) allows {most:,} threads; "
            "use smaller blocks or `__launch_bounds__`"
        )
