"""Code on the way to a launch: what numba links (`Linker`), what it loads (`LoadedModule`), and what it launches (`LoadedKernel`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from gridstride.errors import UsageError
from gridstride.frontends.names import demangle
from gridstride.frontends.numba_compile import linkable, providers
from gridstride.frontends.numba_cuda import arguments_of
from gridstride.frontends.python_function import CompiledPython, PythonFunction
from gridstride.frontends.python_linking import Linkable, limit_registers, linked
from gridstride.frontends.python_names import name_shared_arrays
from gridstride.frontends.python_parameters import Argument
from gridstride.frontends.resources import Resources
from gridstride.frontends.source import python_source
from gridstride.machine.occupancy import occupancy
from gridstride.numba_host.errors import Unsupported, as_numba_raises
from gridstride.runtime.module import Kernel
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.numba_host.simulation import Simulation
    from gridstride.runtime.simulator import Simulator


@dataclass(frozen=True)
class Linked:
    """What a link gives and numba keeps, also on disk, in the place of machine code: PTX."""

    ptx: str

    @property
    def code(self) -> bytes:
        return self.ptx.encode()


class Linker:
    """In the place of numba's linker, which asks the driver: takes PTX and CUDA C++, gives PTX. Machine code is refused."""

    def __init__(
        self, max_registers: int | None = None, lineinfo: bool = False, cc: Any = None, lto: bool | None = None, additional_flags: Any = None
    ) -> None:
        self.lto = False
        self.info_log = self.error_log = ""
        self._arch = f"sm_{cc[0]}{cc[1]}"
        self._max_registers = max_registers
        self._texts: list[str] = []
        self._codes: list[Linkable] = []

    def add_ptx(self, ptx: bytes | str, name: str = "") -> None:
        self._texts.append(ptx if isinstance(ptx, str) else ptx.decode())

    def add_file_guess_ext(self, code: Any, ignore_nonlto: bool = False) -> None:
        """Code that numba or the program wants linked. What the simulator, or the link itself, has of its own is left out."""
        name = code if isinstance(code, str) else code.name
        if "cudadevrt" not in Path(name).name:
            with as_numba_raises("cuLinkAddData"):
                self._codes.append(linkable(code))

    def add_cu_file(self, path: str) -> None:
        self.add_file_guess_ext(path)

    def complete(self) -> Linked:
        with as_numba_raises("cuLinkComplete"):
            debug = any(".section" in text for text in self._texts)
            ptx = linked("the kernel", self._texts, self._codes, providers(), self._arch, debug=debug)
            return Linked(ptx if self._max_registers is None else limit_registers(ptx, self._max_registers))

    def get_linked_ptx(self) -> bytes:
        return self.complete().code


class FunctionAttributes:
    """What numba shows of a kernel: registers a thread, and bytes of shared, local and constant memory. Raises CudaSupportError for what only
    NVIDIA's assembler could tell and there is none."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def maxthreads(self) -> int:
        return self._kernel.max_threads or self._kernel.device.spec.architecture.threads_per_block

    @property
    def shared(self) -> int:
        return self._kernel.static_shared

    @property
    def regs(self) -> int:
        return self._assembled.registers

    @property
    def local(self) -> int:
        return self._assembled.stack_bytes

    @property
    def const(self) -> int:
        """Without the bank that holds the launch's parameters, as CUDA counts it."""
        return sum(size for bank, size in self._assembled.constant_bytes.items() if bank != 0)

    @property
    def _assembled(self) -> Resources:
        report = self._kernel.module.source.resource_report(self._kernel.device.spec.target)
        found = report.kernels.get(self._kernel.entry)
        if found is None:
            raise Unsupported(f"the registers and memory of {self._kernel.name} are not known: {report.reason}")
        return found


