"""`Operation`: one thing that the host asked a device to do, as the model of time and the check of streams see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What an operation occupies: kernels the multiprocessors, copies one copy engine per direction, the rest nothing."""

    KERNEL = "kernel"
    TO_DEVICE = "copy to device"
    TO_HOST = "copy to host"
    ON_DEVICE = "copy on device"
    FILL = "fill"
    HOST = "host function"
    EVENT = "event"
    WAIT = "wait"
    PREFETCH_TO_DEVICE = "prefetch to device"
    PREFETCH_TO_HOST = "prefetch to host"
    GRAPH = "graph"
    ALLOCATE = "allocate"
    FREE = "free"

    @property
    def engine(self) -> str | None:
        """The engine that does it, one operation at a time; None: it needs none, or kernels share the multiprocessors."""
        return _ENGINES.get(self)


_ENGINES = {
    Kind.TO_DEVICE: "to device",
    Kind.PREFETCH_TO_DEVICE: "to device",
    Kind.TO_HOST: "to host",
    Kind.PREFETCH_TO_HOST: "to host",
}
HOST = -1
"""In place of a stream's number: what the host's own access to memory sets off."""
LEGACY = 0
"""Number of the legacy default stream, which waits for all blocking streams and they for it."""


@dataclass(frozen=True)
class Operation:
    """One operation. `after` are the numbers of those that must end first: the one before it in its stream, what its stream waits for,
    and what the legacy default stream's rule adds.

    stream: its stream's number, 0 for the legacy default stream. microseconds: how long it runs, without waiting. share: of the device,
    for kernels: 1 fills it. nbytes: that a copy moves. pageable: the host's end is pageable memory. host_waits: the host goes on only when
    it has ended. buffers: what it works on, for a person. in_graph: it is a node of a graph that was launched as one. stream_name: what
    messages call the stream.
    """

    number: int
    kind: Kind
    name: str
    stream: int
    after: tuple[int, ...]
    microseconds: float = 0.0
    share: float = 1.0
    nbytes: int = 0
    pageable: bool = False
    host_waits: bool = False
    buffers: tuple[str, ...] = ()
    priority: int = 0
    in_graph: bool = False
    stream_name: str = ""

    @property
    def where(self) -> str:
        """What messages call its stream."""
        return self.stream_name or ("the host" if self.stream == HOST else "the default stream" if self.stream == LEGACY else f"stream {self.stream}")


@dataclass(frozen=True)
class HostWait:
    """The host waits until all of `until` have ended. what: the call, for a person."""

    until: tuple[int, ...]
    what: str


Step = Operation | HostWait
"""What the host does, one after the other."""
