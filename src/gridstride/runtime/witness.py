"""What a simulator remembers of its arrays and launches, to tell findings by: names, element types, what was freed, what the host reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.machine.launch_options import LaunchOptions, LaunchOutcome
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.orders import Order
from gridstride.machine.program import Program
from gridstride.machine.raw_findings import FOR_EVER, RawFinding
from gridstride.observers.checks import launch_shape, uninitialised
from gridstride.observers.checks.deadlock import tell_missed_meeting
from gridstride.observers.checks.double_free import tell_double_free
from gridstride.observers.checks.out_of_bounds import tell_use_after_free
from gridstride.runtime.checking import heap_of, is_checking, launched, record, schedules, skip, watch_heap
from gridstride.runtime.contracts.coverage import Output
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.rounded_grids import RoundedGrids
from gridstride.runtime.schedules import Contents, ScheduleShape, compare_schedules
from gridstride.runtime.telling import fault_finding, in_its_language, scene_of, shape_findings, source_lines, tell_launch

if TYPE_CHECKING:
    from gridstride.runtime.array import Array
    from gridstride.runtime.module import Kernel

_REMEMBERED = 256
"""Freed arrays that are remembered, so that a use after free can be told as one."""


@dataclass(frozen=True)
class LaunchInView:
    """One launch of a program's kernel: what it ran on, and what the arrays it was given are called (by allocation address)."""

    kernel: Kernel
    program: Program
    shape: LaunchShape
    options: LaunchOptions
    names: Mapping[int, str]
    outputs: tuple[Output, ...] = ()
    """Those of which the kernel's contract gives each element to one thread, in the order of `options.covered`."""
    parameters: bytes = b""