class LoadedKernel:
    """One kernel of a linked text, on whatever device the simulation has; loaded there when it is first used.

    Numba keeps it as its function, its kernel and its handle at once. `name` is what it is called in the PTX.
    """

    def __init__(self, module: LoadedModule, entry: str) -> None:
        self.module = module
        self.kernel = self.handle = self
        self._entry = entry
        self.name = _short(entry, module.linked.ptx)
        self._function: PythonFunction | None = None
        self.arguments: tuple[Argument, ...] | None = None
        """How the Python function's arguments lie among the parameters; None until they are known."""
        self._on: tuple[Simulator, Kernel] | None = None

    def describe(self, function: FunctionType | None, types: Sequence[Any]) -> None:
        """Numba says which function this is, for arguments of which types."""
        if self.arguments is not None:
            return
        code = getattr(function, "__code__", None)
        names = code.co_varnames[: len(types)] if code is not None else tuple(f"argument {k + 1}" for k in range(len(types)))
        self._function = PythonFunction(function or _UNKNOWN, names)
        self.arguments = arguments_of(names, types)
        self._on = None

    def on(self, device: Simulator) -> Kernel:
        """The kernel on a device. Raises ParseError, UnsupportedError."""
        if self._on is None or self._on[0] is not device:
            ptx = self.module.linked.ptx.replace(self._entry, self.name)
            function = self._function or PythonFunction(_UNKNOWN, ())
            compiled = CompiledPython(function, name_shared_arrays(ptx, function.function), self.name, self.arguments or ())
            self._on = device, device.load(python_source(compiled))[self.name]
        return self._on[1]

    @property
    def current(self) -> Kernel:
        return self.on(self.module.simulation.device)

    @property
    def attrs(self) -> FunctionAttributes:
        with as_numba_raises("cuFuncGetAttribute"):
            return FunctionAttributes(self.current)

    @property
    def attributes(self) -> LoadedKernel:
        return self

    @property
    def max_threads_per_block(self) -> int:
        """Threads of the largest block it can be launched with."""
        return self.attrs.maxthreads

    def resident_blocks(self, threads: int, shared: int) -> int:
        """Blocks of so many threads and so much dynamic shared memory that a multiprocessor holds at once."""
        kernel = self.current
        return occupancy(kernel.device.spec, threads, kernel.registers, kernel.static_shared + shared).blocks

    def cache_config(self, prefer_equal: bool = False, prefer_cache: bool = False, prefer_shared: bool = False) -> None:
        """The split between cache and shared memory is a wish on a GPU too."""

    def set_shared_memory_carveout(self, carveout: int) -> None:
        if not -1 <= int(carveout) <= 100:
            raise ValueError("Carveout must be between -1 and 100")

    def __repr__(self) -> str:
        return f"<CUDA function {self.name} on {self.module.simulation.device}>"


class LoadedModule:
    """A linked text in the simulated device, as numba's `Context.create_module_image` gives it."""

    def __init__(self, simulation: Simulation, linked: Linked, setup: Sequence[Any] = (), teardown: Sequence[Any] = ()) -> None:
        if teardown:
            raise Unsupported("code with a teardown callback cannot be linked on the simulator, where CUDA's handle of a module means nothing")
        self.simulation = simulation
        self.linked = linked
        self.handle = simulation.new_handle()
        self.initialized = False
        self._setup = setup
        self._kernels: dict[str, LoadedKernel] = {}
        simulation.modules[self.handle] = self

    def setup(self) -> None:
        """Before the first launch: call what linked code wants called."""
        self.initialized = True
        for callback in self._setup:
            callback(self)

    def get_function(self, entry: str) -> LoadedKernel:
        if entry not in self._kernels:
            self._kernels[entry] = LoadedKernel(self, entry)
        return self._kernels[entry]

    def variable(self, name: str) -> Storage:
        """A variable of the module. Raises UsageError where there is none."""
        for kernel in self._kernels.values():
            found = kernel.current.module.variables.get(name)
            if found is not None:
                return found
        raise UsageError(f"the module has no variable {name}")

    def get_global_symbol(self, name: str) -> tuple[Any, int]:
        from cuda.bindings import driver as binding
        from numba.cuda.cudadrv import devices, driver

        storage = self.variable(name)
        return driver.MemoryPointer(devices.get_context(), binding.CUdeviceptr(storage.address), storage.size), storage.size


def _unknown() -> None:
    """In the place of a function that numba read from its cache without its source."""


_UNKNOWN = cast(FunctionType, _unknown)


def _short(entry: str, ptx: str) -> str:
    """The function's own name, where nothing else in the text has it."""
    name = re.sub(r"\W", "_", demangle(entry).base.partition("[abi:")[0])
    return entry if name == entry or re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", ptx) else name
