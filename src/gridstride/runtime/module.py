"""`Module` and `Kernel`: compiled code on one device, and `kernel[grid, block](…)`."""

from __future__ import annotations

import copy
import difflib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError, UsageError
from gridstride.findings import Dim3
from gridstride.frontends.names import demangle
from gridstride.frontends.python_parameters import flat_values
from gridstride.frontends.resources import Resources
from gridstride.frontends.source import LoadedSource
from gridstride.machine.limits import as_dim3
from gridstride.machine.occupancy import Occupancy, occupancy
from gridstride.runtime.array import Array
from gridstride.runtime.checking import api_call
from gridstride.runtime.commands import Launch
from gridstride.runtime.contracts.bound import BoundContract
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.contracts.for_each import asked_extent, block_for_each, grid_for_each
from gridstride.runtime.contracts.written import WrittenContracts
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, shared_bytes
from gridstride.runtime.host_memory import HostArray
from gridstride.runtime.lazy import Lazy
from gridstride.runtime.marshal import pack_arguments
from gridstride.runtime.names import buffer_names
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.request import LaunchRequest
from gridstride.runtime.storage import Storage
from gridstride.runtime.streams import Stream

if TYPE_CHECKING:
    from gridstride.runtime.contracts.proof import Proof
    from gridstride.runtime.python_kernel import PythonKernel

LEAST_REGISTERS = 16
"""The driver gives no thread fewer registers (every launch on an H200 whose kernel asks for 8 to 14 shows 16 in Nsight Compute)."""


