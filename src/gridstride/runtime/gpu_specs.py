"""The `DeviceSpec` of a GPU that is there: the device table's, or for a product that is not in it one made of what the driver tells."""

from __future__ import annotations

import re
from typing import Any

from gridstride.errors import UsageError
from gridstride.machine.devices import DEVICES, KIB, Architecture, DeviceSpec, find_device
from gridstride.runtime.gpu_context import GpuContext

_MEMORY_TOLERANCE = 0.12
"""A driver reports some of a product's memory less than its data sheet."""


def spec_of(context: GpuContext) -> DeviceSpec:
    """What the GPU is made of."""
    found = _in_table(context)
    return _from_driver(context) if found is None else found


def _in_table(context: GpuContext) -> DeviceSpec | None:
    name = context.gpu.name
    try:
        named = find_device(name)
    except UsageError:
        named = None
    multiprocessors = _attribute(context, "MULTIPROCESSOR_COUNT")
    if named is not None:
        return named if named.multiprocessors == multiprocessors and named.target == context.gpu.arch else None
    # "NVIDIA H100 80GB HBM3" and the like: names that the table does not spell
    memory = _memory(context)
    for spec in DEVICES:
        near = abs(spec.memory_bytes - memory) <= _MEMORY_TOLERANCE * spec.memory_bytes
        if spec.target == context.gpu.arch and spec.multiprocessors == multiprocessors and near:
            return spec
    return None


def _from_driver(context: GpuContext) -> DeviceSpec:
    def number(name: str) -> int:
        return _attribute(context, name)

    name = context.gpu.name
    bandwidth = 2 * number("MEMORY_CLOCK_RATE") * number("GLOBAL_MEMORY_BUS_WIDTH") / 8 / 1e6  # kHz, twice a cycle, bits
    return DeviceSpec(
        key=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        name=name,
        architecture=_architecture(context),
        multiprocessors=number("MULTIPROCESSOR_COUNT"),
        boost_clock_mhz=number("CLOCK_RATE") // 1000,
        memory_bandwidth_gbs=bandwidth,
        memory_bytes=_memory(context),
        l2_bytes=number("L2_CACHE_SIZE"),
        source="what its driver reports",
    )


def _architecture(context: GpuContext) -> Architecture:
    """The table's architecture of the same compute capability; else one made of what the driver tells, and of its nearest relative."""
    capability = _attribute(context, "COMPUTE_CAPABILITY_MAJOR"), _attribute(context, "COMPUTE_CAPABILITY_MINOR")
    known = sorted({spec.architecture for spec in DEVICES}, key=lambda a: a.compute_capability)
    for architecture in known:
        if architecture.compute_capability == capability:
            return architecture
    nearest = next((a for a in reversed(known) if a.compute_capability < capability), known[0])
    shared = _attribute(context, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
    return Architecture(
        name=f"compute capability {capability[0]}.{capability[1]}",
        compute_capability=capability,
        warps_per_multiprocessor=_attribute(context, "MAX_THREADS_PER_MULTIPROCESSOR") // 32,
        blocks_per_multiprocessor=_attribute(context, "MAX_BLOCKS_PER_MULTIPROCESSOR"),
        shared_per_multiprocessor=shared,
        shared_per_block_optin=_attribute(context, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_granularity=nearest.shared_granularity,
        reserved_shared_per_block=_attribute(context, "RESERVED_SHARED_MEMORY_PER_BLOCK"),
        shared_carveouts=(*(size for size in nearest.shared_carveouts if size < shared), shared),
        l1_and_shared=max(nearest.l1_and_shared, shared + 28 * KIB),
        fp32_lanes=nearest.fp32_lanes,
        fp64_lanes=nearest.fp64_lanes,
        registers_per_multiprocessor=_attribute(context, "MAX_REGISTERS_PER_MULTIPROCESSOR"),
        registers_per_block=_attribute(context, "MAX_REGISTERS_PER_BLOCK"),
    )


def _memory(context: GpuContext) -> int:
    return int(context.check(context.driver.cuDeviceTotalMem(context.device), "read the size of its memory"))


def _attribute(context: GpuContext, name: str) -> int:
    attribute: Any = getattr(context.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(context.check(context.driver.cuDeviceGetAttribute(attribute, context.device), "read what the GPU is made of"))
