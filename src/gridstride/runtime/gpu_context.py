"""The hold of this process on one GPU: CUDA's context, what went wrong in it, and what is to be freed in it."""

from __future__ import annotations

import atexit
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from gridstride.errors import GridstrideError, UsageError
from gridstride.runtime.gpu_driver import DriverError, Gpu, checked, load_driver
from gridstride.runtime.gpu_errors import failure
from gridstride.runtime.health import Health

_BATCH = 64
"""After so many operations of a stream a mark is set behind them, at which what they need is let go."""


@dataclass(eq=False)
class GpuStream:
    """What is kept of a stream. pending: what its operations need until they have ended."""

    handle: Any
    number: int
    name: str
    pending: list[object] = field(default_factory=list)
    closed: bool = False


class GpuContext:
    """The GPU's primary context, which CuPy, PyTorch and everything else on CUDA's runtime use too: so arrays can be shared with them.

    Errors: `check` tells an answer that only concerns its call (DriverError) from one after which the GPU is lost. The latter is kept in
    `health` and comes with the next call that waits, and from then on with every call, as on the simulator.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.driver = load_driver()
        self.device = checked(self.driver.cuDeviceGet(gpu.index), "open the GPU")
        self.handle = checked(self.driver.cuDevicePrimaryCtxRetain(self.device), "open the GPU")
        _open.append(self)
        self.health = Health()
        self.lost = False
        """A kernel was stopped, and with it everything in the context is gone."""
        self.kernels: dict[str, None] = {}
        """The kernels that were launched since the host last waited: one of them is at fault if something is."""
        self.streams: WeakSet[GpuStream] = WeakSet()
        self._unused: deque[Callable[[], object]] = deque()
        self._batches: list[tuple[Any, list[object]]] = []
        self._thread = threading.local()

    # ---- calls -------------------------------------------------------------------------------------------------------

    def use(self) -> None:
        """Make it the calling thread's context; another library may have set its own. What could go wrong the next call tells."""
        self.driver.cuCtxSetCurrent(self.handle)

    def begin(self) -> None:
        """What every call starts with. Raises the fault of an earlier kernel once a call that waits has told of it."""
        if self.in_host_function:
            raise UsageError("a function that a stream calls must not use the device (CUDA forbids it: cudaErrorNotPermitted)")
        self.require_healthy()
        close_retired()
        self.use()
        self.free_unused()

    def require_healthy(self) -> None:
        """Raise the fault of an earlier kernel once a call that waits has told of it."""
        if self.health.surfaced:
            self.health.surface()

    def check(self, answer: tuple[Any, ...], what: str) -> Any:
        """What the driver gave. Raises DriverError, or the failure that all is lost with."""
        status = answer[0]
        if int(status) == 0:
            return answer[1] if len(answer) == 2 else answer[1:] if len(answer) > 2 else None
        name = getattr(status, "name", str(status))
        text = self.driver.cuGetErrorString(status)[1]
        words = text.decode(errors="replace") if isinstance(text, bytes) else ""
        lost = failure(name, words, self.kernels, what)
        if lost is None and not self.lost:
            raise DriverError(f"CUDA could not {what}: {name}{f' ({words})' if words else ''}", name)
        self.lost = True
        if self.health.failure is None:
            assert lost is not None
            self.health.failure = lost
        raise self.health.failure

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around calls that do not wait: that the GPU is lost is for the next call that waits to tell."""
        try:
            yield
        except GridstrideError as error:
            if error is not self.health.failure:
                raise

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around calls that wait, or whose answer is needed: what went wrong before is raised."""
        with self.asking():
            yield
        self.health.surface()

    def result(self, answer: tuple[Any, ...], what: str) -> Any:
        """What the driver gave, where the program cannot go on without it: a lost GPU is told of here."""
        try:
            return self.check(answer, what)
        except GridstrideError as error:
            self.health.surfaced |= error is self.health.failure
            raise

    @property
    def in_host_function(self) -> bool:
        """Whether the calling thread is CUDA's own, in a function that a stream calls."""
        return getattr(self._thread, "in_host_function", False)

    @contextmanager
    def host_function(self) -> Iterator[None]:
        self._thread.in_host_function = True
        try:
            yield
        finally:
            self._thread.in_host_function = False

    # ---- what is not needed any more ---------------------------------------------------------------------------------

    def discard(self, free: Callable[[], object]) -> None:
        """Note something to be freed. The garbage collector calls this at any moment and on any thread, CUDA's too, where no call is allowed."""
        self._unused.append(free)

    def free_unused(self) -> None:
        """Free what was noted; in a context that is lost there is nothing left to free."""
        if self.in_host_function:
            return
        while self._unused:
            free = self._unused.popleft()
            if not self.lost:
                free()  # what it answers is nobody's business: the memory is given up either way

    def keep(self, stream: GpuStream, needed: object) -> None:
        """Keep what an operation needs until the stream has passed it."""
        stream.pending.append(needed)
        if len(stream.pending) >= _BATCH:
            self.mark(stream)

    def mark(self, stream: GpuStream) -> None:
        """Set a mark behind what the stream was asked for; what that needs is let go when a later mark or wait finds this one passed."""
        if self.lost or not stream.pending:
            return
        event = self.check(self.driver.cuEventCreate(self.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING), "make an event")
        self.check(self.driver.cuEventRecord(event, stream.handle), "record an event")
        self._batches.append((event, stream.pending))
        stream.pending = []
        self.let_go()

    def let_go(self) -> None:
        """Drop what operations needed that have ended."""
        waiting = []
        for event, needed in self._batches:
            if not self.lost and self.driver.cuEventQuery(event)[0] == self.driver.CUresult.CUDA_ERROR_NOT_READY:
                waiting.append((event, needed))
            else:
                self.driver.cuEventDestroy(event)
        self._batches = waiting

    def synchronize(self, stream: GpuStream | None, what: str) -> None:
        """Wait for a stream, or for everything. Raises what went wrong."""
        self.begin()
        streams = list(self.streams) if stream is None else [stream]
        passed = [s.pending for s in streams]  # as it is before the wait: another thread may go on asking
        for s in streams:
            s.pending = []
        with self.waiting():
            if stream is None:
                self.check(self.driver.cuCtxSynchronize(), f"wait for {what}")
                self.kernels.clear()
            else:
                self.check(self.driver.cuStreamSynchronize(stream.handle), f"wait for {what}")
            self.let_go()
        del passed

    # ---- the end -----------------------------------------------------------------------------------------------------

    def destroy_stream(self, stream: GpuStream) -> None:
        """Give a stream up; CUDA lets what it was asked for end first."""
        if stream.closed:
            return
        stream.closed = True
        with self.asking():
            self.mark(stream)
            self.check(self.driver.cuStreamDestroy(stream.handle), "give a stream up")

    def close(self) -> None:
        """The device has no user any more, or the program ends: a fault that no call has told of must not be lost."""
        _open.remove(self)
        with self.asking():
            if not self.lost:
                self.use()
                self.check(self.driver.cuCtxSynchronize(), "wait for the GPU")
        if self.health.unobserved is not None:
            print(f"gridstride: {self.health.unobserved}", file=sys.stderr)
        self.let_go()
        self.free_unused()
        self.driver.cuDevicePrimaryCtxRelease(self.device)


_open: list[GpuContext] = []
_retired: deque[GpuContext] = deque()


def retire(context: GpuContext) -> None:
    """Note that a device has ended. The garbage collector comes here at any moment, within calls of the driver too, where none may be made."""
    _retired.append(context)


def close_retired() -> None:
    """Close the contexts of devices that have ended."""
    while _retired:
        _retired.popleft().close()


@atexit.register
def _close_all() -> None:
    _retired.clear()
    for context in tuple(_open):
        context.close()
