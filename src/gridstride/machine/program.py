"""A loaded PTX module: its kernels, their parameters, its variables in device memory."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from gridstride.errors import LaunchError, ParseError
from gridstride.findings import Dim3
from gridstride.ir.nodes import Function as IrFunction
from gridstride.isa.types import ScalarType
from gridstride.lower.host import load_object
from gridstride.lower.kernel import (
    KernelCode,
    access_provenance,
    compile_kernel,
    function_numbers,
    parameter_layout,
    select_with_callees,
    shared_layout,
)
from gridstride.lower.records import FUNCTION_STEP, FUNCTION_WINDOW
from gridstride.machine.independence import blocks_are_independent
from gridstride.machine.memory import Allocation, Memory
from gridstride.passes.analyse_shapes import LaneLayout
from gridstride.passes.select_operations import select_operations
from gridstride.ptx.nodes import Function, Module, Variable
from gridstride.ptx.parser import parse

_numbers = itertools.count()


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter. `type` is None for structures and arrays (.b8 name[n]); offset, size, align in bytes."""

    name: str
    type: ScalarType | None
    size: int
    align: int
    offset: int


@dataclass(frozen=True)
class LoadedCode:
    """Native code in this process: `address` of the kernel function."""

    code: KernelCode
    address: int
    tracker: llvm.ResourceTracker


@dataclass(eq=False)
class Entry:
    """One kernel of a program."""

    program: Program
    function: Function
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    _codes: dict[str, LoadedCode] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def max_threads(self) -> int | None:
        """Most threads of a block (.maxntid or .reqntid), None if the program does not say."""
        extents = self.function.directives.get("maxntid") or self.function.directives.get("reqntid")
        if not extents:
            return None
        total = 1
        for extent in extents:
            total *= extent
        return total

    @property
    def required_threads(self) -> tuple[int, int, int] | None:
        """The block shape that .reqntid demands."""
        extents = self.function.directives.get("reqntid")
        if not extents:
            return None
        x, y, z = (*extents, 1, 1)[:3]
        return x, y, z

    @cached_property
    def static_shared(self) -> int:
        """Bytes of shared memory that the kernel declares."""
        return shared_layout(select_operations(self.program.module, self.name).shared)[1]

    @cached_property
    def provenance(self) -> list[list[Any]]:
        """Of each access the parameter that its address was made from (see KernelCode.provenance)."""
        return access_provenance(self.program.module, self.name)

    @cached_property
    def _operations(self) -> IrFunction | None:
        """The kernel's operations; None if it calls functions for real."""
        functions = select_with_callees(self.program.module, self.name)
        return functions[0] if len(functions) == 1 else None

    def independent(self, traits: Mapping[str, bool], parameters: bytes, memory: Memory, grid: Dim3, block: Dim3) -> bool:
        """Whether it is proved that nobody can tell in which order the launch's blocks run."""
        if self._operations is None:
            return False
        offsets, _ = parameter_layout(self.function.parameters)
        buffers = {}
        for site, (offset, _, _) in enumerate(self.provenance):
            allocation = memory.find(int.from_bytes(parameters[offset : offset + 8], "little")) if offset >= 0 else None
            if allocation is not None:
                buffers[site] = (allocation.address, allocation.address + allocation.size)
        return blocks_are_independent(self._operations, traits, offsets, parameters, buffers, grid, block)

    def code(self, layout: LaneLayout, profile: bool = False, checks: frozenset[str] = frozenset(), trusted: tuple[int, ...] = ()) -> LoadedCode:
        """Native code for a lane layout; made (or fetched from the cache) on first use. `trusted`: sites whose loads
        are known to be defined."""
        key = f"{layout.name} {profile} {sorted(checks)} {trusted}"
        if key not in self._codes:
            made = compile_kernel(self.program.module, self.name, layout, profile, checks, trusted)
            tracker, addresses = load_object(f"kernel{next(_numbers)}", made.image, ["kernel"])
            self._codes[key] = LoadedCode(made, addresses["kernel"], tracker)
        return self._codes[key]


class Program:
    """A PTX module, parsed. Its variables are placed in a device's memory when it is first used there."""

    def __init__(self, module: Module, file_names: Mapping[int, str], entry_names: Mapping[str, str]) -> None:
        self.module = module
        self.file_names = {**module.files, **file_names}
        self.entry_names = dict(entry_names)
        self.entries: dict[str, Entry] = {}
        for function in module.entries():
            offsets, size = parameter_layout(function.parameters)
            parameters = tuple(_parameter(p, offsets[p.name]) for p in function.parameters)
            self.entries[function.name] = Entry(self, function, parameters, size)
        self._placed: weakref.WeakKeyDictionary[Memory, dict[str, Allocation]] = weakref.WeakKeyDictionary()

    def entry(self, name: str) -> Entry:
        found = self.entries.get(name) or self.entries.get(self.entry_names.get(name, ""))
        if found is None:
            known = ", ".join(sorted(self.entries)) or "none"
            raise LaunchError(f"there is no kernel `{name}` in this program (its kernels: {known})")
        return found

    def globals(self, memory: Memory) -> dict[str, Allocation]:
        """The module's variables in `memory`, placed and initialised on first use."""
        placed = self._placed.get(memory)
        if placed is None:
            placed = self._placed[memory] = self._place(memory)
        return placed

    def _place(self, memory: Memory) -> dict[str, Allocation]:
        variables = [v for v in self.module.variables.values() if v.space in ("global", "const") and v.size is not None]
        placed = {v.name: memory.allocate(v.size or 0, name=v.name, align=v.align) for v in variables}
        for variable in variables:
            address = placed[variable.name].address
            memory.clear(address, variable.size or 0)
            if variable.initial is not None:
                data = self._relocated(variable, placed) if variable.relocations else variable.initial
                memory.bytes_view(address, len(data))[...] = np.frombuffer(data, np.uint8)
            memory.mark_written(address, variable.size or 0)  # module variables begin as zero
        return placed

    def _relocated(self, variable: Variable, placed: dict[str, Allocation]) -> bytes:
        data = bytearray(variable.initial or b"")
        functions = {name: FUNCTION_WINDOW + FUNCTION_STEP * k for name, k in function_numbers(self.module).items()}
        for relocation in variable.relocations:
            if relocation.symbol in placed:
                address = placed[relocation.symbol].address
            elif relocation.symbol in functions:
                address = functions[relocation.symbol]
            else:
                raise ParseError(f"PTX line {variable.line}: `{relocation.symbol}` in the initialiser of `{variable.name}` is not declared")
            value = (address + relocation.addend) >> relocation.shift
            data[relocation.offset : relocation.offset + relocation.size] = (value & ((1 << 8 * relocation.size) - 1)).to_bytes(relocation.size, "little")
        return bytes(data)


def _parameter(variable: Variable, offset: int) -> Parameter:
    scalar = variable.type if variable.size == variable.type.bytes else None
    return Parameter(variable.name, scalar, variable.size or 0, variable.align, offset)


def load_program(ptx: str, *, file_names: Mapping[int, str] | None = None, entry_names: Mapping[str, str] | None = None) -> Program:
    """Parse PTX text. Raises ParseError with line and caret."""
    return Program(parse(ptx), file_names or {}, entry_names or {})
