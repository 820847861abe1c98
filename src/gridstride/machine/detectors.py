"""Memory of the detectors of a checked launch, and reading what they noted down."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import GridstrideError
from gridstride.lower.race_bytes import LANE_BITS, READ, RECENT, RECORD, RECORDS
from gridstride.lower.race_cells import ATOMIC, BLOCK_BITS, BLOCK_SHIFT, MARK, PATTERN_SHIFT, PLANES
from gridstride.lower.race_readers import BLOCK_ENTRIES, ENTRY, LAUNCH_ENTRIES
from gridstride.lower.records import FINDING, FINDING_KINDS, FINDING_SEVERITIES
from gridstride.machine.launch_options import Covered
from gridstride.machine.raw_findings import RawFinding
from gridstride.machine.reserve import reserve

if TYPE_CHECKING:
    from gridstride.lower.kernel import KernelCode
    from gridstride.machine.memory import Memory

RACES = frozenset({"race-shared", "race-global"})


class RacePlanes:
    """Shadow of a whole arena, given by the host lazily: only what is touched takes memory. Of a byte that is written 3 bytes, of one that is read
    3, one more where threads that nothing orders read a word. Of words whose bytes belong to different threads other than in a row: 2 bytes a
    byte, 4 more if it is written or read, 4 more if it is read after it was written, and the records of what those threads did: 16 bytes a warp
    access, and 64 MiB at most."""

    def __init__(self, base: int, span: int) -> None:
        words = span // 4 + 16
        sizes = {f"race_{name}": words * size for name, size in PLANES.items()}
        sizes |= {f"race_byte_{name}": (span + 64) * 4 for name in ("writes", "reads")}
        sizes |= {"race_lists": LAUNCH_ENTRIES * ENTRY, "race_records": RECORDS * RECORD + RECENT * 4}
        try:
            self._maps = _reserve_all(sizes)
        except (OSError, ValueError):
            total = sum(sizes.values()) >> 30
            raise GridstrideError(f"the host does not give the race checks {total:,} GiB of address space (little of it is ever used): lift `ulimit -v`") from None
        self._views = {name: np.frombuffer(area, np.uint8) for name, area in self._maps.items()}
        self._base = base
        self._next = 1
        self._latest = (1, 1)  # the numbers of the latest launch's blocks

    def addresses(self) -> dict[str, int]:
        """Of each plane, so that the cell of address a is at it + (a >> 2) * size; of those of bytes, + a * 4; of the lists and records."""
        places = {name: int(view.ctypes.data) for name, view in self._views.items()}
        for name, size in PLANES.items():
            places[f"race_{name}"] -= (self._base >> 2) * size
        for name in ("writes", "reads"):
            places[f"race_byte_{name}"] -= self._base * 4
        return places

    def begin(self, blocks: int) -> int:
        """A launch of so many blocks starts: the number of its first one. What earlier launches left is past, since the
        end of a kernel orders all that it did."""
        if self._next + blocks >= 1 << BLOCK_BITS:
            self._clear()
        first = self._next
        self._next += blocks
        self._latest = first, self._next
        self._views["race_lists"][:12].view(np.uint32)[:] = (1, 0, LAUNCH_ENTRIES)
        return first

    def touched(self, address: int, nbytes: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """For each word from `address` on, whether the latest launch read it, whether it wrote it, and whether only atomics touched it
        (which is neither then), as far as the last write and read tell."""
        start, count = (address >> 2) - (self._base >> 2), -(-nbytes // 4)
        low, high = self._latest

        def latest(cells: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
            blocks = cells >> BLOCK_SHIFT
            return (blocks >= low) & (blocks < high)

        reads, writes = (self._views[plane].view(np.uint64)[start : start + count] for plane in ("race_reads", "race_writes"))
        read, written = latest(reads), latest(writes)
        split = np.flatnonzero(written & (writes >> PATTERN_SHIFT & 3 == MARK))
        if split.size:  # of such words only their bytes' cells say what was done
            places = (start + split)[:, None] * 4 + np.arange(4)
            records = self._views["race_records"][: RECORDS * RECORD].view(np.uint64)[:: RECORD // 8]
            held = self._views["race_byte_writes"].view(np.uint32)[places]
            is_read = (held & READ) != 0
            readers = np.where(is_read, held, self._views["race_byte_reads"].view(np.uint32)[places])
            for states, numbers in ((written, np.where(is_read, 0, held)), (read, readers)):
                states[split] = ((numbers != 0) & latest(records[numbers >> LANE_BITS & RECORDS - 1])).any(axis=1)
        atomic = [
            (self._views[meta].view(np.uint32)[start : start + count] & ATOMIC).astype(np.bool_) for meta in ("race_read_meta", "race_write_meta")
        ]
        atomic[1][split] = False
        updated = written & atomic[1] & (~read | atomic[0])
        return read & ~updated, written & ~updated, updated

    def _clear(self) -> None:
        self._next = 1
        for area in self._maps.values():
            if hasattr(mmap, "MADV_DONTNEED"):
                area.madvise(mmap.MADV_DONTNEED)
            else:
                area[:] = bytes(len(area))


def _reserve_all(sizes: dict[str, int]) -> dict[str, mmap.mmap]:
    """Address space for all planes, where need be that of devices which nobody uses and the garbage collector has not come to yet."""
    try:
        return {name: reserve(size) for name, size in sizes.items()}
    except (OSError, ValueError):
        gc.collect()
        return {name: reserve(size) for name, size in sizes.items()}


def shared_shadow(shared_bytes: int) -> dict[str, int]:
    """What the detector keeps of a block's shared memory: name of its address in the block's record → bytes."""
    words = shared_bytes // 4 + 16
    planes = {f"shared_{name}": words * size for name, size in PLANES.items()}
    of_bytes = {f"shared_byte_{name}": (shared_bytes + 64) * 4 for name in ("writes", "reads")}
    return {**planes, **of_bytes, "shared_lists": BLOCK_ENTRIES * ENTRY}


def race_planes(memory: Memory) -> RacePlanes:
    """The planes of a device's memory, made on first use."""
    planes: RacePlanes | None = memory.shadows.get("races")
    if planes is None:
        planes = memory.shadows["races"] = RacePlanes(memory.base, memory.span)
    return planes