class Kernel:
    """One kernel, launched as `kernel[grid, block](*arguments)`.

    name: as people write it; entry: as PTX has it (mangled). parameter_bytes: the size of its parameter buffer.
    static_shared: bytes of shared memory a block uses apart from what a launch adds. max_threads: the kernel's own bound on its block.
    """

    def __init__(
        self,
        module: Module,
        entry: str,
        parameters: Sequence[KernelParameter],
        parameter_bytes: int,
        *,
        static_shared: int = 0,
        max_threads: int | None = None,
    ) -> None:
        self.module = module
        self.device = module.device
        self.name = module.source.names.display(entry)
        self.entry = entry
        self.parameters = tuple(parameters)
        self.parameter_bytes = parameter_bytes
        self.static_shared = static_shared
        self.max_threads = max_threads
        self.contract: Contract | None = None
        self.bound: BoundContract | None = None
        """The contract, bound to this kernel's parameters."""

    @cached_property
    def resources(self) -> Resources | None:
        """What the kernel uses on the device, as the compiler reports it; None where nobody can tell (PTX, and no ptxas)."""
        return self.module.source.resources(self.entry, self.device.spec.target)

    @property
    def registers(self) -> int | None:
        """Registers of a thread as a launch gets them (Nsight's `launch__registers_per_thread`): what the compiler asks for, but at least 16."""
        return None if self.resources is None else max(self.resources.registers, LEAST_REGISTERS)

    def with_contract(self, contract: Contract | None) -> Self:
        """The same kernel under a contract (None: under none), which every launch must keep. Raises UsageError where it names what the kernel has not."""
        bound = None if contract is None else BoundContract(contract, self)
        other = copy.copy(self)
        other.contract, other.bound = contract, bound
        return other

    def for_each(self, extent: int | Sequence[int] | None = None, *, block: Any = None) -> ForEach:
        """The kernel with the grid, block and shared memory that its contract needs for so many elements: `saxpy.for_each(n)(n, 2.0, x, y)`.

        extent: elements along x, y and z as the contract's extent has them; None: whatever the arguments of the launch say.
        block: of another shape than the contract's, where that says nothing about it.

        Raises UsageError for a kernel without a contract, or whose contract has no extent.
        """
        return ForEach(self, extent, block)

    def prove(self, **options: Any) -> Proof:
        """Run the kernel in the simulator for sizes around the borders of its blocks, with all checks on, and see that each run keeps what the
        contract promises (`gridstride.runtime.contracts.proof.prove`, which has the options)."""
        from gridstride.runtime.contracts.proof import prove  # here: it brings the simulator

        return prove(self, **options)

    def __getitem__(self, dimensions: Any) -> Configured:
        """The kernel with its grid and block, each a number or up to three of them."""
        if not isinstance(dimensions, tuple) or len(dimensions) != 2:
            raise LaunchError(
                f"write {self.name}[grid, block](…), where each is a number or a tuple of up to three; shared memory goes in as shared=BYTES"
            )
        return Configured(self, as_dim3(dimensions[0], "grid"), as_dim3(dimensions[1], "block"))

    def __call__(self, *arguments: Any, **options: Any) -> None:
        raise LaunchError(f"{self.name} needs its grid and block: write {self.name}[grid, block](…)")

    def command(self, shape: LaunchShape, arguments: Sequence[Any], caller: FrameType | None = None) -> Launch:
        """A launch to be asked of a stream. `caller` is where variable names are looked up.

        Raises LaunchError where arguments or dimensions do not fit.
        """
        given = tuple(argument.mapped if isinstance(argument, HostArray) else argument for argument in arguments)
        python = self.module.source.python
        if python is not None and python.cooperative:
            shape = replace(shape, cooperative=True)  # as Numba does: the kernel synchronises the grid
        flat = self.flat(given)
        with api_call(self.name):
            parameters = pack_arguments(self.name, self.parameters, self.parameter_bytes, flat, self.device)
        names = buffer_names(self.parameters, flat, caller)
        if self.bound is not None:
            self.bound.require_kept(shape, flat)
        self.device.require_launchable(self, shape)
        return Launch(self, shape, parameters, names, given)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The parameters as the source has them, of which one may take several of `parameters`."""
        python = self.module.source.python
        return tuple(parameter.name for parameter in self.parameters) if python is None else python.function.parameters

    def flat(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments as the parameters of the PTX take them. Raises LaunchError where their number is wrong."""
        python = self.module.source.python
        if python is None:
            return tuple(arguments)
        python.function.require_count(len(arguments))
        return tuple(flat_values(python.arguments, arguments))

    def launch(self, shape: LaunchShape, arguments: Sequence[Any], caller: FrameType | None = None) -> LaunchOutcome:
        """Check the arguments, run to the end, and say how long it took; a fault is raised here."""
        return self.device.launch(self.command(shape, arguments, caller))

    def occupancy(self, shape: LaunchShape) -> Occupancy | None:
        """How much of a multiprocessor the launch could fill; None where the kernel's registers are not known."""
        if self.registers is None:
            return None
        return occupancy(self.device.spec, math.prod(shape.block), self.registers, self.static_shared + shape.shared)

    def lazy(self, *arguments: Any, **options: Any) -> None:
        raise LaunchError(f"{self.name} needs its grid and block: write {self.name}[grid, block].lazy(…)")

    def __repr__(self) -> str:
        parameters = ", ".join(f"{p.c_type.strip()} {p.name}" if p.c_type else f"{p.describe()} {p.name}" for p in self.parameters)
        return f"<gridstride.Kernel {self.name}({parameters})>"


