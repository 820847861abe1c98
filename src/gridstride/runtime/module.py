"""`Module` and `Kernel`: compiled code on one device, and `kernel[grid, block](…)`."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import LaunchError, UnsupportedError, UsageError
from gridstride.machine.limits import as_dim3
from gridstride.machine.occupancy import Occupancy, occupancy
from gridstride.runtime.array import Array, Storage
from gridstride.runtime.device import Device, LaunchOutcome, LaunchShape, shared_bytes
from gridstride.runtime.marshal import pack_arguments
from gridstride.runtime.names import buffer_names
from gridstride.runtime.parameters import KernelParameter

if TYPE_CHECKING:
    from gridstride.frontends.source import Resources


class Kernel:
    """One kernel, launched as `kernel[grid, block](*arguments)`.

    name: as the source has it; entry: as PTX has it (mangled). resources: what the compiler reported, None for plain PTX.
    max_threads: the kernel's own bound on its block. static_shared: bytes a block uses apart from what a launch adds.
    """

    def __init__(
        self,
        device: Device,
        program: Any,
        name: str,
        entry: str,
        parameters: Sequence[KernelParameter],
        parameter_bytes: int,
        *,
        static_shared: int = 0,
        max_threads: int | None = None,
        resources: Resources | None = None,
    ) -> None:
        self.device = device
        self.program = program
        self.name = name
        self.entry = entry
        self.parameters = tuple(parameters)
        self.parameter_bytes = parameter_bytes
        self.static_shared = static_shared
        self.max_threads = max_threads
        self.resources = resources

    def __getitem__(self, dimensions: Any) -> Configured:
        """The kernel with its grid and block, each a number or up to three of them."""
        if not isinstance(dimensions, tuple) or len(dimensions) != 2:
            raise LaunchError(
                f"write {self.name}[grid, block](…), where each is a number or a tuple of up to three; shared memory goes in as shared=BYTES"
            )
        return Configured(self, as_dim3(dimensions[0], "grid"), as_dim3(dimensions[1], "block"))

    def __call__(self, *arguments: Any, **options: Any) -> None:
        raise LaunchError(f"{self.name} needs its grid and block: write {self.name}[grid, block](…)")

    def launch(self, shape: LaunchShape, arguments: Sequence[Any], caller: FrameType | None = None) -> LaunchOutcome:
        """Check the arguments, run to the end, and say how long it took. `caller` is where variable names are looked up."""
        parameters = pack_arguments(self.name, self.parameters, self.parameter_bytes, arguments, self.device)
        return self.device.launch(self, shape, parameters, buffer_names(self.parameters, arguments, caller))

    def occupancy(self, shape: LaunchShape) -> Occupancy | None:
        """How much of a multiprocessor the launch could fill; None where the kernel's registers are not known (plain PTX)."""
        if self.resources is None:
            return None
        return occupancy(self.device.spec, math.prod(shape.block), self.resources.registers, self.static_shared + shape.shared)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{p.c_type.strip()} {p.name}" if p.c_type else f"{p.describe()} {p.name}" for p in self.parameters)
        return f"<gridstride.Kernel {self.name}({parameters})>"


class Configured:
    """A kernel with its grid and block."""

    def __init__(self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        self._kernel = kernel
        self._grid = grid
        self._block = block

    def __call__(self, *arguments: Any, stream: Any = None, shared: int = 0, cooperative: bool = False, cluster: Any = None) -> None:
        """Run the kernel to its end.

        shared: dynamic shared memory in bytes. cooperative: all blocks are resident, so that the grid may synchronise.
        cluster: blocks a cluster. stream: only the default stream so far.

        Raises LaunchError before anything runs where the arguments or dimensions do not fit, KernelFault when the kernel is stopped.
        """
        if stream not in (None, 0):
            raise UnsupportedError("streams are not supported yet; leave stream out for the default stream")
        shape = LaunchShape(
            self._grid, self._block, shared_bytes(shared), bool(cooperative), None if cluster is None else as_dim3(cluster, "cluster")
        )
        self._kernel.launch(shape, arguments, sys._getframe(1))


class Module:
    """The kernels of one source. `module["saxpy"]` finds a kernel by the name in the source or by its mangled name."""

    def __init__(self, device: Device, kernels: Sequence[Kernel], ptx: str, variables: Mapping[str, Storage]) -> None:
        self.device = device
        self.ptx = ptx
        self._variables = dict(variables)
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._by_entry = {kernel.entry: kernel for kernel in kernels}

    def __getitem__(self, name: str) -> Kernel:
        kernel = self._kernels.get(name) or self._by_entry.get(name)
        if kernel is None:
            raise UsageError(f"there is no kernel {name!r} in this module{_hint(name, [*self._kernels, *self._by_entry], self._kernels)}")
        return kernel

    def __contains__(self, name: object) -> bool:
        return name in self._kernels or name in self._by_entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def variable(self, name: str, dtype: npt.DTypeLike = np.uint8) -> Array:
        """A `__device__` or `__constant__` variable of the module as a flat array of `dtype`, to be read or set by the host."""
        storage = self._variables.get(name)
        if storage is None:
            raise UsageError(f"there is no variable {name!r} in this module{_hint(name, list(self._variables), self._variables)}")
        element = np.dtype(dtype)
        if element.itemsize == 0 or storage.size % element.itemsize:
            raise UsageError(f"the variable {name!r} has {storage.size} bytes, which is no whole number of {element} elements")
        return Array(storage, storage.address, (storage.size // element.itemsize,), element)

    def __repr__(self) -> str:
        return f"<gridstride.Module on {self.device}: {', '.join(self._kernels) or 'no kernels'}>"


def _hint(name: str, candidates: Sequence[str], names: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, candidates, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    shown = list(names)[:8]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"; it has {', '.join(shown)}{more}" if shown else "; it has none"
