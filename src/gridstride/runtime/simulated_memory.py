"""The simulator's memory as arrays see it, and who is told what the host does with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gridstride.events.operations import Kind
from gridstride.machine.memory import Memory
from gridstride.runtime.array import Array
from gridstride.runtime.commands import label
from gridstride.runtime.simulated_queue import SimulatedQueue
from gridstride.runtime.storage import Watcher
from gridstride.runtime.witness import Witness


class ArenaBytes:
    """The simulator's memory as arrays see it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        return self._memory.bytes_view(address, size)

    def write(self, address: int, data: npt.NDArray[np.uint8]) -> None:
        self._memory.bytes_view(address, data.size)[...] = data
        self._memory.mark_written(address, data.size)


class HostWatcher(Watcher):
    """What the host does with a simulator's arrays outside of streams, for its queue and for its witness."""

    def __init__(self, queue: SimulatedQueue, witness: Witness) -> None:
        self._queue = queue
        self._witness = witness

    def begins(self) -> None:
        self._queue.require_outside_streams()

    def host_reads(self, array: Array) -> None:
        self._queue.outside_streams(f"the copy of {label(array)} to the host", array, kind=Kind.TO_HOST)
        self._witness.host_reads(array)

    def host_wrote(self, array: Array) -> None:
        self._queue.outside_streams(f"the copy to {label(array)}", array, kind=Kind.TO_DEVICE)

    def copied(self, destination: Array, source: Array) -> None:
        self._queue.outside_streams(f"the copy of {label(source)} to {label(destination)}", destination, kind=Kind.ON_DEVICE, source=source)

    def filled(self, array: Array) -> None:
        self._queue.outside_streams(f"the fill of {label(array)}", array, kind=Kind.FILL)
