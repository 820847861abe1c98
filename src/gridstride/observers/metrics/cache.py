"""What a launch moves beyond the L1 cache, modelled from its counters: L2 sectors and DRAM bytes.

The counters know every request's sectors but no addresses after the fact, so this is a model of the first kind: by footprint.
Its assumptions, each with what it is taken from:

* A launch whose buffers fit into L2 finds them there: launches are timed again and again on the same buffers.
* Otherwise every byte that is touched comes from DRAM once, and every byte that is written goes there once. How many bytes are
  touched lies between what the lanes asked for and the sectors moved; the footprint says where.
* A sector is used again while L1 has it at most as often as elements fit into it, and only where something is there to use it: the
  next trip of a loop, an instruction beside it that moves as much, another row of the block. Scattered accesses that move
  more than that allows fetch again: they are random. L2 then has the share of the footprint that it can hold.
* Accesses in which each lane has a sector of its own fetch pairs of sectors: DRAM is read in 64 bytes.
* A request whose lanes lie scattered touches a cache line a sector; one that lies dense (no more than one sector above those that
  its bytes fill: it may begin anywhere) has four sectors to a line. Instructions that read neighbouring elements one by one, and
  requests whose lanes share elements (fewer sectors than the bytes asked for), are halfway: the counters cannot tell.
* Atomics meet on few addresses, and so in one slice of L2, unless their lanes hardly ever meet in a sector.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gridstride.machine.devices import DeviceSpec
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

SECTOR = 32
LINE_SECTORS = 4
DRAM_GRANULE = 64
"""Bytes that DRAM is read in, at least (measured: strided_32 of the truth set reads two sectors for every one asked for)."""
SLICE_BYTES = 2048
"""Neighbouring bytes that one slice of L2 answers for (a histogram of 1 KB is as slow as one slice, measured)."""
SLICES_AT_ONCE = 37
"""Times faster that 16 million atomics spread over 16 MB were than as many on one slice (measured)."""


@dataclass(frozen=True)
class Traffic:
    """Modelled traffic of one launch.

    dram_read, dram_written: bytes. l2_sectors: sectors that pass L2's doors for loads and stores; reuse: how often L1 answers for
    one sector it fetches, at least 1. atomic_sectors, atomic_requests: of reductions and atomics, which L2 executes; atomic_spread:
    slices of L2 that do so at once. lines: cache lines looked up in L1, over all requests. scattered_stores: sectors of stores that are written only in part.
    resident: whether the buffers fit into L2.
    """

    dram_read: float
    dram_written: float
    l2_sectors: float
    atomic_sectors: int
    atomic_requests: int
    atomic_spread: float
    lines: float
    scattered_stores: int
    reuse: float
    resident: bool

    @property
    def dram_bytes(self) -> float:
        return self.dram_read + self.dram_written


def traffic(profile: LaunchProfile, device: DeviceSpec) -> Traffic:
    """What the launch moved, by the model above."""
    loads = list(profile.accesses("load", "global"))
    stores = list(profile.accesses("store", "global"))
    atomics = [*profile.accesses("atomic", "global"), *profile.accesses("reduction", "global")]
    local = [i for i in profile.instructions if i.space == "local"]
    read, written = _touched(loads, stores, profile.footprint_bytes)
    read_sectors = sum(i.sectors for i in loads)
    resident = profile.footprint_bytes <= device.l2_bytes
    uses = {id(i): _uses(i, side, profile) for side in (loads, stores) for i in side}
    missed = 1 - min(1.0, device.l2_bytes / max(1, profile.footprint_bytes))
    again_read, again_written = (
        missed * max(0.0, sum(i.sectors / uses[id(i)] for i in side if _scattered(i)) * SECTOR - once)
        for side, once in ((loads, read), (stores, written))
    )
    pair = DRAM_GRANULE / SECTOR
    pairs = 1 + (pair - 1) * (sum(i.sectors for i in loads if _lane_per_sector(i)) / read_sectors if read_sectors else 0.0)
    room = max(read, profile.footprint_bytes - written)
    most_uses = sum(i.sectors * uses[id(i)] for i in loads) / read_sectors if read_sectors else 1.0
    reuse = max(1.0, min(read_sectors * SECTOR / read, most_uses)) if read else 1.0
    # a part of a sector is written into what was read before
    return Traffic(
        dram_read=0.0 if resident else min(read * pairs, room) + again_read * pairs + again_written * pair,
        dram_written=0.0 if resident else written + again_written * pair,
        l2_sectors=read_sectors / reuse + sum(i.sectors for i in stores),
        atomic_sectors=sum(i.sectors for i in atomics),
        atomic_requests=sum(i.requests for i in atomics),
        atomic_spread=_spread(atomics),
        lines=sum(_lines(i, _beside(i, loads) > 1 and i.executions <= profile.warps) for i in (*loads, *stores, *atomics, *local)),
        scattered_stores=sum(i.sectors for i in stores if i.sectors > 1.5 * _needed(i)),
        reuse=reuse,
        resident=resident,
    )


def _beside(i: InstructionCounts, side: list[InstructionCounts]) -> int:
    """Instructions that move about as much as often, itself among them: they may well touch the same sectors."""
    return sum(o.executions == i.executions and o.bytes == i.bytes and abs(o.sectors - i.sectors) <= 0.1 * i.sectors for o in side)


def _uses(i: InstructionCounts, side: list[InstructionCounts], profile: LaunchProfile) -> float:
    """How often a sector that this instruction touches may be used while L1 has it."""
    _, y, z = profile.block
    chances = max(1.0, i.executions / profile.warps) * _beside(i, side) * y * z
    return max(1.0, min(SECTOR / max(1, i.bytes), chances))


def _spread(atomics: list[InstructionCounts]) -> float:
    """Slices of L2 at work: were the lanes of a request to draw their sectors at random from so many, as many as are seen would meet."""
    alone = 0.0
    for i in atomics:
        lanes, met = i.lanes / max(1, i.requests), (i.lanes - i.sectors) / max(1, i.requests)
        drawn_from = lanes * (lanes - 1) / 2 / max(met, 1e-3) if lanes > 1 else 0.0
        alone += i.sectors / min(SLICES_AT_ONCE, max(1.0, drawn_from * SECTOR / SLICE_BYTES))
    return sum(i.sectors for i in atomics) / alone if alone else 1.0


def _asked(instructions: Iterable[InstructionCounts]) -> int:
    """Bytes that the lanes asked for, but no more than were moved (lanes may share them)."""
    return sum(min(i.lanes * i.bytes, i.sectors * SECTOR) for i in instructions)


def _touched(loads: list[InstructionCounts], stores: list[InstructionCounts], footprint: int) -> tuple[float, float]:
    """Bytes read and bytes written, each counted once however often it is touched."""
    moved = [sum(i.sectors for i in side) * SECTOR for side in (loads, stores)]
    asked = [_asked(loads), _asked(stores)]
    if sum(moved) <= footprint:
        return float(moved[0]), float(moved[1])
    if sum(asked) <= footprint:  # nothing need be touched twice: what is left over is shared out to where more was moved than asked for
        excess = [m - a for m, a in zip(moved, asked, strict=True)]
        share = (footprint - sum(asked)) / sum(excess)
        return asked[0] + excess[0] * share, asked[1] + excess[1] * share
    if max(moved) <= footprint:  # read and written in place
        return float(moved[0]), float(moved[1])
    written = float(min(asked[1], footprint))
    if moved[0] <= footprint:
        return float(moved[0]), max(written if written < footprint else 0.0, footprint - moved[0])
    return (footprint - written if written < footprint else float(footprint)), written


def _needed(i: InstructionCounts) -> float:
    """Sectors that the bytes its lanes asked for would fill, at least one a request."""
    return max(i.lanes * i.bytes / SECTOR, i.requests)


def _scattered(i: InstructionCounts) -> bool:
    return i.sectors > _needed(i) + i.requests


def _lane_per_sector(i: InstructionCounts) -> bool:
    return i.bytes < SECTOR and i.sectors > 2 * i.requests and i.sectors >= 0.9 * i.lanes


def _lines(i: InstructionCounts, neighbours: bool) -> float:
    """Cache lines looked up. neighbours: whether other instructions read beside it, outside of loops (the fields of a structure)."""
    if not i.requests:
        return 0.0
    each = i.sectors / i.requests
    dense = max(1.0, each / LINE_SECTORS)
    halfway = math.sqrt(dense * each)
    if i.space != "local" and _scattered(i):
        return i.requests * (halfway if neighbours else each)
    return i.requests * (halfway if each > 1 and i.sectors * SECTOR < 0.95 * i.lanes * i.bytes else dense)
