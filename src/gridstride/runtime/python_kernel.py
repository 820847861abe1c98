"""`PythonKernel`: a Python function as a kernel on one device, compiled for the types of each launch's arguments."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from gridstride.errors import LaunchError, UsageError
from gridstride.findings import Dim3
from gridstride.frontends.numba_compile import compile_function
from gridstride.frontends.numba_cuda import fitting, is_python_kernel, python_function
from gridstride.frontends.python_function import PythonFunction
from gridstride.frontends.source import python_source
from gridstride.machine.limits import as_dim3
from gridstride.runtime import python_exceptions
from gridstride.runtime.commands import Launch
from gridstride.runtime.contracts.contract import Contract, contract_of
from gridstride.runtime.device import Device, LaunchShape, shared_bytes
from gridstride.runtime.module import Configured, Kernel
from gridstride.runtime.python_arguments import Placing, argument_type, holds_host_array

if TYPE_CHECKING:
    from gridstride.runtime.contracts.proof import Proof
    from gridstride.runtime.streams import Stream

__all__ = ["PythonConfigured", "PythonKernel", "is_python_kernel"]


class PythonKernel:
    """A Python function, launched as `kernel[grid, block](*arguments)`, also as Numba has it: `kernel[grid, block, stream, shared]`.

    Each list of argument types gives a `Kernel` of its own, compiled when it is first needed. NumPy arrays are copied to the device and back.
    """

    def __init__(self, device: Device, source: Any, contracts: Mapping[str, Contract] | None = None) -> None:
        self.device = device
        self.function: PythonFunction = python_function(source)
        self.name = self.function.name
        unknown = [name for name in contracts or {} if name != self.name]
        if unknown:
            raise UsageError(f"there is no kernel {unknown[0]!r} to give a contract to; the function is {self.name}")
        self.contract = (contracts or {}).get(self.name) or contract_of(source) or contract_of(self.function.function)
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def __getitem__(self, dimensions: Any) -> PythonConfigured:
        if not isinstance(dimensions, tuple) or not 2 <= len(dimensions) <= 4:
            raise LaunchError(f"write {self.name}[grid, block](…) or {self.name}[grid, block, stream, shared](…)")
        stream = dimensions[2] if len(dimensions) > 2 else None
        shared = dimensions[3] if len(dimensions) > 3 else 0
        return PythonConfigured(self, as_dim3(dimensions[0], "grid"), as_dim3(dimensions[1], "block"), stream, shared)

    def with_contract(self, contract: Contract | None) -> PythonKernel:
        """The same kernel under a contract (None: under none), which every launch must keep."""
        other = copy.copy(self)
        other.contract, other._kernels = contract, {}
        return other

    def for_each(self, extent: int | Sequence[int] | None = None, *, block: Any = None) -> PythonForEach:
        """The kernel with the grid, block and shared memory that its contract needs for so many elements, as `Kernel.for_each`."""
        return PythonForEach(self, extent, block)

    def prove(self, *, arguments: Callable[..., Sequence[Any]], **options: Any) -> Proof:
        """Run the kernel in the simulator for sizes around the borders of its blocks (`gridstride.runtime.contracts.proof.prove`).

        arguments: `make(device, *extent)` gives the arguments for a size; their types say for which the kernel is compiled.
        """
        if self.contract is None:
            raise UsageError(f"{self.name} has no contract to prove; give it one with @gs.contract(…) (docs/contracts.md)")
        return self.specialize(*arguments(self.device, *(1,) * self.contract.axes)).prove(arguments=arguments, **options)

    def __call__(self, *arguments: Any, **options: Any) -> None:
        raise LaunchError(f"{self.name} needs its grid and block: write {self.name}[grid, block](…)")

    def specialize(self, *arguments: Any) -> Kernel:
        """The kernel for arguments of these types. Raises CompileError, UnsupportedError, UsageError."""
        self.function.require_count(len(arguments))
        return self.for_types(fitting(self.function, tuple(map(argument_type, arguments))))

    def for_types(self, types: Sequence[Any]) -> Kernel:
        """The kernel for arguments of these (Numba's) types."""
        key = tuple(types)
        if key not in self._kernels:
            compiled = compile_function(self.function, key, self.device.spec.target)
            self._kernels[key] = self.device.load(python_source(compiled))[compiled.entry].with_contract(self.contract)
        return self._kernels[key]

    def command(self, shape: LaunchShape, arguments: Sequence[Any], caller: FrameType | None = None) -> Launch:
        """A launch to be asked of a stream or a graph. Raises LaunchError for NumPy arrays, which nobody would copy back."""
        for name, argument in zip(self.function.parameters, arguments, strict=False):
            if holds_host_array(argument):
                raise LaunchError(f"{self.name}: {name} is a NumPy array, which lies in the host's memory; copy it with device.array(…) and pass that")
        return self.prepare(shape, arguments, caller)[0]

    def prepare(self, shape: LaunchShape, arguments: Sequence[Any], caller: FrameType | None = None) -> tuple[Launch, Placing]:
        """A launch, and the copies of the host's arrays that it uses."""
        kernel = self.specialize(*arguments)
        placing = Placing(self.device)
        given = [placing.place(argument, name) for argument, name in zip(arguments, self.function.parameters, strict=True)]
        return kernel.command(shape, given, caller), placing

    def __repr__(self) -> str:
        return f"<gridstride.PythonKernel {self.name}({', '.join(self.function.parameters)}) on {self.device}>"


class PythonConfigured(Configured):
    """A Python kernel with its grid and block."""

    def __init__(self, kernel: PythonKernel, grid: Dim3, block: Dim3, stream: Any, shared: int) -> None:
        super().__init__(kernel, grid, block)
        self._python = kernel
        self._given_stream, self._shared = stream, shared

    def __call__(
        self, *arguments: Any, stream: Stream | None = None, shared: int | None = None, cooperative: bool = False, cluster: Any = None
    ) -> None:
        """As `Kernel[grid, block](…)`; NumPy arrays and records are copied to the device before the launch, and back after it."""
        target = self._stream(self._given_stream if stream is None else stream)
        blocks = None if cluster is None else as_dim3(cluster, "cluster")
        size = shared_bytes(self._shared if shared is None else shared)
        shape = LaunchShape(self._grid, self._block, size, bool(cooperative), blocks)
        command, placing = self._python.prepare(shape, arguments, sys._getframe(1))
        target.submit(command)
        may_raise = python_exceptions.may_raise(command.kernel)
        if placing.copies or may_raise:
            target.synchronize()
        if may_raise:
            python_exceptions.require_none(command.kernel)
        placing.copy_back()


class PythonForEach:
    """A Python kernel whose contract tells its grid, block and shared memory from the arguments."""

    launches = True

    def __init__(self, kernel: PythonKernel, extent: Any, block: Any) -> None:
        self._python, self._extent, self._block = kernel, extent, block

    def __call__(self, *arguments: Any, stream: Stream | None = None, shared: int | None = None, cooperative: bool = False) -> None:
        """As `kernel[grid, block](…)`. shared: more than the contract needs."""
        grid, block, needed = self._dimensions(arguments)
        configured = PythonConfigured(self._python, grid, block, None, needed)
        configured(*arguments, stream=stream, shared=shared, cooperative=cooperative)

    def command(self, arguments: Sequence[Any], caller: FrameType | None = None, **options: Any) -> Launch:
        """The launch as data, for a stream or a graph."""
        grid, block, shared = self._dimensions(arguments)
        return PythonConfigured(self._python, grid, block, None, shared).command(arguments, caller, **{"shared": shared, **options})

    def _dimensions(self, arguments: Sequence[Any]) -> tuple[Dim3, Dim3, int]:
        return self._python.specialize(*arguments).for_each(self._extent, block=self._block).dimensions(arguments)
