"""A module whose program runs on the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from gridstride.frontends.source import LoadedSource
from gridstride.machine.program import Program, load_program
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.parameters import kernel_parameters
from gridstride.runtime.simulated_memory import ArenaBytes
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.runtime.simulator import Simulator


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
        return {name: Storage(self.device, ArenaBytes(memory), variable.address, variable.size, name) for name, variable in placed.items()}

    def fresh(self) -> SimulatedModule:
        return SimulatedModule(self.device.another(), self.source, self.program).declare(self._declared)

    def _make(self, entry: str) -> Kernel:
        layout = self.program.entries[entry]
        parameters = kernel_parameters(entry, self.source, self.program)
        return Kernel(self, entry, parameters, layout.parameter_bytes, static_shared=layout.static_shared, max_threads=layout.max_threads)

    def _with_source(self, source: LoadedSource) -> SimulatedModule:
        return SimulatedModule(self.device, source)