def quiet_sites(provenance: list[list[Any]], parameters: bytes, memory: Memory) -> npt.NDArray[np.uint8]:
    """1 for each site that reads a buffer which no site of the kernel can write: nothing can race there."""
    quiet = np.zeros(len(provenance) + 1, np.uint8)
    places = [_buffer(entry, parameters, memory) for entry in provenance]
    writers = [place for entry, place in zip(provenance, places, strict=True) if entry[2]]
    if None in writers:
        return quiet  # it may write anywhere
    for number, place in enumerate(places):
        quiet[number] = place is not None and place not in writers
    return quiet


def trusted_sites(provenance: list[list[Any]], parameters: bytes, memory: Memory) -> tuple[int, ...]:
    """Sites that read buffers of which every byte is defined and stays so: nothing undefined can come from there."""
    defined: dict[int, bool] = {}
    found = []
    for number in np.flatnonzero(quiet_sites(provenance, parameters, memory)):
        place = _buffer(provenance[number], parameters, memory)
        if place is None or provenance[number][0] == -2:
            continue
        if place not in defined:
            allocation = memory.find(place)
            defined[place] = allocation is not None and memory.all_defined(allocation)
        if defined[place]:
            found.append(int(number))
    return tuple(found)


def _buffer(entry: list[Any], parameters: bytes, memory: Memory) -> int | None:
    """Address of the allocation that a site's address was made from; module variables stand by their name's hash."""
    offset = entry[0]
    if offset == -2:
        return hash(entry[1])
    if not isinstance(offset, int) or offset < 0:
        return None
    allocation = memory.find(int.from_bytes(parameters[offset : offset + 8], "little"))
    return allocation.address if allocation is not None else None


def read_findings(code: KernelCode, table: npt.NDArray[np.uint8], count: int, covered: Sequence[Covered] = ()) -> list[RawFinding]:
    """What native code noted: `count` FINDING records. covered: the outputs of the launch that a contract gives to one thread an element."""
    found = []
    for k in range(count):
        row = table[k * FINDING.size : (k + 1) * FINDING.size]

        def field(name: str, row: npt.NDArray[np.uint8] = row) -> int:
            entry = FINDING.fields[name]
            size = 8 if entry.type == "i64" else 4
            return int.from_bytes(row[entry.offset : entry.offset + size].tobytes(), "little", signed=True)

        what = field("what")
        kind = list(FINDING_KINDS)[what & 15]
        site, other = field("site"), field("other_site")
        origin = other if kind == "uninitialised" else -1  # there the other site is where the value came from
        accessed = code.sites[origin if origin >= 0 else site] if max(origin, site) >= 0 else None
        of_origin = str(accessed[4]) if origin >= 0 and accessed is not None else ""
        address = field("address") & (2**64 - 1)
        size = int(accessed[5]) if accessed is not None else 0
        if kind == "double-write":  # the element's bytes, whatever the access had
            size = next((output.unit for output in covered if output.low <= address < output.high), size)
        found.append(
            RawFinding(
                kind,
                FINDING_SEVERITIES[what >> 4 & 15],
                FINDING_KINDS[kind][what >> 8 & 255],
                site,
                field("block"),
                field("thread"),
                space={"race-shared": "shared", "race-global": "global", "double-write": "global"}.get(kind, of_origin),
                address=address,
                bytes=size,
                other_site=-1 if kind == "uninitialised" else other,
                other_block=field("other_block"),
                other_thread=field("other_thread"),
                origin_site=origin,
                count=field("count"),
            )
        )
    return found
