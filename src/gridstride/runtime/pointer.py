"""Raw device addresses, said to be addresses: a number alone is never taken for a pointer."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsIndex

from gridstride.errors import UsageError


@dataclass(frozen=True)
class Pointer:
    """A device address as a kernel argument; what lies there is the caller's business. Made by `pointer`."""

    address: int


def pointer(address: SupportsIndex) -> Pointer:
    """The device address `address` (0 is null) for a pointer parameter.

    Raises UsageError unless it is a whole number of 64 bits without sign.
    """
    try:
        value = operator.index(address)
    except TypeError:
        raise UsageError(f"an address is a whole number, not {address!r}") from None
    if not 0 <= value < 1 << 64:
        raise UsageError(f"the address {value:#x} does not fit 64 bits")
    return Pointer(value)
