"""Extents at which launches go wrong: around the borders of blocks, smaller than one, in odd shapes, primes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product


def boundary_extents(taken: Sequence[int], *, guarded: bool, nonempty: bool = False) -> list[tuple[int, ...]]:
    """Extents (x, y, z) to try for blocks that take so many elements along each axis, the smallest first.

    guarded: threads beyond the extent do nothing; without that only whole blocks make sense. nonempty: no extent of 0.
    """
    found = _extents(taken, guarded)
    return [extent for extent in found if 0 not in extent] if nonempty else found


def _extents(taken: Sequence[int], guarded: bool) -> list[tuple[int, ...]]:
    if not guarded:
        found = [tuple(n * each for n, each in zip(blocks, taken, strict=True)) for blocks in product((1, 2, 3), repeat=len(taken))]
        return sorted(found, key=_elements)
    if len(taken) == 1:
        each = taken[0]
        sizes = {0, 1, 2, 3, 31, 32, 33, 97, each - 1, each, each + 1, 2 * each - 1, 2 * each, 2 * each + 1, 5 * each + 3, _prime_from(3 * each)}
        return sorted((n,) for n in sizes if n >= 0 and n <= 6 * each + 100)
    along = [sorted({max(1, each - 1), each, each + 1, 2 * each + 1, 1, _prime_from(each + 2)}) for each in taken]
    found = [tuple(axis[0 if k != long else -1] for k, axis in enumerate(along)) for long in range(len(taken))]  # one row, one column
    found += [tuple(0 if k == empty else axis[2] for k, axis in enumerate(along)) for empty in range(len(taken))]
    for shift in (0, 1, 2, 4):  # each length of one axis with several of the others
        for start in range(max(map(len, along))):
            found.append(tuple(axis[(start + shift * k) % len(axis)] for k, axis in enumerate(along)))
    return sorted(dict.fromkeys(found), key=_elements)


def _elements(extent: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    count = 1
    for n in extent:
        count *= n
    return count, extent


def _prime_from(n: int) -> int:
    """The first prime that is at least `n`."""
    n = max(2, n)
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)):
        n += 1
    return n