class Configured:
    """A kernel with its grid and block."""

    launches = True

    def __init__(self, kernel: Kernel | PythonKernel, grid: Dim3, block: Dim3) -> None:
        self._kernel = kernel
        self._grid = grid
        self._block = block

    def __call__(self, *arguments: Any, stream: Stream | None = None, shared: int = 0, cooperative: bool = False, cluster: Any = None) -> None:
        """Ask for the launch in a stream, the default stream unless one is given.

        shared: dynamic shared memory in bytes. cooperative: all blocks are resident, so that the grid may synchronise.
        cluster: blocks a cluster, as a number or up to three; None: as the kernel was compiled for (`__cluster_dims__`).

        Raises LaunchError before anything runs where the arguments or dimensions do not fit. A kernel that is stopped raises KernelFault at
        the next call that waits for it, or here where the device is `blocking`.
        """
        command = self.command(arguments, sys._getframe(1), shared=shared, cooperative=cooperative, cluster=cluster)
        self._stream(stream).submit(command)

    def command(
        self, arguments: Sequence[Any], caller: FrameType | None = None, *, shared: int = 0, cooperative: bool = False, cluster: Any = None
    ) -> Launch:
        """The launch as data, for a stream or a graph."""
        blocks = None if cluster is None else as_dim3(cluster, "cluster")
        shape = LaunchShape(self._grid, self._block, shared_bytes(shared), bool(cooperative), blocks)
        return self._kernel.command(shape, arguments, caller)

    def lazy(self, *arguments: Any, **options: Any) -> Lazy:
        """The launch as a lazy operation, to be chained with others and run or awaited (`gridstride.runtime.lazy`)."""
        return Lazy(self._kernel.device, (self.command(arguments, sys._getframe(1), **options),))

    def _stream(self, stream: Any) -> Stream:
        if stream is None or (isinstance(stream, int) and stream == 0):
            return self._kernel.device.default_stream
        if not isinstance(stream, Stream):
            raise UsageError(f"a stream is made by device.stream(), not {type(stream).__name__} {stream!r:.40}")
        if stream.device is not self._kernel.device:
            raise UsageError(f"{stream.name} belongs to another device object ({stream.device}) than {self._kernel.name} ({self._kernel.device})")
        return stream


class ForEach(Configured):
    """A kernel whose contract tells its grid, block and shared memory from the arguments."""

    def __init__(self, kernel: Kernel, extent: Any, block: Any) -> None:
        if kernel.bound is None:
            raise UsageError(f"{kernel.name} has no contract, so for_each cannot tell its grid; give it one (docs/contracts.md), or write {kernel.name}[grid, block](…)")
        self._of = kernel
        self._extent = None if extent is None else asked_extent(kernel.bound, extent)
        super().__init__(kernel, (1, 1, 1), block_for_each(kernel, None if block is None else as_dim3(block, "block")))

    def __call__(
        self, *arguments: Any, stream: Stream | None = None, shared: int | None = None, cooperative: bool = False, cluster: Any = None
    ) -> None:
        """Ask for the launch in a stream, as `kernel[grid, block](…)` does. shared: more than the contract needs."""
        command = self.command(arguments, sys._getframe(1), shared=shared, cooperative=cooperative, cluster=cluster)
        self._stream(stream).submit(command)

    def command(
        self, arguments: Sequence[Any], caller: FrameType | None = None, *, shared: int | None = None, cooperative: bool = False, cluster: Any = None
    ) -> Launch:
        grid, block, needed = self.dimensions(arguments)
        configured = Configured(self._of, grid, block)
        return configured.command(arguments, caller, shared=needed if shared is None else shared, cooperative=cooperative, cluster=cluster)

    def dimensions(self, arguments: Sequence[Any]) -> tuple[Dim3, Dim3, int]:
        """Grid, block and dynamic shared memory for these arguments."""
        grid, shared = grid_for_each(self._of, self._extent, self._block, self._of.flat(arguments))
        return grid, self._block, shared


