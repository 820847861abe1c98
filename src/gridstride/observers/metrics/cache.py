"""What a launch moves beyond the L1 cache, modelled from its counters: L2 sectors and DRAM bytes.

The counters know every request's sectors but no addresses after the fact, so this is a model of the first kind: by footprint.
Its assumptions, each with what it is taken from:

* A launch whose buffers fit into L2 finds them there: launches are timed again and again on the same buffers.
* Otherwise every byte that is touched comes from DRAM once, and every byte that is written goes there once. How many bytes are
  touched lies between what the lanes asked for and the sectors moved; the footprint says where.
* Accesses in which each lane has a sector of its own fetch pairs of sectors: DRAM is read in 64 bytes.
* L1 keeps a sector as long as it takes to use up its elements: reads are repeated in L1 at most as often as elements fit into
  a sector, and at most as often as the sectors moved exceed the footprint.
* A request whose lanes lie scattered touches a cache line a sector; one that lies dense (no more than one sector above those that
  its bytes fill: it may begin anywhere) has four sectors to a line. The counters do not tell rows of a few sectors from single ones:
  for scattered requests a mean nearer to a line a sector is taken, for requests whose lanes share elements (fewer sectors than the
  bytes asked for) one halfway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gridstride.machine.devices import DeviceSpec
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

SECTOR = 32
LINE_SECTORS = 4
_SCATTERED, _SHARED = 0.75, 0.5
"""Weights of a line a sector in the geometric mean with four sectors to a line. The truth set has both ends: sgemm_regtile reads
rows of two sectors, sgemm_swapped single ones."""
DRAM_GRANULE = 64
"""Bytes that DRAM is read in, at least (measured: strided_32 of the truth set reads two sectors for every one asked for)."""


@dataclass(frozen=True)
class Traffic:
    """Modelled traffic of one launch.

    dram_read, dram_written: bytes. l2_sectors: sectors that pass L2's doors for loads and stores; reuse: how often L1 answers for
    one sector it fetches, at least 1. atomic_sectors, atomic_requests: of reductions and atomics, which L2 executes. lines: cache
    lines looked up in L1, over all requests. scattered_stores: sectors of stores that are written only in part.
    resident: whether the buffers fit into L2.
    """

    dram_read: float
    dram_written: float
    l2_sectors: float
    atomic_sectors: int
    atomic_requests: int
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
    reuse = _l1_reuse(loads, read)
    resident = profile.footprint_bytes <= device.l2_bytes
    pairs = sum(i.sectors for i in loads if _lane_per_sector(i)) / read_sectors if read_sectors else 0.0
    room = max(read, profile.footprint_bytes - written)
    return Traffic(
        dram_read=0.0 if resident else min(read * (1 + pairs * (DRAM_GRANULE / SECTOR - 1)), room),
        dram_written=0.0 if resident else written,
        l2_sectors=read_sectors / reuse + sum(i.sectors for i in stores),
        atomic_sectors=sum(i.sectors for i in atomics),
        atomic_requests=sum(i.requests for i in atomics),
        lines=sum(_lines(i) for i in (*loads, *stores, *atomics, *local)),
        scattered_stores=sum(i.sectors for i in stores if i.sectors > 1.5 * _needed(i)),
        reuse=reuse,
        resident=resident,
    )


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


def _l1_reuse(loads: list[InstructionCounts], read: float) -> float:
    moved = sum(i.sectors for i in loads)
    if not moved or not read:
        return 1.0
    elements = sum(i.sectors * max(1.0, SECTOR / max(1, i.bytes)) for i in loads) / moved
    return max(1.0, min(moved * SECTOR / read, elements))


def _needed(i: InstructionCounts) -> float:
    """Sectors that the bytes its lanes asked for would fill, at least one a request."""
    return max(i.lanes * i.bytes / SECTOR, i.requests)


def _lane_per_sector(i: InstructionCounts) -> bool:
    return i.bytes < SECTOR and i.sectors > 2 * i.requests and i.sectors >= 0.9 * i.lanes


def _lines(i: InstructionCounts) -> float:
    if not i.requests:
        return 0.0
    each = i.sectors / i.requests
    dense = max(1.0, each / LINE_SECTORS)
    if i.sectors > _needed(i) + i.requests and i.space != "local":
        weight = _SCATTERED
    elif each > 1 and i.sectors * SECTOR < 0.95 * i.lanes * i.bytes:
        weight = _SHARED
    else:
        weight = 0.0
    return i.requests * math.pow(dense, 1 - weight) * math.pow(each, weight)
