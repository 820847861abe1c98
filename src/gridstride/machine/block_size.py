"""Choosing a block: occupancy over all block sizes, and the size that fills a multiprocessor best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gridstride.errors import UsageError
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.limits import max_threads_for_registers
from gridstride.machine.occupancy import Occupancy, occupancy

SharedOfBlock = Callable[[int], int]


@dataclass(frozen=True)
class BestBlock:
    """`threads` of the block, `min_grid` the fewest blocks that fill the device, `occupancy` what they reach."""

    threads: int
    min_grid: int
    occupancy: Occupancy


def occupancy_curve(
    spec: DeviceSpec,
    registers: int | None = None,
    shared_bytes: int | SharedOfBlock = 0,
    carveout: int | None = None,
    max_threads: int | None = None,
) -> list[tuple[int, Occupancy]]:
    """(threads, occupancy) for every whole number of warps that a block may have; a launch that the device would refuse has no blocks.

    `shared_bytes`  bytes a block, or a function that gives them for its threads.
    `max_threads`   the kernel's own bound on its block (`__launch_bounds__`).
    """
    most = min(spec.architecture.threads_per_block, max_threads or spec.architecture.threads_per_block)
    warp = spec.architecture.warp_size
    return [(threads, _occupancy(spec, threads, registers, shared_bytes, carveout)) for threads in range(warp, most + 1, warp)]


def best_block(
    spec: DeviceSpec,
    registers: int | None = None,
    shared_bytes: int | SharedOfBlock = 0,
    max_threads: int | None = None,
    limit: int | None = None,
    carveout: int | None = None,
) -> BestBlock:
    """What cudaOccupancyMaxPotentialBlockSize answers: the block with the most resident threads a multiprocessor, of several the largest.

    Sizes are tried from the largest down in steps of a warp (`limit` itself first, where it is no multiple), as in the runtime's headers;
    an H200's driver gave the same answers (tests/machine/block_size_h200.json).

    `limit`  the largest block to consider. `max_threads`: what the kernel was compiled for (`__launch_bounds__`).
    Raises UsageError where no block fits.
    """
    architecture = spec.architecture
    most = min(
        architecture.threads_per_block,
        max_threads or architecture.threads_per_block,
        limit or architecture.threads_per_block,
        architecture.threads_per_block if registers is None else max_threads_for_registers(architecture, registers),
    )
    best: BestBlock | None = None
    for threads in _sizes_down(most, architecture.warp_size):
        found = _occupancy(spec, threads, registers, shared_bytes, carveout)
        if found.blocks and (best is None or found.blocks * threads > best.occupancy.blocks * best.threads):
            best = BestBlock(threads, found.blocks * spec.multiprocessors, found)
    if best is None:
        raise UsageError(f"no block of this kernel fits on {spec.name}, not even one of {architecture.warp_size} threads")
    return best


def _sizes_down(most: int, warp: int) -> Iterator[int]:
    """`most`, then the multiples of a warp below it."""
    for aligned in range(-(-most // warp) * warp, 0, -warp):
        yield min(aligned, most)


def _occupancy(spec: DeviceSpec, threads: int, registers: int | None, shared: int | SharedOfBlock, carveout: int | None) -> Occupancy:
    shared_bytes = shared(threads) if callable(shared) else shared
    found = occupancy(spec, threads, registers, shared_bytes, carveout)
    if shared_bytes <= spec.architecture.shared_per_block_optin:
        return found
    # More than a block may have at all: the launch would be refused.
    return Occupancy(
        found.limit_warps, found.limit_registers, 0, found.limit_blocks, found.warps_per_block, found.warps_per_multiprocessor, registers
    )
