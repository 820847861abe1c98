"""Clusters of a launch: which blocks make one, and what a device refuses, in a sentence (CUDA C++ Programming Guide, thread block clusters)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from gridstride.errors import LaunchError, UnsupportedError
from gridstride.findings import Dim3
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.limits import AXES, format_dim3
from gridstride.machine.occupancy import Occupancy, occupancy

FIRST_WITH_CLUSTERS = (9, 0)
PORTABLE_SIZE = 8
LARGEST_SIZE = 16  # as if the program had set cudaFuncAttributeNonPortableClusterSizeAllowed


@dataclass(frozen=True)
class Cluster:
    """Blocks of a cluster along each axis. explicit: the launch or the kernel asks for it; else every block is one by itself."""

    extents: Dim3 = (1, 1, 1)
    explicit: bool = False

    @property
    def size(self) -> int:
        return prod(self.extents)


def cluster_of(kernel: str, directives: Mapping[str, tuple[int, ...]], asked: Dim3 | None, grid: Dim3, spec: DeviceSpec) -> Cluster:
    """The clusters of a launch. `directives`: of the kernel's PTX; `asked`: what the launch asks for, None: nothing.

    Raises LaunchError where the kernel, the grid or the device does not allow it.
    """
    if "blocksareclusters" in directives:
        raise UnsupportedError(f"kernel `{kernel}` counts its grid in clusters (.blocksareclusters), which is not supported yet")
    compiled = _compiled(directives)
    if compiled is None and asked is None:
        if "explicitcluster" in directives:
            raise LaunchError(f"kernel `{kernel}` must be launched with clusters (`__cluster_dims__()` or `.explicitcluster`): say how many blocks one has")
        return Cluster()
    if compiled is not None and asked is not None and asked != compiled:
        raise LaunchError(
            f"kernel `{kernel}` was compiled for clusters of {format_dim3(compiled)} blocks (`__cluster_dims__` or `.reqnctapercluster`), not of {format_dim3(asked)}"
        )
    extents = compiled or asked
    assert extents is not None
    _check(kernel, extents, directives, grid, spec)
    return Cluster(extents, True)


def _compiled(directives: Mapping[str, tuple[int, ...]]) -> Dim3 | None:
    numbers = directives.get("reqnctapercluster")
    if not numbers:
        return None
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _check(kernel: str, extents: Dim3, directives: Mapping[str, tuple[int, ...]], grid: Dim3, spec: DeviceSpec) -> None:
    for axis, size in zip(AXES, extents, strict=True):
        if size < 1:
            raise LaunchError(f"the cluster's {axis} dimension is {size:,}; every dimension must be at least 1")
    capability = spec.architecture.compute_capability
    if capability < FIRST_WITH_CLUSTERS:
        raise LaunchError(f"{spec.name} has no clusters: they need compute capability 9.0, it has {capability[0]}.{capability[1]}")
    size = prod(extents)
    shape = f"a cluster of {format_dim3(extents)} blocks" if extents[1:] == (1, 1) else f"a cluster of {format_dim3(extents)} = {size:,} blocks"
    if size > LARGEST_SIZE:
        raise LaunchError(f"{shape} is too large: {spec.name} allows {LARGEST_SIZE} ({PORTABLE_SIZE} where the program does not ask for more)")
    most = directives.get("maxclusterrank")
    if most and size > most[0]:
        raise LaunchError(
            f"{shape} is too large: kernel `{kernel}` was compiled for at most {most[0]:,} blocks a cluster (`__launch_bounds__` or `.maxclusterrank`)"
        )
    for axis, blocks, step in zip(AXES, grid, extents, strict=True):
        if blocks % step:
            raise LaunchError(f"the grid's {axis} dimension is {blocks:,} blocks, which is no multiple of the cluster's {step:,}")


def resident_blocks(spec: DeviceSpec, occupied: Occupancy, cluster: Cluster) -> int:
    """Blocks that the device can hold at once: whole clusters, wherever their blocks are (parts of the device that keep a cluster together are not modelled)."""
    blocks = occupied.blocks * spec.multiprocessors
    return blocks // cluster.size * cluster.size


def check_cooperative(spec: DeviceSpec, grid: Dim3, threads: int, registers: int | None, shared_bytes: int, cluster: Cluster) -> None:
    """Raise LaunchError for a cooperative launch of more blocks than are resident at once (cudaErrorCooperativeLaunchTooLarge)."""
    occupied = occupancy(spec, threads, registers, shared_bytes)
    resident, blocks = resident_blocks(spec, occupied, cluster), prod(grid)
    if blocks > resident:
        raise LaunchError(
            f"a cooperative launch of {blocks:,} blocks: {spec.name} holds {resident:,} of them at once, "
            f"{occupied.blocks:,} on each of its {spec.multiprocessors:,} multiprocessors (limited by {_limiter(occupied)})"
        )


def _limiter(occupied: Occupancy) -> str:
    return {"warps": "warps", "blocks": "blocks", "registers": "registers", "shared": "shared memory"}[occupied.limiter]
