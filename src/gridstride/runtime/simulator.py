"""The simulator as a device: kernels run on this machine's processor, memory is an arena of its own."""

from __future__ import annotations

import math
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gridstride.errors import KernelFault, LaunchError
from gridstride.events.hazards import Ranges, ranges, runs
from gridstride.events.operations import LEGACY
from gridstride.findings import Finding
from gridstride.frontends.source import LoadedSource
from gridstride.machine import launch as engine
from gridstride.machine.clusters import check_cooperative, cluster_of
from gridstride.machine.detectors import race_planes
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.launch_options import LaunchOptions
from gridstride.machine.launch_options import LaunchOutcome as EngineOutcome
from gridstride.machine.limits import check_launch
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.orders import Order
from gridstride.observers.checks import double_write, launch_shape, race_global
from gridstride.observers.metrics.collect import collect
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.runtime import profiling, python_exceptions
from gridstride.runtime.array import Array
from gridstride.runtime.checking import native_kinds
from gridstride.runtime.checking import record as record_findings
from gridstride.runtime.commands import Allocate, Command, Launch
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, Shape
from gridstride.runtime.health import Health
from gridstride.runtime.module import Kernel
from gridstride.runtime.output import write_standard_output
from gridstride.runtime.simulated_memory import ArenaBytes, HostWatcher
from gridstride.runtime.simulated_module import SimulatedModule
from gridstride.runtime.simulated_queue import EventMark, SimulatedQueue
from gridstride.runtime.storage import Storage
from gridstride.runtime.witness import LaunchInView, Witness

if TYPE_CHECKING:
    from gridstride.runtime.graph import Replay
    from gridstride.runtime.streams import Event, Stream

_LOCKSTEP_BUDGET = 1 << 26  # loop iterations: below a second
_ALWAYS_FITS = 256
"""Threads of a block for which any kernel has registers enough: 65,536 registers, at most 255 a thread."""


