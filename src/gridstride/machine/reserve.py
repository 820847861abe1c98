"""Address space that the host fills with zeroed pages when they are first touched."""

from __future__ import annotations

import mmap
import sys

# Not in Python's mmap module before 3.13; the value is the same on every Linux architecture that we run on.
_LINUX_NORESERVE = 0x4000


def reserve(size: int) -> mmap.mmap:
    """`size` bytes of private anonymous memory. Raises OSError where the host refuses so much."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    flags |= getattr(mmap, "MAP_NORESERVE", _LINUX_NORESERVE if sys.platform == "linux" else 0)
    return mmap.mmap(-1, size, flags=flags)