class Module(ABC):
    """The kernels of one source on one device.

    `module["saxpy"]` finds a kernel by any unambiguous spelling of its name: `saxpy`, `ns::saxpy`, `scale<float>`, the mangled name.
    An instance of a template that was not compiled yet is compiled when it is asked for.
    """

    def __init__(self, device: Device, source: LoadedSource) -> None:
        self.device = device
        self.source = source
        self._kernels: dict[str, Kernel] = {}
        self._instances: dict[str, Module] = {}
        self._declared: dict[str, Contract] = {}
        self._written = WrittenContracts(source)

    @property
    def ptx(self) -> str:
        return self.source.ptx

    @property
    @abstractmethod
    def variables(self) -> Mapping[str, Storage]:
        """The memory of the module's variables by name."""

    @abstractmethod
    def fresh(self) -> Module:
        """The same code in new device memory: nothing that launches left behind is there, and module variables have their first values."""

    @abstractmethod
    def _make(self, entry: str) -> Kernel:
        """The kernel of one entry."""

    @abstractmethod
    def _with_source(self, source: LoadedSource) -> Module:
        """A module of the same source with more template instances, on the same device."""

    def __getitem__(self, name: str) -> Kernel:
        entry = self.source.names.find(name)
        if entry is None:
            return self._instance(name)
        if entry not in self._kernels:
            kernel = self._make(entry)
            contract = self._contract_of(entry)
            self._kernels[entry] = kernel if contract is None else kernel.with_contract(contract)
        return self._kernels[entry]

    def kernel_for(self, request: LaunchRequest) -> Kernel:
        """The kernel that a launch asks for."""
        return self[request.kernel]

    def declare(self, contracts: Mapping[str, Contract]) -> Self:
        """Give kernels contracts by their names, in place of those that the source has. Raises UsageError for a name that is no kernel's."""
        if not isinstance(contracts, Mapping) or not all(isinstance(contract, Contract) for contract in contracts.values()):
            raise UsageError("contracts are given by the names of kernels, as in contracts={\"saxpy\": gs.Contract(extent=\"n\")}")
        templates = {name for s in self.source.signatures if s.is_template for name in (s.name, "::".join(s.path))}
        for name in contracts:
            if name.partition("<")[0].strip() not in templates:
                self.source.names.entry(name)
        self._declared |= contracts
        self._kernels.clear()  # they are made anew, with their contracts
        return self

    def _contract_of(self, entry: str) -> Contract | None:
        """The contract that a kernel was given by its name, or that the source has above it."""
        plain = demangle(entry)
        for name, contract in self._declared.items():
            if name in (entry, plain.base, plain.qualified, plain.short) or self.source.names.find(name) == entry:
                return contract
        return self._written.of(entry)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.source.names.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (self.source.names.display(entry) for entry in self.source.names.entries)

    def __len__(self) -> int:
        return len(self.source.names.entries)

    def variable(self, name: str, dtype: npt.DTypeLike = np.uint8) -> Array:
        """A `__device__` or `__constant__` variable of the module as a flat array of `dtype`, to be read or set by the host."""
        storage = self.variables.get(name)
        if storage is None:
            near = difflib.get_close_matches(name, self.variables, 1)
            known = ", ".join(self._own_variables()) or "none"
            raise UsageError(
                f"{self.source.name} has no variable {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; it has {known}")
            )
        element = np.dtype(dtype)
        if element.itemsize == 0 or storage.size % element.itemsize:
            raise UsageError(f"the variable {name!r} has {storage.size} bytes, which is no whole number of {element} elements")
        return Array(storage, storage.address, (storage.size // element.itemsize,), element)

    def _instance(self, name: str) -> Kernel:
        if name not in self._instances:
            source = self.source.with_kernel(name)
            own = self._own_variables()
            if own:
                # The new instance would come with variables of its own, and what the host wrote to these would silently not be there.
                raise UsageError(
                    f"{name} was not compiled with {self.source.name}, whose variables ({', '.join(own)}) it must share; "
                    f"compile it with name_expressions=[{name!r}]"
                )
            self._instances[name] = self._with_source(source).declare(self._declared)
        return self._instances[name][name]

    def _own_variables(self) -> list[str]:
        """The variables that the source declares; the compiler's own (texts of printf, say) begin with signs no C++ name has."""
        return [name for name in self.variables if not name.startswith(("$", "_", "__"))]

    def __repr__(self) -> str:
        return f"<gridstride.Module {self.source.name} on {self.device}: {', '.join(self) or 'no kernels'}>"
