"""An image in tiles, for where memory is short: each tile is read with the pixels around it that its edges need, and done as an image by itself.

What a tile makes of the pixels within `Parameters.halo` of a side that is no border of the image is wrong, and cut off; all that is left
is what the whole image would have given, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gridstride.errors import UsageError

_WORTHWHILE = 4
"""Rows of a tile of the whole width, in halos, below which narrower tiles are taken instead: the halo is computed twice."""


@dataclass(frozen=True)
class Tile:
    """`made`: rows and columns of the image that it gives; `read`: those that it takes in; `kept`: the made ones among the read ones."""

    made: tuple[slice, slice]
    read: tuple[slice, slice]
    kept: tuple[slice, slice]


def tiles(height: int, width: int, halo: int, rows: int, columns: int) -> Iterator[Tile]:
    """Tiles of at most `rows` by `columns` that make each pixel of an image once, row by row."""
    for top in range(0, height, rows):
        for left in range(0, width, columns):
            down, across = _extent(top, rows, height, halo), _extent(left, columns, width, halo)
            yield Tile((down[0], across[0]), (down[1], across[1]), (down[2], across[2]))


def _extent(start: int, size: int, whole: int, halo: int) -> tuple[slice, slice, slice]:
    """What is made, read and kept along one axis."""
    end = min(start + size, whole)
    first, last = max(start - halo, 0), min(end + halo, whole)
    return slice(start, end), slice(first, last), slice(start - first, end - first)


def tile_size(height: int, width: int, halo: int, limit: int, row_bytes: Callable[[int], int]) -> tuple[int, int]:
    """The rows and columns that tiles can make in `limit` bytes. row_bytes: bytes of one row of an image of the given width.

    Bands of the whole width as long as the halo is a small part of them, then narrower tiles. Raises `UsageError` where not even one pixel fits.
    """
    columns = width
    while True:
        read = min(width, columns + 2 * halo)
        needed = row_bytes(read)
        fitting = limit // needed
        rows = height if fitting >= height else fitting - 2 * halo
        if rows >= min(height, _WORTHWHILE * halo, columns) or (columns == 1 and rows >= 1):
            return rows, columns
        if columns == 1:
            raise UsageError(f"{limit:,} bytes of memory are too little: the smallest tile needs {needed * min(height, 2 * halo + 1):,}")
        columns = -(-columns // 2)
