"""What Nsight Compute counts for one warp's access to memory: the reference that native counting is checked against.

Every function takes the byte addresses of the 32 lanes (any integer sequence of length 32; entries of inactive lanes are
ignored), the active mask (bit `i` is lane `i`) and the bytes that one lane accesses, and returns a count for that one
access. None of them counts anything for a mask of zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SECTOR_BYTES = 32
BANKS = 32
BANK_BYTES = 4
WARP = 32

Addresses = Sequence[int] | NDArray[np.integer]


def _active(addresses: Addresses, mask: int) -> list[tuple[int, int]]:
    """(lane, address) of every active lane, lanes ascending."""
    return [(lane, int(addresses[lane])) for lane in range(WARP) if mask >> lane & 1]


def sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one global load or store: the distinct 32-byte sectors that its active lanes touch.

    Equal to `l1tex__t_sectors_pipe_lsu_mem_global_op_ld/st` (all 980 accesses of the truth set's `access/`, widths 1 to 16).
    """
    touched: set[int] = set()
    for _, address in _active(addresses, mask):
        touched.update(range(address // SECTOR_BYTES, (address + size - 1) // SECTOR_BYTES + 1))
    return len(touched)


def reduction_sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one global reduction: in each 32-byte sector, the most lanes on any one address; summed over the sectors."""
    lanes_on: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for _, address in _active(addresses, mask):
        lanes_on[address // SECTOR_BYTES][address] += 1
    return sum(max(counts.values()) for counts in lanes_on.values())


def atomic_sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one global atomic whose old value is used: as `reduction_sectors`."""
    return reduction_sectors(addresses, mask, size)


def _passes(accesses: Sequence[int], size: int) -> int:
    """Passes over the banks for these addresses together: the most distinct words in any one bank."""
    words = {word for address in accesses for word in range(address // BANK_BYTES, (address + size - 1) // BANK_BYTES + 1)}
    per_bank = [0] * BANKS
    for word in words:
        per_bank[word % BANKS] += 1
    return max(per_bank)


def _groups(addresses: Addresses, mask: int, size: int) -> list[list[int]]:
    """Active lanes' addresses, in the parts in which a warp accesses shared memory: whole, halves (8 bytes), quarters (16)."""
    parts = max(1, size // BANK_BYTES)
    groups: list[list[int]] = [[] for _ in range(parts)]
    for lane, address in _active(addresses, mask):
        groups[lane * parts // WARP].append(address)
    return groups


def shared_wavefronts_store(addresses: Addresses, mask: int, size: int) -> int:
    """Wavefronts of one shared store: the busiest bank's distinct words, the warp taken whole up to 4 bytes, in halves at 8,
    in quarters at 16.

    Equal to `smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st` (all 490 accesses of the truth set's `access/`).
    """
    return sum(_passes(group, size) for group in _groups(addresses, mask, size))


def shared_wavefronts_load(addresses: Addresses, mask: int, size: int) -> int:
    """Wavefronts of one shared load.

    Up to 4 bytes as for a store. At 8 bytes the two halves of the warp share one pass where their distinct addresses,
    counted in each half and added, are at most 16 and have no bank conflict; otherwise each half takes its own passes.
    At 16 bytes the same holds for quarters 0 and 1, and for 2 and 3, with at most 8 addresses.
    """
    groups = _groups(addresses, mask, size)
    if size <= BANK_BYTES:
        return _passes(groups[0], size)
    room = BANKS * BANK_BYTES // size
    total = 0
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        together = [*first, *second]
        if together and len(set(first)) + len(set(second)) <= room and _passes(together, size) == 1:
            total += 1
        else:
            total += _passes(first, size) + _passes(second, size)
    return total


def ideal_wavefronts(addresses: Addresses, mask: int, size: int) -> int:
    """The fewest wavefronts in which the bytes that the active lanes ask for could move: distinct words over the 32 banks, rounded up."""
    words = {word for _, a in _active(addresses, mask) for word in range(a // BANK_BYTES, (a + size - 1) // BANK_BYTES + 1)}
    return -(-len(words) // BANKS)
