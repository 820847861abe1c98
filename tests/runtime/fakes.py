"""Device memory for tests of what lies above the engine: a NumPy array with an address."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridstride.runtime.array import Array
from gridstride.runtime.storage import Storage

BASE = 0x7000_0000_0000


class FakeMemory:
    """Bytes from BASE on; `freed` counts what was given back."""

    def __init__(self, size: int = 4096) -> None:
        self.data = np.zeros(size, np.uint8)
        self.freed = 0

    def read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        assert address >= BASE and address + size <= BASE + self.data.size
        return self.data[address - BASE : address - BASE + size]

    def write(self, address: int, data: npt.NDArray[np.uint8]) -> None:
        self.read(address, data.size)[...] = data

    def release(self) -> None:
        self.freed += 1


def array_on(memory: FakeMemory, values: npt.ArrayLike, *, name: str | None = None, offset: int = 0, device: object = "test") -> Array:
    host = np.asarray(values)
    storage = Storage(device, memory, BASE + offset, host.nbytes, name, memory.release)
    return Array(storage, storage.address, host.shape, host.dtype).copy_from(host)
