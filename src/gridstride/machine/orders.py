"""Orders of blocks and warps: those that a seed stands for, and any other."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

MAX_ORDER = 1 << 22  # blocks whose order is a table


@dataclass(frozen=True, eq=False)
class Order:
    """blocks: the linear numbers of the blocks in the order in which they start. warps: the same of the warps of each block."""

    blocks: npt.NDArray[np.int64]
    warps: npt.NDArray[np.int32]


def order_of(seed: int | None, blocks: int, warps: int) -> Order | None:
    """The order that a seed stands for, the usual one for None; None where there are too many blocks for a table."""
    if blocks > MAX_ORDER:
        return None
    if seed is None:
        return Order(np.arange(blocks, dtype=np.int64), np.arange(warps, dtype=np.int32))
    rng = np.random.default_rng(seed)
    return Order(rng.permutation(blocks).astype(np.int64), rng.permutation(warps).astype(np.int32))


@dataclass(frozen=True)
class AffineOrder:
    """An order of more blocks than a table could hold: (place * factor + shift) % blocks."""

    factor: int
    shift: int
    warps: npt.NDArray[np.int32]


def affine_order_of(seed: int, blocks: int, warps: int) -> AffineOrder:
    """The order that a seed stands for. A factor has no divisor in common with the blocks, and the products fit 63 bits."""
    rng = np.random.default_rng(seed)
    shift = int(rng.integers(blocks >> 1))
    most = ((1 << 63) - blocks) // blocks
    factor = int(rng.integers(2, min(most, blocks))) if most >= 4 else 1
    while gcd(factor, blocks) != 1:
        factor -= 1
    return AffineOrder(factor, shift, rng.permutation(warps).astype(np.int32))
