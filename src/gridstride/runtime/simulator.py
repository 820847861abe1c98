"""The simulator as a device: kernels run on this machine's processor, memory is an arena of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import KernelFault, LaunchError, UsageError
from gridstride.findings import Finding
from gridstride.frontends.source import LoadedSource, load_source
from gridstride.machine import launch as engine
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.launch_options import LaunchOptions
from gridstride.machine.launch_options import LaunchOutcome as EngineOutcome
from gridstride.machine.limits import check_launch
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.program import Program, load_program
from gridstride.observers.checks import launch_shape
from gridstride.observers.metrics.collect import collect
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.runtime import profiling
from gridstride.runtime.array import Array, Storage
from gridstride.runtime.checking import native_kinds
from gridstride.runtime.checking import record as record_findings
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, Shape
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.output import write_standard_output
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.witness import LaunchInView, Witness

_ALWAYS_FITS = 256
_LOCKSTEP_BUDGET = 1 << 26  # loop iterations: below a second
"""Threads of a block for which any kernel has registers enough: 65,536 registers, at most 255 a thread."""


class Simulator(Device):
    """A simulated GPU. Every launch runs to its end before the call returns."""

    def __init__(
        self, spec: DeviceSpec, *, seed: int | None = None, threads: int | None = None, budget: int | None = None, lockstep: bool = False
    ) -> None:
        super().__init__(f"sim:{spec.key}", spec)
        self.seed = seed
        self.threads = threads
        self.budget = budget
        self.lockstep = lockstep
        self.memory = Memory(spec.memory_bytes)
        self._unused: deque[Allocation] = deque()
        self._witness = Witness(self.memory)

    def compile(self, source: str | PathLike[str], **options: Any) -> SimulatedModule:
        if not isinstance(source, str | PathLike):
            raise UsageError(f"give a path (.cu or .ptx), CUDA C++ text or PTX text to compile, not {type(source).__name__} {source!r:.60}")
        text = source if isinstance(source, str) else Path(fspath(source))
        return SimulatedModule(self, load_source(text, **{"arch": self.spec.target, **options}))

    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        self._free_unused()
        allocation = self.memory.allocate(nbytes, name=name or "")
        # The garbage collector may end an array at any moment, in the middle of an allocation too: it only leaves a note here.
        note = self._unused.append
        storage = Storage(self, _Bytes(self.memory), allocation.address, nbytes, name, lambda: note(allocation), self._free_unused)
        storage.on_read = self._witness.host_reads
        return storage

    def _free_unused(self) -> None:
        while self._unused:
            allocation = self._unused.popleft()
            self.memory.free(allocation)
            self._witness.freed(allocation)

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        array = super().empty(shape, dtype, name=name)
        self._witness.made(array)
        return array

    def launch(self, kernel: Kernel, shape: LaunchShape, parameters: bytes, names: Mapping[int, str]) -> LaunchOutcome:
        self._free_unused()
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
        except LaunchError as error:
            record_findings([launch_shape.refused(kernel.name, str(error))])
            raise
        module = kernel.module
        if not isinstance(module, SimulatedModule):
            raise LaunchError(f"{kernel.name} was compiled for {module.device}, not for {self}")
        view = LaunchInView(kernel, module.program, shape, self._options(shape), names)
        before = self._witness.begins(view)
        try:
            outcome = self._run(view, parameters, view.options)
        except KernelFault as fault:
            told = _in_the_sources_words(self._witness.told(view, fault), kernel)
            self._witness.stopped(view, told)
            raise told from None
        if outcome.counts is not None:
            profiling.record(self._metrics(outcome, kernel, shape, names))
        self._witness.ended(view, outcome)
        if before is not None:
            self._witness.compare_schedules(view, before, lambda seed: self._run_again(view, parameters, seed))
        return LaunchOutcome(outcome.seconds, shape.threads)

    def _run_again(self, view: LaunchInView, parameters: bytes, seed: int | None) -> None:
        """Run a launch in another order, or in strict lockstep (None), for what it leaves in memory only."""
        options = replace(view.options, seed=seed, profile=False, checks=frozenset())
        if seed is None:
            # lanes that wait for each other in a loop that counts or sleeps are no deadlock to the scheduler, and would go on for ever
            options = replace(options, seed=view.options.seed, lockstep=True, budget=view.options.budget or _LOCKSTEP_BUDGET)
        try:
            self._run(view, parameters, options, stdout=lambda text: None)
        except KernelFault as fault:
            raise _in_the_sources_words(fault, view.kernel) from None

    def _metrics(self, outcome: EngineOutcome, kernel: Kernel, shape: LaunchShape, names: Mapping[int, str]) -> LaunchMetrics:
        assert outcome.counts is not None
        resources = kernel.resources
        given = [self.memory.find(address) for address in names]
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
            profile=profiling.is_profiling(),
            checks=native_kinds(),
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

    def synchronize(self) -> None:
        """Nothing to wait for: every launch has ended when its call returns."""


class SimulatedModule(Module):
    """A module whose program runs on the simulator."""

    device: Simulator

    def __init__(self, device: Simulator, source: LoadedSource, program: Program | None = None) -> None:
        super().__init__(device, source)
        names = {source.names.display(entry): entry for entry in source.names.entries}
        self.program = program or load_program(source.ptx, file_names=source.files, entry_names=names)

    @cached_property
    def variables(self) -> Mapping[str, Storage]:
        memory = self.device.memory
        placed = self.program.globals(memory)
        return {name: Storage(self.device, _Bytes(memory), variable.address, variable.size, name) for name, variable in placed.items()}

    def fresh(self) -> SimulatedModule:
        device = self.device
        return SimulatedModule(
            Simulator(device.spec, seed=device.seed, threads=device.threads, budget=device.budget, lockstep=device.lockstep), self.source, self.program
        )

    def _make(self, entry: str) -> Kernel:
        layout = self.program.entries[entry]
        declared = self.source.parameters(entry)
        names = self.source.parameter_names(entry)
        parameters = [
            KernelParameter(
                position,
                (names[position] if names else "") or parameter.name,
                parameter.name,
                parameter.type,
                parameter.size,
                parameter.align,
                parameter.offset,
                declared[position].type if declared else None,
            )
            for position, parameter in enumerate(layout.parameters)
        ]
        return Kernel(self, entry, parameters, layout.parameter_bytes, static_shared=layout.static_shared, max_threads=layout.max_threads)

    def _with_source(self, source: LoadedSource) -> SimulatedModule:
        return SimulatedModule(self.device, source)


def _in_the_sources_words(fault: KernelFault, kernel: Kernel) -> KernelFault:
    """The fault with the kernel's name as people write it in place of the compiler's."""
    found = replace(fault.fault, kernel=kernel.name) if isinstance(fault.fault, Finding) else fault.fault
    told = KernelFault(str(fault).replace(f"`{kernel.entry}`", f"`{kernel.name}`"), fault.code, found)
    told.raw_findings = fault.raw_findings
    return told


class _Bytes:
    """The simulator's memory as arrays see it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        return self._memory.bytes_view(address, size)

    def write(self, address: int, data: npt.NDArray[np.uint8]) -> None:
        self._memory.bytes_view(address, data.size)[...] = data
        self._memory.mark_written(address, data.size)
