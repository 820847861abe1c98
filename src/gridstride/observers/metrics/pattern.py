"""What one warp's access costs, from its addresses: sectors, bank passes, and how often each element is read by how many threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gridstride.errors import UsageError
from gridstride.findings import Dim3
from gridstride.observers.metrics import rules
from gridstride.observers.metrics.index_expression import IndexExpression, Integers

Space = Literal["global", "shared"]
Kind = Literal["load", "store", "atomic"]
WARP = rules.WARP
FULL_MASK = (1 << WARP) - 1
_MOST_INDICES = 1 << 24


@dataclass(frozen=True)
class AccessPattern:
    """One access of one warp: byte addresses of its 32 lanes, the lanes that take part, bytes a lane.

    Raises UsageError where an address is not a multiple of the access's size: the hardware would stop.
    """

    addresses: tuple[int, ...]
    mask: int
    size: int
    space: Space = "global"
    kind: Kind = "load"

    def __post_init__(self) -> None:
        if len(self.addresses) != WARP:
            raise UsageError(f"a warp has {WARP} lanes, not {len(self.addresses)} addresses")
        if self.size not in (1, 2, 4, 8, 16):
            raise UsageError(f"an access is 1, 2, 4, 8 or 16 bytes wide, not {self.size}")
        for lane in self.lanes:
            if self.addresses[lane] % self.size:
                raise UsageError(f"lane {lane} accesses {self.size} bytes at {self.addresses[lane]}, which is no multiple of {self.size}")

    @classmethod
    def of_lanes(cls, addresses: Sequence[int], size: int, space: Space = "global", kind: Kind = "load") -> AccessPattern:
        """The access of the first lanes alone, where fewer than 32 addresses are given."""
        if not 1 <= len(addresses) <= WARP:
            raise UsageError(f"a warp has 1 to {WARP} addresses, not {len(addresses)}")
        padded = (*map(int, addresses), *itertools.repeat(0, WARP - len(addresses)))
        return cls(padded, (1 << len(addresses)) - 1, size, space, kind)

    @property
    def lanes(self) -> list[int]:
        """The lanes that take part."""
        return [lane for lane in range(WARP) if self.mask >> lane & 1]

    @property
    def bytes_asked(self) -> int:
        """What all lanes ask for, together; lanes that ask for the same byte count each."""
        return len(self.lanes) * self.size

    @property
    def bytes_needed(self) -> int:
        """The distinct bytes among them."""
        return len({byte for lane in self.lanes for byte in range(self.addresses[lane], self.addresses[lane] + self.size)})

    @property
    def sectors(self) -> int:
        """Sectors of a global access (Nsight's count), by the rule of its kind."""
        if self.kind == "atomic":
            return rules.reduction_sectors(self.addresses, self.mask, self.size)
        return rules.sectors(self.addresses, self.mask, self.size)

    @property
    def fewest_sectors(self) -> int:
        """Sectors if the same distinct bytes lay side by side."""
        return -(-self.bytes_needed // rules.SECTOR_BYTES)

    @property
    def bytes_moved(self) -> int:
        return self.sectors * rules.SECTOR_BYTES

    @property
    def efficiency(self) -> float:
        """Distinct bytes needed of the bytes moved."""
        return self.bytes_needed / self.bytes_moved if self.mask else 0.0

    @property
    def passes(self) -> int:
        """Passes over the banks of a shared load or store (Nsight's wavefronts)."""
        if self.kind == "store":
            return rules.shared_wavefronts_store(self.addresses, self.mask, self.size)
        return rules.shared_wavefronts_load(self.addresses, self.mask, self.size)

    @property
    def fewest_passes(self) -> int:
        return rules.ideal_wavefronts(self.addresses, self.mask, self.size)

    def transactions(self, segment: int) -> int:
        """Aligned segments of `segment` bytes that are touched: memory that moves other pieces than sectors."""
        return len({byte // segment for lane in self.lanes for byte in (self.addresses[lane], self.addresses[lane] + self.size - 1)})

    def by_sector(self) -> dict[int, list[int]]:
        """Sector number → lanes that touch it, both rising."""
        return self._by(rules.SECTOR_BYTES)

    def by_word(self) -> dict[int, list[int]]:
        """Word of 4 bytes → lanes that touch it; its bank is the word modulo 32."""
        return self._by(rules.BANK_BYTES)

    def _by(self, unit: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for lane in self.lanes:
            for piece in range(self.addresses[lane] // unit, (self.addresses[lane] + self.size - 1) // unit + 1):
                found.setdefault(piece, []).append(lane)
        return dict(sorted(found.items()))


def bank_passes_of_pitch(pitch_words: int) -> tuple[int, int]:
    """Passes of a warp that reads (a row, a column) of a shared array of 4-byte words whose rows are `pitch_words` apart."""
    if pitch_words < 1:
        raise UsageError(f"a row has at least 1 word, not {pitch_words}")
    row, column = ([4 * lane * step for lane in range(WARP)] for step in (1, pitch_words))
    return AccessPattern.of_lanes(row, 4, "shared").passes, AccessPattern.of_lanes(column, 4, "shared").passes


def thread_values(grid: Dim3, block: Dim3, blocks: Sequence[Dim3] | None = None) -> dict[str, Integers]:
    """What every thread of some blocks (default: all) sees in CUDA's built-in variables and their usual abbreviations, one entry a thread.

    Threads in the order of warps: block by block, x fastest. `tid` is threadIdx.x, `i` and `gid` are blockIdx.x · blockDim.x + threadIdx.x,
    `lane` and `warp` a thread's place in its block.
    """
    chosen = list(_coordinates(grid)) if blocks is None else list(blocks)
    threads = np.array(list(_coordinates(block)), dtype=np.int64)
    count = len(threads)
    if count * len(chosen) > _MOST_INDICES:
        raise UsageError(f"{count * len(chosen):,} threads are too many to calculate: the limit is {_MOST_INDICES:,}")
    values: dict[str, Integers] = {}
    for axis, letter in enumerate("xyz"):
        values[f"threadIdx.{letter}"] = np.tile(threads[:, axis], len(chosen))
        values[f"blockIdx.{letter}"] = np.repeat(np.array([b[axis] for b in chosen], dtype=np.int64), count)
        values[f"blockDim.{letter}"] = np.full(count * len(chosen), block[axis], dtype=np.int64)
        values[f"gridDim.{letter}"] = np.full(count * len(chosen), grid[axis], dtype=np.int64)
    linear = np.tile(np.arange(count, dtype=np.int64), len(chosen))
    values |= {"lane": linear % WARP, "warp": linear // WARP, "tid": values["threadIdx.x"]}
    values["i"] = values["gid"] = values["blockIdx.x"] * block[0] + values["threadIdx.x"]
    return values


def _coordinates(extent: Dim3) -> Iterator[Dim3]:
    for z, y, x in itertools.product(*(range(size) for size in reversed(extent))):
        yield x, y, z


def warp_slices(threads: int, per_block: int) -> list[slice]:
    """The warps of `threads` threads in blocks of `per_block`: no warp has threads of two blocks."""
    return [
        slice(first, min(first + WARP, start + per_block))
        for start in range(0, threads, per_block)
        for first in range(start, start + per_block, WARP)
    ]


class ReadCounter:
    """How many times each element of a buffer is read, over all threads: what a tile in shared memory would save.

    Feed it the indices that threads read, as they come; `of_addresses` makes indices of byte addresses.
    """

    def __init__(self, elements: int) -> None:
        if elements < 0:
            raise UsageError(f"a buffer cannot have {elements} elements")
        self.counts: npt.NDArray[np.int64] = np.zeros(elements, dtype=np.int64)

    def record(self, indices: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> None:
        """Count reads of elements, of the active ones where a mask is given. Raises UsageError for an index outside of the buffer."""
        flat = np.asarray(indices, dtype=np.int64)
        flat = flat[np.broadcast_to(np.asarray(mask, dtype=bool), flat.shape)] if mask is not None else flat.reshape(-1)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self.counts):
            outside = int(flat.min()) if flat.min() < 0 else int(flat.max())
            raise UsageError(f"element {outside:,} is outside of the buffer, which has {len(self.counts):,}")
        self.counts += np.bincount(flat, minlength=len(self.counts))

    def of_addresses(self, addresses: npt.ArrayLike, base: int, element_bytes: int, mask: npt.ArrayLike | None = None) -> None:
        """Count reads by byte address, of elements of `element_bytes` from `base` on."""
        self.record((np.asarray(addresses, dtype=np.int64) - base) // element_bytes, mask)

    @property
    def reads(self) -> int:
        """All reads together."""
        return int(self.counts.sum())

    @property
    def elements_read(self) -> int:
        """Elements that are read at all: the reads that are left when each is loaded once."""
        return int(np.count_nonzero(self.counts))

    @property
    def reads_per_element(self) -> float:
        """Average over the elements that are read; 1 where nothing is read twice."""
        return self.reads / self.elements_read if self.elements_read else 0.0


def reads_per_element(
    expression: IndexExpression,
    elements: int,
    values: Mapping[str, Integers],
    loops: Mapping[str, int] | None = None,
    where: IndexExpression | None = None,
    pitch: int | None = None,
) -> npt.NDArray[np.int64]:
    """Reads of each of `elements` elements when every thread of `values` (see `thread_values`) evaluates the expression, once for every
    combination of the `loops`' values (each from 0 up to its bound), where `where` is not 0."""
    counter = ReadCounter(elements)
    for bound in loop_values(loops or {}, values):
        mask = None if where is None else where.element(bound) != 0
        counter.record(np.broadcast_to(expression.element(bound, pitch), next(iter(values.values())).shape), mask)
    return counter.counts


def loop_values(loops: Mapping[str, int], values: Mapping[str, Integers]) -> Iterator[dict[str, Integers]]:
    """`values` with every combination of the loop variables' values, the last one fastest."""
    for combination in itertools.product(*(range(bound) for bound in loops.values())):
        yield {**values, **{name: np.asarray(value, dtype=np.int64) for name, value in zip(loops, combination, strict=True)}}
