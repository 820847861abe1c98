"""What Nsight Compute counts for one warp's access to memory: the reference that native counting is checked against.

Every function takes the byte addresses of the 32 lanes (any integer sequence of length 32; entries of inactive lanes are
ignored), the active mask (bit `i` is lane `i`) and the bytes that one lane accesses, and returns a count for that one
access. None of them counts anything for a mask of zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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


# Which of the four tag banks a 128-byte line falls into: the exclusive or of these numbers over the bits set in the line's
# number, bit 0 first. Address bits 7 to 33, measured one by one; bits above differ in no warp access that was measured.
TAG_BANK_OF_BIT = (1, 2, 1, 2, 3, 1, 2, 3, 2, 1, 2, 1, 3, 1, 3, 2, 1, 3, 1, 3, 2, 3, 1, 3, 1, 2, 3)
LINE_BYTES = 128


def tag_bank(line: int) -> int:
    """The tag bank, 0 to 3, of the 128-byte line with this number (address divided by 128)."""
    bank = 0
    for bit, value in enumerate(TAG_BANK_OF_BIT):
        if line >> bit & 1:
            bank ^= value
    return bank


def reduction_sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one global reduction, as `l1tex__t_sectors_pipe_lsu_mem_global_op_red` counts them.

    Each tag bank works through its lanes in passes. A pass takes the line of its lowest waiting lane; of the lanes waiting at
    one place in a line (the address modulo 128, whatever the line) only the lowest lane may go; those that may and lie in the
    chosen line go. Each distinct 32-byte sector among them is one sector counted.

    Where no two lines share a tag bank (any four neighbouring lines do not) this is simply: in each sector the most lanes on
    any one address, summed over the sectors, which is also never more than the exact count.

    `size` is what one lane updates, vectors as a whole (`red.add.v4.f32`: 16). Found by experiment on an H200, see
    tests/metrics/README.md; equal for all additions, logic, minima and maxima of 4, 8 and 16 bytes measured, and for the 392
    reductions of the truth set's `access/`.
    """
    waiting: dict[int, list[int]] = defaultdict(list)
    for _, address in _active(addresses, mask):
        waiting[tag_bank(address // LINE_BYTES)].append(address)
    total = 0
    for queue in waiting.values():
        while queue:
            line = queue[0] // LINE_BYTES
            places: set[int] = set()
            gone: set[int] = set()
            left: list[int] = []
            for address in queue:
                place = address % LINE_BYTES // size
                if place not in places and address // LINE_BYTES == line:
                    gone.add(address // SECTOR_BYTES)
                else:
                    left.append(address)
                places.add(place)
            total += len(gone)
            queue = left
    return total


def atomic_sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one global atomic whose old value is used (`..._op_atom`): as `reduction_sectors`.

    Exact for all but compare-and-swap, which is *modelled*: where its lanes reach lines that share a tag bank they go in an order
    that is not known. Over 6 lines at random the count is one off in 3 of 60 accesses of 4 bytes and 9 of 40 of 8 bytes.
    """
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


def _neighbours_agree(addresses: Addresses, mask: int, lanes: range, distance: int, strict: bool) -> bool:
    """Whether each of `lanes` has the address of the lane whose number differs in bit `distance`. An inactive lane agrees with
    any, or, if `strict`, only with another inactive one."""
    for lane in lanes:
        here, there = mask >> lane & 1, mask >> (lane ^ distance) & 1
        if here and there and addresses[lane] != addresses[lane ^ distance]:
            return False
        if strict and here != there:
            return False
    return True


def shared_wavefronts_load(addresses: Addresses, mask: int, size: int) -> int:
    """Wavefronts of one shared load, as `smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld` counts them.

    Up to 4 bytes as for a store. Two parts of the warp (8 bytes: its halves; 16 bytes: quarters 0 and 1, and 2 and 3) share one pass
    if together they have no bank conflict and their lanes go in pairs of equal addresses: each lane with its neighbour (lane
    number exclusive-or 1), or each with the next but one (exclusive-or 2). An inactive lane goes with any.
    Two oddities at 16 bytes: the lower half of the warp needs no pairs while lane 31 is inactive, and while it is active its
    pairs must be active together or not at all; and if all active lanes have one address, it is a pass for every 16 of them.

    Found by experiment on an H200, see tests/metrics/README.md; equal also for the 490 loads of the truth set's `access/`.
    """
    groups = _groups(addresses, mask, size)
    if size <= BANK_BYTES:
        return _passes(groups[0], size)
    active = [address for _, address in _active(addresses, mask)]
    if size == 16 and len(set(active)) == 1:
        return -(-len(active) // 16)
    total = 0
    for number, (first, second) in enumerate(zip(groups[::2], groups[1::2], strict=True)):
        span = WARP * 2 // len(groups)
        lanes = range(number * span, (number + 1) * span)
        strict = size == 16 and number == 0
        free = strict and not mask >> 31 & 1
        paired = free or any(_neighbours_agree(addresses, mask, lanes, distance, strict) for distance in (1, 2))
        if paired and _passes([*first, *second], size) == 1:
            total += 1
        else:
            total += _passes(first, size) + _passes(second, size)
    return total


def shared_atomic_wavefronts(addresses: Addresses, mask: int, size: int, kind: str = "native") -> int:
    """Wavefronts of one shared atomic or reduction, `smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_atom`.

    kind says what machine instruction it becomes:
    - "native" (4 bytes: add, min, max, inc, dec, and, or, xor, exch; 8 bytes: exch): the most lanes on any one bank, whether they
      want the same word or not; at 8 bytes the two halves of the warp one after the other, over 16 banks of 8 bytes.
    - "increment" (`red.shared.add.u32` of the constant 1, `ATOMS.POPC.INC`): as a store, lanes on one word go together.
    - "cas" (`atom.cas` of 4 or 8 bytes): twice "native".
    - "loop" (everything else: floating point, 8 bytes but for exch and cas): see `shared_atomic_loop`.
    """
    if kind == "increment":
        return shared_wavefronts_store(addresses, mask, size)
    if kind == "loop":
        return shared_atomic_loop(addresses, mask, size).atomic_wavefronts
    passes = 0
    for part in _groups(addresses, mask, size):
        lanes_on = [0] * (BANKS * BANK_BYTES // size)
        for address in part:
            lanes_on[address // size % len(lanes_on)] += 1
        passes += max(lanes_on)
    return 2 * passes if kind == "cas" else passes


@dataclass(frozen=True)
class AtomicLoop:
    """A shared atomic that the machine does as a loop of a load and a compare-and-swap. rounds: loads and swaps executed."""

    rounds: int
    load_wavefronts: int
    atomic_wavefronts: int


def shared_atomic_loop(addresses: Addresses, mask: int, size: int) -> AtomicLoop:
    """What a shared atomic costs that becomes a loop of `LDS` and `ATOMS.CAST.SPIN` (floating point; 8 bytes but for exch and cas).

    Each round loads the old values of the lanes still waiting (a shared load of these lanes) and swaps, in 2 passes, or at 8
    bytes 2 for each half of the warp with a lane waiting. In each half (at 4 bytes: in the warp) the lowest lane on each bank
    wins, but loses in the upper half if the lower half has just changed the same 8 bytes. The others go round again.
    The loads count as shared loads too. Assumes that each update changes what it updates: adding zero succeeds at once.
    """
    halves = max(1, size // BANK_BYTES)
    banks = BANKS * BANK_BYTES // size
    rounds = loads = atomics = 0
    while mask:
        rounds += 1
        loads += shared_wavefronts_load(addresses, mask, size)
        changed: set[int] = set()
        for half in range(halves):
            waiting = [(lane, address) for lane, address in _active(addresses, mask) if lane * halves // WARP == half]
            if not waiting:
                continue
            atomics += 2
            taken: set[int] = set()
            winners: set[int] = set()
            for lane, address in waiting:
                bank = address // size % banks
                if bank not in taken and address not in changed:
                    mask &= ~(1 << lane)
                    winners.add(address)
                taken.add(bank)
            changed |= winners
    return AtomicLoop(rounds, loads, atomics)


def local_requests(mask: int, size: int) -> int:
    """Requests of one local load or store (`l1tex__t_requests_pipe_lsu_mem_local_op_ld/st`): one for each 4-byte word of a lane's
    access (`v4.u32`: 4), one for anything smaller."""
    return max(1, size // 4) if mask else 0


def local_sectors(addresses: Addresses, mask: int, size: int) -> int:
    """Sectors of one local load or store (`l1tex__t_sectors_pipe_lsu_mem_local_op_ld/st`).

    addresses are the lanes' own local addresses. Word `w` of lane `l` lies at word `32 w + l`, so a sector holds one word of eight
    neighbouring lanes: distinct pairs of word and lane divided by 8, for each word of the access by itself, added.
    """
    active = _active(addresses, mask)
    return sum(len({(address // 4 + word, lane // 8) for lane, address in active}) for word in range(max(1, size // 4)))


def constant_requests(addresses: Addresses, mask: int) -> int:
    """Requests to the constant cache (`idc__requests`) of one load of 4 bytes or fewer: the distinct 4-byte words."""
    return len({address // 4 for _, address in _active(addresses, mask)})


def ideal_wavefronts(addresses: Addresses, mask: int, size: int) -> int:
    """The fewest wavefronts in which the bytes that the active lanes ask for could move: distinct words over the 32 banks, rounded up."""
    words = {word for _, a in _active(addresses, mask) for word in range(a // BANK_BYTES, (a + size - 1) // BANK_BYTES + 1)}
    return -(-len(words) // BANKS)
