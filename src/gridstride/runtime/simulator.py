"""The simulator as a device: kernels run on this machine's processor, memory is an arena of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import KernelFault, LaunchError
from gridstride.findings import Finding
from gridstride.frontends.source import LoadedSource, load_source
from gridstride.machine import launch as engine
from gridstride.machine.devices import DeviceSpec
from gridstride.machine.limits import check_launch
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.program import Program, load_program
from gridstride.observers.checks import launch_shape
from gridstride.observers.checks.out_of_bounds import tell_use_after_free
from gridstride.observers.metrics.collect import collect
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.runtime import checking, profiling
from gridstride.runtime.array import Array, Storage
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, Shape
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.output import write_standard_output
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.schedules import Contents, compare_schedules
from gridstride.runtime.telling import fault_finding, shape_findings, source_lines, tell_launch

_ALWAYS_FITS = 256
"""Threads of a block for which any kernel has registers enough: 65,536 registers, at most 255 a thread."""
_REMEMBERED = 256
"""Freed arrays that are remembered, so that a use after free can be told as one."""


class Simulator(Device):
    """A simulated GPU. Every launch runs to its end before the call returns."""

    def __init__(self, spec: DeviceSpec, *, seed: int | None = None, threads: int | None = None, budget: int | None = None) -> None:
        super().__init__(f"sim:{spec.key}", spec)
        self.seed = seed
        self.threads = threads
        self.budget = budget
        self.memory = Memory(spec.memory_bytes)
        self._unused: deque[Allocation] = deque()
        self._freed: deque[Allocation] = deque(maxlen=_REMEMBERED)
        self._dtypes: dict[int, np.dtype[Any]] = {}

    def compile(self, source: str | PathLike[str], **options: Any) -> SimulatedModule:
        text = source if isinstance(source, str) else Path(fspath(source))
        return SimulatedModule(self, load_source(text, **{"arch": self.spec.target, **options}))

    def allocate(self, nbytes: int, name: str | None = None) -> Storage:
        self._free_unused()
        allocation = self.memory.allocate(nbytes, name=name or "")
        # The garbage collector may end an array at any moment, in the middle of an allocation too: it only leaves a note here.
        note = self._unused.append
        return Storage(self, _Bytes(self.memory), allocation.address, nbytes, name, lambda: note(allocation), self._free_unused)

    def _free_unused(self) -> None:
        while self._unused:
            allocation = self._unused.popleft()
            self.memory.free(allocation)
            self._freed.append(allocation)
            self._dtypes.pop(allocation.address, None)

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, name: str | None = None) -> Array:
        array = super().empty(shape, dtype, name=name)
        self._dtypes[array.address] = array.dtype
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
            checking.record([launch_shape.refused(kernel.name, str(error))])
            raise
        module = kernel.module
        if not isinstance(module, SimulatedModule):
            raise LaunchError(f"{kernel.name} was compiled for {module.device}, not for {self}")
        self._remember_names(names)
        before = Contents.of(self.memory) if checking.schedules() else None
        try:
            outcome = self._run(module.program, kernel, shape, parameters, names)
        except KernelFault as fault:
            told = _in_the_sources_words(tell_use_after_free(fault, self._freed), kernel)
            if checking.is_checking():
                self._record(module, kernel, shape, names, told.raw_findings, fault_finding(told))
                checking.launched(shape.threads, stopped=True)
            raise told from None
        if outcome.counts is not None:
            profiling.record(self._metrics(outcome, kernel, shape, names))
        if checking.is_checking():
            self._record(module, kernel, shape, names, outcome.findings, [])
            checking.launched(shape.threads, outcome.receipt)
            if "malloc" in module.program.module.functions:
                checking.watch_heap(kernel.name, self.memory)
            if before is not None:
                self._compare_schedules(module, kernel, shape, parameters, names, before)
        return LaunchOutcome(outcome.seconds, shape.threads)

    def _remember_names(self, names: Mapping[int, str]) -> None:
        """Arrays without a name are called what their user calls them, also once they are freed."""
        for address, name in names.items():
            allocation = self.memory.find(address)
            if allocation is not None and not allocation.name:
                allocation.name = name

    def _record(
        self,
        module: SimulatedModule,
        kernel: Kernel,
        shape: LaunchShape,
        names: Mapping[int, str],
        raw: Sequence[object],
        more: Sequence[Finding],
    ) -> None:
        """Put what one launch found into the open sessions, while its memory is there to name things by."""
        found = tell_launch(kernel, module.program, shape, self._options(shape), self.memory, names, raw)
        if checking.is_checking(launch_shape.CHECK.kind):
            found += shape_findings(kernel, module.program, shape)
        checking.record([*more, *found], source_lines(module.source).line)

    def _compare_schedules(
        self, module: SimulatedModule, kernel: Kernel, shape: LaunchShape, parameters: bytes, names: Mapping[int, str], before: Contents
    ) -> None:
        """Run the launch again in other orders, on the data that it began with."""

        def run(seed: int) -> None:
            options = engine.LaunchOptions(seed=seed, budget=self.budget, cooperative=shape.cooperative, cluster=shape.cluster)
            self._run(module.program, kernel, shape, parameters, names, options, stdout=lambda text: None)

        first = 1 if self.seed is None else self.seed + 1
        seeds = range(first, first + checking.schedules())
        found = compare_schedules(kernel.name, self.memory, before, run, seeds, names, self._all_dtypes(module.program))
        if found is None:
            checking.skip(f"order-dependent: {kernel.name} allocates memory, whose addresses depend on the order")
        else:
            checking.record(found, source_lines(module.source).line)

    def _all_dtypes(self, program: Program) -> dict[int, np.dtype[Any]]:
        """Element types by allocation address: of arrays, and of floating-point variables of the module."""
        found = dict(self._dtypes)
        for name, allocation in program.globals(self.memory).items():
            kind = program.module.variables[name].type
            if kind.kind == "f" and kind.bits in (16, 32, 64):
                found[allocation.address] = np.dtype(f"f{kind.bits // 8}")
        return found

    def _metrics(self, outcome: engine.LaunchOutcome, kernel: Kernel, shape: LaunchShape, names: Mapping[int, str]) -> LaunchMetrics:
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

    def _options(self, shape: LaunchShape) -> engine.LaunchOptions:
        return engine.LaunchOptions(
            seed=self.seed,
            threads=self.threads,
            budget=self.budget,
            cooperative=shape.cooperative,
            cluster=shape.cluster,
            profile=profiling.is_profiling(),
            checks=checking.native_kinds(),
        )

    def _run(
        self,
        program: Program,
        kernel: Kernel,
        shape: LaunchShape,
        parameters: bytes,
        names: Mapping[int, str],
        options: engine.LaunchOptions | None = None,
        stdout: Callable[[str], object] = write_standard_output,
    ) -> engine.LaunchOutcome:
        return engine.launch(
            program,
            kernel.entry,
            grid=shape.grid,
            block=shape.block,
            parameters=parameters,
            shared_bytes=shape.shared,
            memory=self.memory,
            device=self.spec,
            options=options or self._options(shape),
            buffer_names=names,
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
            Simulator(device.spec, seed=device.seed, threads=device.threads, budget=device.budget), self.source, self.program
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