class Simulator(Device):
    """A simulated GPU. Every launch runs to its end when it is asked for; what streams and events would have made of it is modelled."""

    stream_priorities = (0, -5)  # of an H200, by cuCtxGetStreamPriorityRange

    def __init__(
        self,
        spec: DeviceSpec,
        *,
        seed: int | None = None,
        threads: int | None = None,
        budget: int | None = None,
        lockstep: bool = False,
        blocking: bool = False,
        per_thread_default: bool = False,
    ) -> None:
        super().__init__(f"sim:{spec.key}", spec, blocking=blocking, per_thread_default=per_thread_default)
        self.seed = seed
        self.threads = threads
        self.budget = budget
        self.lockstep = lockstep
        self.memory = Memory(spec.memory_bytes)
        self._unused: deque[Allocation] = deque()
        self._witness = Witness(self.memory)
        self._queue = SimulatedQueue(self)
        self._watcher = HostWatcher(self._queue, self._witness)
        self._pinned: dict[int, int] = {}  # address → bytes
        self._pinned_in_place: dict[int, int] = {}  # the same, of memory that the device did not allocate
        self._dropped: deque[int] = deque()  # numbers of streams that nobody holds any more
        self._said = weakref.finalize(self, _tell_unobserved, self._queue.health)

    def load(self, source: LoadedSource) -> SimulatedModule:
        return SimulatedModule(self, source)

    def another(self) -> Simulator:
        """A device like this one with memory of its own."""
        return Simulator(
            self.spec,
            seed=self.seed,
            threads=self.threads,
            budget=self.budget,
            lockstep=self.lockstep,
            blocking=self.blocking,
            per_thread_default=self.per_thread_default,
        )

    # ---- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        with self._queue.lock:
            self._queue.require_healthy()
            self._free_unused()
            allocation = self.memory.allocate(nbytes, name=name or "")
        # The garbage collector may end an array at any moment, in the middle of an allocation too: it only leaves a note here.
        note = self._unused.append
        storage = Storage(self, ArenaBytes(self.memory), allocation.address, nbytes, name, lambda: note(allocation), self._free_now)
        storage.watcher = self._watcher
        return storage

    def _free_now(self) -> None:
        with self._queue.lock:
            self._free_unused()

    def _free_unused(self) -> None:
        while self._dropped:
            self._queue.close(self._dropped.popleft())
        while self._unused:
            allocation = self._unused.popleft()
            self.memory.free(allocation)
            self._witness.freed(allocation)
            self._pinned.pop(allocation.address, None)
            self._queue.pages.drop(allocation.address)

    def allocate_host(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        storage, memory = self._shared_with_host(nbytes, name)
        self._pinned[storage.address] = nbytes
        return storage, memory

    def allocate_managed(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        storage, memory = self._shared_with_host(nbytes, name)
        self._queue.pages.add(storage.address, nbytes)
        return storage, memory

    def _shared_with_host(self, nbytes: int, name: str | None) -> tuple[Storage, npt.NDArray[np.uint8]]:
        """Memory that the host writes where nobody sees it: it counts as written."""
        storage = self.allocate(nbytes, name)
        self._queue.concurrent = True
        if nbytes:
            self.memory.clear(storage.address, nbytes)
            self.memory.mark_written(storage.address, nbytes)
        return storage, self.memory.bytes_view(storage.address, nbytes)

    def pool_array(self, stream: Stream, shape: Shape, dtype: npt.DTypeLike, name: str | None) -> Array:
        array = self.empty(shape, dtype, name=name)
        self._queue.submit(stream, Allocate(array))
        return array

    def made(self, array: Array) -> None:
        self._witness.made(array)

    def is_pinned(self, address: int) -> bool:
        """Whether an address lies in pinned memory."""
        if any(start <= address < start + nbytes for start, nbytes in list(self._pinned_in_place.items())):
            return True
        if not self._pinned:
            return False
        allocation = self.memory.find(address)
        return allocation is not None and allocation.address in self._pinned

    def pin(self, address: int, nbytes: int) -> None:
        """Page-lock memory of the host where it lies (`cudaHostRegister`): copies from and to it run beside other work."""
        self._queue.concurrent = True
        self._pinned_in_place[address] = nbytes

    def unpin(self, address: int) -> None:
        """Undo `pin`."""
        del self._pinned_in_place[address]

    def host_touches(self, array: Array, *, reads: bool, writes: bool) -> None:
        self._queue.host_touches(array, reads=reads, writes=writes)

    def place_of(self, address: int) -> tuple[str | None, int | None, int]:
        """The name of the buffer that holds an address, the index of the element there, and the bytes of an element (4 where unknown)."""
        allocation = self.memory.find(address)
        if allocation is None:
            return None, None, 4
        size = self._witness.element_size(allocation)
        return allocation.name or None, None if size is None else (address - allocation.address) // size, size or 4

    # ---- streams -----------------------------------------------------------------------------------------------------

    def submit(self, stream: Stream, command: Command) -> None:
        self._queue.submit(stream, command)

    def new_stream(self, stream: Stream) -> None:
        if stream.number != LEGACY:
            self._queue.require_healthy()
            self._queue.open(stream)
            # The garbage collector may end a stream at any moment: it only leaves a note.
            weakref.finalize(stream, self._dropped.append, stream.number).atexit = False

    def close_stream(self, stream: Stream) -> None:
        self._queue.close(stream.number)

    def stream_done(self, stream: Stream) -> bool:
        self._queue.seen_done(self._queue.moment(stream))
        return True  # everything is carried out when it is asked for

    def synchronize_stream(self, stream: Stream) -> None:
        self._queue.synchronize(self._queue.moment(stream), stream.name)

    def new_event(self, event: Event) -> EventMark:
        self._queue.require_healthy()
        return EventMark()

    def record_event(self, stream: Stream, event: Event) -> None:
        self._queue.record(stream, event)

    def wait_event(self, stream: Stream, event: Event) -> None:
        self._queue.wait(stream, event)

    def event_recorded(self, event: Event) -> bool:
        mark: EventMark = event.native
        return mark.moment is not None

    def event_done(self, event: Event) -> bool:
        mark: EventMark = event.native
        self._queue.seen_done(mark.moment)
        return True

    def synchronize_event(self, event: Event) -> None:
        mark: EventMark = event.native
        if mark.moment is not None:
            self._queue.synchronize(mark.moment, "an event")

    def elapsed_ms(self, start: Event, end: Event) -> float:
        return self._queue.elapsed_ms(start, end)

    def new_replay(self, replay: Replay) -> EventMark:
        return EventMark()

    def update_replay(self, replay: Replay, number: int) -> None: ...

    def launch_replay(self, stream: Stream, replay: Replay) -> None:
        self._queue.launch_replay(stream, replay)

    @property
    def unobserved(self) -> str | None:
        """What went wrong and no call has told of yet."""
        return self._queue.health.unobserved

    def synchronize(self) -> None:
        self.require_no_capture("waiting for the device")
        self._queue.synchronize(None, "the device")

    # ---- launches ----------------------------------------------------------------------------------------------------

    def require_launchable(self, kernel: Kernel, shape: LaunchShape) -> None:
        module = kernel.module
        if not isinstance(module, SimulatedModule):
            raise LaunchError(f"{kernel.name} was compiled for {module.device}, not for {self}")
        resources = kernel.resources if shape.threads_per_block > _ALWAYS_FITS else None
        try:
            check_launch(
                self.spec,
                shape.grid,
                shape.block,
                kernel.static_shared + shape.shared,
                registers=resources.registers if resources else None,
                max_threads=kernel.max_threads,
            )
            cluster = cluster_of(kernel.name, module.program.entries[kernel.entry].function.directives, shape.cluster, shape.grid, self.spec)
            if shape.cooperative:
                check_cooperative(self.spec, shape.grid, shape.threads_per_block, kernel.registers, kernel.static_shared + shape.shared, cluster)
        except LaunchError as error:
            record_findings([launch_shape.refused(kernel.name, str(error))])
            raise

    def touched(self, command: Launch) -> tuple[Ranges, Ranges, Ranges]:
        """The words of its buffers and of the module's variables that the launch which has just run read, that it wrote, and that only its
        atomics touched."""
        planes = race_planes(self.memory)
        module = command.kernel.module
        assert isinstance(module, SimulatedModule)
        found: tuple[list[tuple[int, int]], ...] = ([], [], [])
        given = [self.memory.find(address) for address in command.names]
        for allocation in (*given, *module.program.globals(self.memory).values()):
            if allocation is not None and allocation.size:
                for spans, mask in zip(found, planes.touched(allocation.address, allocation.size), strict=True):
                    spans += runs(mask, allocation.address)
        reads, writes, updates = map(ranges, found)
        return reads, writes, updates

    def share_of(self, command: Launch) -> float:
        """How much of the device a launch's blocks fill."""
        found = command.kernel.occupancy(command.shape)
        resident = found.blocks if found is not None and found.blocks else 1
        return min(1.0, math.prod(command.shape.grid) / (resident * self.spec.multiprocessors))

    def launch(self, command: Launch) -> LaunchOutcome:
        self.require_launchable(command.kernel, command.shape)
        return self._queue.run(self.default_stream, command)

    def execute(self, command: Launch) -> LaunchOutcome:
        """Run a kernel, whatever stream it is in."""
        self._free_unused()
        kernel, shape, names = command.kernel, command.shape, command.names
        module = kernel.module
        assert isinstance(module, SimulatedModule)
        options = replace(self._options(shape), registers=kernel.registers if shape.cooperative else None)
        outputs = command.outputs if double_write.CHECK.kind in options.checks else ()
        if outputs:
            options = replace(options, covered=tuple(output.watched for output in outputs))
        else:
            options = replace(options, checks=options.checks - {double_write.CHECK.kind})
        view = LaunchInView(kernel, module.program, shape, options, names, outputs, command.parameters)
        before = self._witness.begins(view)
        try:
            outcome = self._run(view, command.parameters, view.options)
            if (raised := python_exceptions.raised(kernel)) is not None:
                raised.raw_findings = tuple(outcome.findings)
                raise raised
        except KernelFault as fault:
            told = fault if fault.raised is not None else _in_the_sources_words(self._witness.told(view, fault), kernel)
            self._witness.stopped(view, told)
            raise told from None
        kernel_us = None
        if outcome.counts is not None:
            metrics = self._metrics(outcome, kernel, shape, names)
            kernel_us = metrics.kernel_us
            profiling.record(metrics)
        self._witness.ended(view, outcome)
        if before is not None:
            self._witness.compare_schedules(view, before, lambda how: self._run_again(view, command.parameters, how))
        return LaunchOutcome(outcome.seconds, shape.threads, kernel_us)

    def _run_again(self, view: LaunchInView, parameters: bytes, how: int | Order | None) -> None:
        """Run a launch with another seed, in an order, or in strict lockstep (None), for what it leaves in memory only."""
        options = replace(view.options, profile=False, checks=frozenset())
        if isinstance(how, Order):
            options = replace(options, order=how)
        elif how is not None:
            options = replace(options, seed=how)
        else:
            # lanes that wait for each other in a loop that counts or sleeps are no deadlock to the scheduler, and would go on for ever
            options = replace(options, lockstep=True, budget=view.options.budget or _LOCKSTEP_BUDGET)
        try:
            self._run(view, parameters, options, stdout=lambda text: None)
        except KernelFault as fault:
            raise _in_the_sources_words(fault, view.kernel) from None

    def _metrics(self, outcome: EngineOutcome, kernel: Kernel, shape: LaunchShape, names: Mapping[int, str]) -> LaunchMetrics:
        assert outcome.counts is not None
        resources = kernel.resources
        given = [self.memory.find(address) for address in names]
        extents: Mapping[int, tuple[int, int]] = getattr(names, "extents", {})
        buffers = {p.offset: (p.name, extents[p.offset][1] - extents[p.offset][0]) for p in kernel.parameters if p.offset in extents}
        profile = collect(
            outcome.counts,
            kernel=kernel.name,
            device=self.name,
            grid=shape.grid,
            block=shape.block,
            shared_dynamic=shape.shared,
            registers=kernel.registers,
            seconds=outcome.seconds,
            footprint_bytes=sum(allocation.size for allocation in given if allocation is not None),
            buffers=buffers,
        )
        return LaunchMetrics.of(profile, spill_bytes=resources.spill_store_bytes if resources else 0)

    def _options(self, shape: LaunchShape) -> LaunchOptions:
        return LaunchOptions(
            seed=self.seed,
            threads=self.threads,
            budget=self.budget,
            lockstep=self.lockstep,
            cooperative=shape.cooperative,
            cluster=shape.cluster,
            profile=profiling.is_profiling() or self._queue.keeps_time,
            checks=native_kinds() | ({race_global.CHECK.kind} if self._queue.traces else frozenset()),
            trace=self._queue.traces,
        )

    def _run(
        self, view: LaunchInView, parameters: bytes, options: LaunchOptions, stdout: Callable[[str], object] = write_standard_output
    ) -> EngineOutcome:
        return engine.launch(
            view.program,
            view.kernel.entry,
            grid=view.shape.grid,
            block=view.shape.block,
            parameters=parameters,
            shared_bytes=view.shape.shared,
            memory=self.memory,
            device=self.spec,
            options=options,
            buffer_names=view.names,
            extents=getattr(view.names, "extents", None),
            stdout=stdout,
        )


def _in_the_sources_words(fault: KernelFault, kernel: Kernel) -> KernelFault:
    """The fault with the kernel's name as people write it in place of the compiler's."""
    found = replace(fault.fault, kernel=kernel.name) if isinstance(fault.fault, Finding) else fault.fault
    told = KernelFault(str(fault).replace(f"`{kernel.entry}`", f"`{kernel.name}`"), fault.code, found)
    told.raw_findings = fault.raw_findings
    return told


def _tell_unobserved(health: Health) -> None:
    """A fault that no call has told of must not be lost with its device."""
    if health.unobserved is not None:
        print(f"gridstride: {health.unobserved}", file=sys.stderr)
