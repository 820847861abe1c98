"""`PythonModule`: the kernels of a Python file on one device, for launches that are asked for as data (command line, case files)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridstride.errors import UsageError
from gridstride.frontends.numba_cuda import address_type, array_type, fitting, type_of
from gridstride.frontends.python_function import PythonFunction
from gridstride.frontends.python_module import find_function, kernel_names, load_functions, python_reference
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.device import Device
from gridstride.runtime.module import Kernel
from gridstride.runtime.python_kernel import PythonKernel
from gridstride.runtime.request import Argument, Buffer, LaunchRequest, RawPointer


class PythonModule:
    """A Python file, and if it was named one of its functions."""

    def __init__(self, device: Device, source: str | Path) -> None:
        reference = python_reference(source)
        assert reference is not None
        self.device = device
        self.file, self.function = reference
        self._names: Mapping[str, Any] = load_functions(self.file)
        self._kernels: dict[str, PythonKernel] = {}

    @property
    def only(self) -> str | None:
        """The function that the source names, or the only kernel there is."""
        known = kernel_names(self._names)
        return self.function or (known[0] if len(known) == 1 else None)

    def __getitem__(self, name: str) -> PythonKernel:
        if name not in self._kernels:
            self._kernels[name] = PythonKernel(self.device, find_function(self._names, name, self.file))
        return self._kernels[name]

    def declare(self, contracts: Mapping[str, Contract]) -> PythonModule:
        """Give kernels contracts by their names, in place of those of their decorators."""
        for name, contract in contracts.items():
            self._kernels[name] = self[name].with_contract(contract)
        return self

    def __iter__(self) -> Any:
        return iter(kernel_names(self._names))

    def fresh(self) -> PythonModule:
        """Kernels are made anew for each launch."""
        return self

    def kernel_for(self, request: LaunchRequest) -> Kernel:
        """The kernel of a launch, compiled for its arguments, in memory of its own."""
        python = self[request.kernel]
        kernel = python.for_types(fitting(python.function, request_types(python.function, request.arguments)))
        return kernel.module.fresh()[kernel.entry].with_contract(python.contract)


def request_types(function: PythonFunction, arguments: Sequence[Argument]) -> tuple[Any, ...]:
    """Numba's types of what a launch is asked for with. Raises LaunchError where the count is wrong."""
    function.require_count(len(arguments))
    return tuple(map(_type, arguments))


def _type(argument: Argument) -> Any:
    if isinstance(argument, Buffer):
        if not argument.shape:
            raise UsageError("an array without dimensions cannot be asked for here")
        return array_type(np.dtype(argument.dtype), len(argument.shape), "C")
    return address_type() if isinstance(argument, RawPointer) else type_of(argument.value)
