"""`PythonKernel`: a Python function as a kernel on one device, compiled for the types of each launch's arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from gridstride.errors import LaunchError
from gridstride.findings import Dim3
from gridstride.frontends.numba_compile import compile_function
from gridstride.frontends.numba_cuda import fitting, is_python_kernel, python_function
from gridstride.frontends.python_function import PythonFunction
from gridstride.frontends.source import python_source
from gridstride.machine.limits import as_dim3
from gridstride.runtime import python_exceptions
from gridstride.runtime.commands import Launch
from gridstride.runtime.device import Device, LaunchShape, shared_bytes
from gridstride.runtime.module import Configured, Kernel
from gridstride.runtime.python_arguments import Placing, argument_type, holds_host_array

if TYPE_CHECKING:
    from gridstride.runtime.streams import Stream

__all__ = ["PythonConfigured", "PythonKernel", "is_python_kernel"]


class PythonKernel:
    """A Python function, launched as `kernel[grid, block](*arguments)`, also as Numba has it: `kernel[grid, block, stream, shared]`.

    Each list of argument types gives a `Kernel` of its own, compiled when it is first needed. NumPy arrays are copied to the device and back.
    """

    def __init__(self, device: Device, source: Any) -> None:
        self.device = device
        self.function: PythonFunction = python_function(source)
        self.name = self.function.name
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def __getitem__(self, dimensions: Any) -> PythonConfigured:
        if not isinstance(dimensions, tuple) or not 2 <= len(dimensions) <= 4:
            raise LaunchError(f"write {self.name}[grid, block](…) or {self.name}[grid, block, stream, shared](…)")
        stream = dimensions[2] if len(dimensions) > 2 else None
        shared = dimensions[3] if len(dimensions) > 3 else 0
        return PythonConfigured(self, as_dim3(dimensions[0], "grid"), as_dim3(dimensions[1], "block"), stream, shared)

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
            self._kernels[key] = self.device.load(python_source(compiled))[compiled.entry]
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