class Witness:
    """Watches one memory for the sessions of `gs.checking()`."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._freed: deque[Allocation] = deque(maxlen=_REMEMBERED)
        self._dtypes: dict[int, np.dtype[Any]] = {}
        self._last_use: dict[int, LaunchInView] = {}
        self._rounded = RoundedGrids(memory)
        self._heap: list[Allocation] = []  # of the device, as it was before the launch that runs

    def made(self, array: Array) -> None:
        """An array lies at the start of an allocation."""
        self._dtypes[array.address] = array.dtype

    def element_size(self, allocation: Allocation) -> int | None:
        """Bytes of the elements of the array that an allocation was made for, where that is known."""
        dtype = self._dtypes.get(allocation.address)
        return None if dtype is None else dtype.itemsize

    def freed(self, allocation: Allocation) -> None:
        self._freed.append(allocation)
        self._dtypes.pop(allocation.address, None)
        self._last_use.pop(allocation.address, None)
        self._rounded.forget(allocation.address)

    def begins(self, launch: LaunchInView) -> Contents | None:
        """Before a launch: arrays without a name are called what their user calls them, also once they are freed.

        Gives what memory holds where other schedules have to begin with it.
        """
        for address, name in launch.names.items():
            allocation = self._memory.find(address)
            if allocation is not None and not allocation.name:
                allocation.name = name
        if is_checking() and "malloc" in launch.program.module.functions:
            self._heap = heap_of(self._memory)
        if not schedules():
            return None
        launch.program.globals(self._memory)  # the first launch would place them
        return Contents.of(self._memory)

    def stopped(self, launch: LaunchInView, fault: KernelFault) -> None:
        """A launch ended with a fault (told in the source's words)."""
        if is_checking():
            self._record(launch, fault.raw_findings, fault_finding(fault))
            launched(launch.shape.threads, stopped=True)

    def told(self, launch: LaunchInView, fault: KernelFault) -> KernelFault:
        """The fault, as a use after free or a double free where it is one, and a deadlock as the meeting that some threads miss."""
        why = [raw for raw in fault.raw_findings if isinstance(raw, RawFinding) and raw.detail == FOR_EVER]
        if fault.code == "deadlock" and why:
            fault.raw_findings = tuple(raw for raw in fault.raw_findings if raw not in why)
            fault = tell_missed_meeting(fault, self._tell(launch, why)[0])
        return tell_use_after_free(tell_double_free(fault), self._freed)

    def ended(self, launch: LaunchInView, outcome: LaunchOutcome) -> None:
        """A launch ended as it should."""
        if not is_checking():
            return
        self._record(launch, outcome.findings, [])
        source = launch.kernel.module.source
        record([in_its_language(finding, source) for finding in self._of_outputs(launch, outcome)], source_lines(source).line)
        launched(launch.shape.threads, outcome.receipt)
        self._last_use |= dict.fromkeys(launch.names, launch)
        if is_checking(launch_shape.CHECK.kind) and is_checking("race-global"):
            self._look_at_tails(launch)
        if "malloc" in launch.program.module.functions:
            watch_heap(launch.kernel.name, self._memory, self._heap)

    def _of_outputs(self, launch: LaunchInView, outcome: LaunchOutcome) -> list[Finding]:
        """Elements of outputs that no thread wrote, and writes beside them."""
        if not outcome.writers:
            return []
        scene = scene_of(launch.kernel, launch.program, launch.shape, launch.options, self._memory, launch.names)
        found: list[Finding] = []
        for output, writers in zip(launch.outputs, outcome.writers, strict=True):
            name = launch.names.get(output.array.storage.address, output.parameter)
            found += output.findings(launch.kernel.name, writers, scene, name)
        return found

    def _look_at_tails(self, launch: LaunchInView) -> None:
        use = launch_shape.index_use(launch.program.module, launch.kernel.entry)
        found = [(self._memory.find(address), name) for address, name in launch.names.items()]
        outputs = [(a, name or a.name, self._dtypes[a.address].itemsize) for a, name in found if a is not None and a.address in self._dtypes and a.size]
        self._rounded.launched(launch.kernel.name, use, launch.shape.grid, launch.shape.block, launch.parameters, outputs)

    def _tell(self, launch: LaunchInView, raw: Sequence[object]) -> list[Finding]:
        return tell_launch(launch.kernel, launch.program, launch.shape, launch.options, self._memory, launch.names, raw)

    def _record(self, launch: LaunchInView, raw: Sequence[object], more: Sequence[Finding]) -> None:
        """Put what one launch found into the open sessions, while its memory is there to name things by."""
        found = self._tell(launch, raw)
        if is_checking(launch_shape.CHECK.kind):
            found += shape_findings(launch.kernel, launch.program, launch.shape)
        source = launch.kernel.module.source
        record([in_its_language(finding, source) for finding in (*more, *found)], source_lines(source).line)

    def compare_schedules(self, launch: LaunchInView, before: Contents, run: Callable[[int | Order | None], object]) -> None:
        """Run the launch again in other orders (`run` takes the seed or the order, None for lockstep), on the data that it began with."""
        seed, kernel = launch.options.seed, launch.kernel
        first = 1 if seed is None else seed + 1
        seeds = range(first, first + schedules())
        compiled = "reqnctapercluster" in launch.program.entries[kernel.entry].function.directives
        what = ScheduleShape(launch.shape.grid, -(-prod(launch.shape.block) // 32), seed, compiled or launch.shape.cluster is not None)
        found = compare_schedules(kernel.name, self._memory, before, run, seeds, launch.names, self._all_dtypes(launch.program), what)
        if found is None:
            skip(f"order-dependent: {kernel.name} allocates memory, whose addresses depend on the order")
        else:
            record(found, source_lines(kernel.module.source).line)

    def _all_dtypes(self, program: Program) -> dict[int, np.dtype[Any]]:
        """Element types by allocation address: of arrays, and of floating-point variables of the module."""
        found = dict(self._dtypes)
        for name, allocation in program.globals(self._memory).items():
            kind = program.module.variables[name].type
            if kind.kind == "f" and kind.bits in (16, 32, 64):
                found[allocation.address] = np.dtype(f"f{kind.bits // 8}")
        return found

    def host_reads(self, array: Array) -> None:
        """The host reads an array: elements that a launch was to write and nobody has written are a finding."""
        if array.size == 0 or not is_checking(uninitialised.CHECK.kind):
            return
        allocation = self._memory.find(array.address)
        launch = self._last_use.get(allocation.address) if allocation is not None else None
        if allocation is None or launch is None:
            return
        shadow = self._memory.definedness().view(allocation.address, allocation.size)
        # An element counts where none of its bytes was written: fields of a structure may leave padding between them.
        states = array.over(shadow)
        name = launch.names.get(allocation.address) or allocation.name
        never = np.all(states == uninitialised.NEVER, axis=-1).reshape(-1)
        copied = np.all(states == uninitialised.COPIED, axis=-1).reshape(-1)
        found: list[Finding] = []
        left = self._rounded.host_reads(array.address, array.size * array.dtype.itemsize) if array.contiguous else []
        if not never.any():
            found += left
        else:
            found.append(uninitialised.unwritten_output(launch.kernel.name, name, never, array.address))
            first = int(np.argmax(never))
            if array.contiguous and array.address == allocation.address and never[first:].all() and is_checking(launch_shape.CHECK.kind):
                use = launch_shape.index_use(launch.program.module, launch.kernel.entry)
                grid, block = launch.shape.grid, launch.shape.block
                tail = launch_shape.tail_left_out(use, launch.kernel.name, grid, block, name, array.size, first)
                found += [tail] if tail is not None else []
        if copied.any():
            found.append(uninitialised.copied_output(launch.kernel.name, name, copied, array.address))
        record(found, source_lines(launch.kernel.module.source).line)
