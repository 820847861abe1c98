"""The places in numba where the simulated driver takes its seat.

Numba reaches CUDA's driver through one object, `numba.cuda.cudadrv.driver.driver`, whose functions `cu…` are looked up when they are called: those
are given to it. Beside it numba 0.30 uses a few classes of `cuda.core` (device, stream, launch, linker), which would ask the real driver: each is
replaced where numba looks it up. Nothing is replaced in `cuda.core` itself.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter, warn
from weakref import WeakSet

from cuda.bindings import driver as binding
from numba.cuda import codegen, dispatcher
from numba.cuda.core.errors import NumbaDebugInfoWarning
from numba.cuda.cudadrv import devicearray
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.memory_management import nrt

from gridstride.errors import UnsupportedError, UsageError
from gridstride.numba_host import arrays
from gridstride.numba_host.calls import Calls
from gridstride.numba_host.errors import Unsupported
from gridstride.numba_host.launching import Config, Launcher
from gridstride.numba_host.modules import Linked, Linker, LoadedModule
from gridstride.numba_host.simulation import Simulation
from gridstride.runtime.simulator import Simulator

_REPLACED: tuple[tuple[ModuleType | type, tuple[str, ...]], ...] = (
    (numba_driver, ("ExperimentalDevice", "ExperimentalStream", "_Linker")),
    (numba_driver.Stream, ("add_callback",)),
    (numba_driver.Context, ("create_module_image", "create_module_ptx", "create_external_stream")),
    (dispatcher, ("launch", "LaunchConfig")),
    (dispatcher._Kernel, ("bind", "launch")),
    (dispatcher.CUDADispatcher, ("__init__", "add_overload", "compile", "compile_device")),
    (devicearray, ("_to_strided_memory_view", "_make_strided_memory_view")),
    (codegen.JITCUDACodegen, ("magic_tuple",)),
    (nrt, ("launch", "LaunchConfig", "_Linker")),
)
"""What numba has to have for this to work: a release without one of them is refused rather than half replaced."""


def install(device: Simulator) -> Simulation:
    """Let numba.cuda run on a simulated device. Raises UnsupportedError for another release of numba, UsageError where it has run on a GPU."""
    _require_known_release()
    driver = numba_driver.driver
    if driver.pid is not None:
        raise UsageError("numba.cuda has used a GPU in this process already; import gridstride.numba, or call its use(), before that")
    simulation = Simulation(device)
    calls = Calls(simulation)
    _take_the_driver(driver, calls)
    _take_the_classes(simulation, calls)
    _take_the_kernels(simulation)
    return simulation


def _require_known_release() -> None:
    from numba.cuda.core import config

    version = getattr(__import__("numba_cuda"), "__version__", "?")
    if config.ENABLE_CUDASIM:
        raise UsageError("numba runs its own simulator (NUMBA_ENABLE_CUDASIM): unset that, or import gridstride.numba before numba")
    for where, names in _REPLACED:
        for name in names:
            if not hasattr(where, name):
                raise UnsupportedError(f"numba-cuda {version} has no {where.__name__}.{name}: Gridstride serves numba-cuda 0.30")


def _take_the_driver(driver: Any, calls: Calls) -> None:
    for name in [name for name in vars(driver) if name.startswith("cu")]:
        delattr(driver, name)
    for name, function in calls.functions():
        setattr(driver, name, function)
    driver._cuda_python_wrap_fn = calls.refuse
    numba_driver._logger = numba_driver.make_logger()
    driver.is_initialized, driver.initialization_error, driver.pid = True, None, os.getpid()


def _take_the_classes(simulation: Simulation, calls: Calls) -> None:
    class Device:
        """In the place of `cuda.core.Device`."""

        def __init__(self, number: int) -> None:
            self.device_id = number
            self.context = self
            self.handle = calls.context

        @property
        def compute_capability(self) -> tuple[int, int]:
            return simulation.device.spec.compute_capability

        @property
        def name(self) -> str:
            return f"NVIDIA {simulation.device.spec.name} (simulated)"

        @property
        def uuid(self) -> str:
            return "00000000-0000-0000-0000-000000000000"

        def set_current(self) -> None: ...

    class Stream:
        """In the place of `cuda.core.Stream`."""

        def __init__(self, handle: Any) -> None:
            self.handle = handle

        @classmethod
        def from_handle(cls, handle: Any) -> Stream:
            return cls(binding.CUstream(int(handle)))

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, int(self.handle)

    def add_callback(self: Any, callback: Any, arg: Any = None) -> None:
        """Call `callback(stream, status, arg)` once everything asked of the stream before has ended."""

        def call() -> None:
            try:
                callback(self, 0, arg)
            except Exception as error:  # noqa: BLE001 - as numba does it: the caller is CUDA's thread, which nobody could tell
                warn(f"Exception in stream callback: {error}", stacklevel=2)

        simulation.stream(self.handle).call(call)

    def create_module_image(self: Any, image: Linked, setup_callbacks: Any = None, teardown_callbacks: Any = None) -> LoadedModule:
        return LoadedModule(simulation, image, setup_callbacks or (), teardown_callbacks or ())

    def create_module_ptx(self: Any, ptx: bytes | str) -> LoadedModule:
        return LoadedModule(simulation, Linked(ptx if isinstance(ptx, str) else ptx.decode()))

    def create_external_stream(self: Any, ptr: int) -> Any:
        if not isinstance(ptr, int):
            raise TypeError("ptr for external stream must be an int")
        if not simulation.knows_stream(ptr):
            raise Unsupported(f"{ptr:#x} is no stream of the simulator: streams that another library made cannot be used with it")
        return numba_driver.Stream(binding.CUstream(ptr), external=True)

    numba_driver.ExperimentalDevice = Device
    numba_driver.ExperimentalStream = Stream
    numba_driver.Stream.add_callback = add_callback
    numba_driver.Context.create_module_image = create_module_image
    numba_driver.Context.create_module_ptx = create_module_ptx
    numba_driver.Context.create_external_stream = create_external_stream
    numba_driver._Linker = nrt._Linker = Linker
    devicearray._to_strided_memory_view = arrays.to_device
    devicearray._make_strided_memory_view = arrays.on_the_host


def _take_the_kernels(simulation: Simulation) -> None:
    launcher = Launcher(simulation)
    kernel_class, dispatcher_class = dispatcher._Kernel, dispatcher.CUDADispatcher
    bind, launch = kernel_class.bind, kernel_class.launch
    begin, add_overload = dispatcher_class.__init__, dispatcher_class.add_overload
    magic_tuple = codegen.JITCUDACodegen.magic_tuple
    lines_are_ours: WeakSet[Any] = WeakSet()

    def describe(kernel: Any) -> None:
        kernel._codelibrary.get_cufunc().describe(getattr(kernel, "py_func", None), kernel.argument_types)

    @functools.wraps(bind)
    def bound(self: Any) -> None:
        bind(self)
        describe(self)

    @functools.wraps(launch)
    def launched(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        describe(self)
        with launcher.launching(self.argument_types):
            launch(self, args, griddim, blockdim, stream, sharedmem)

    @functools.wraps(begin)
    def begun(self: Any, py_func: Any, targetoptions: dict[str, Any], *rest: Any, **more: Any) -> None:
        # Lines for findings and profiles; numba has either these or what a debugger needs. There is nothing to link at link time.
        begin(self, py_func, {**targetoptions, "lineinfo": not targetoptions.get("debug"), "lto": False}, *rest, **more)
        if not targetoptions.get("lineinfo"):
            lines_are_ours.add(py_func)

    def quiet(method: Any) -> Any:
        """Compiling where nobody asked for lines, and so need not hear of functions whose source is not there."""

        @functools.wraps(method)
        def compiled(self: Any, *rest: Any, **more: Any) -> Any:
            with catch_warnings():
                if self.py_func in lines_are_ours:
                    simplefilter("ignore", NumbaDebugInfoWarning)
                return method(self, *rest, **more)

        return compiled

    @functools.wraps(add_overload)
    def overload_added(self: Any, kernel: Any, argtypes: Any) -> None:
        if getattr(kernel, "py_func", None) is None:  # one that was read from the cache
            kernel.py_func = self.py_func
        add_overload(self, kernel, argtypes)

    def own_magic_tuple(self: Any) -> Any:
        """What numba's cache files are told apart by: those with PTX must not be taken for those with a GPU's code."""
        return (*magic_tuple(self), "gridstride")

    for module in (dispatcher, nrt):
        module.launch, module.LaunchConfig = launcher.launch, Config
    kernel_class.bind, kernel_class.launch = bound, launched
    dispatcher_class.__init__, dispatcher_class.add_overload = begun, overload_added
    dispatcher_class.compile, dispatcher_class.compile_device = quiet(dispatcher_class.compile), quiet(dispatcher_class.compile_device)
    for name, numba_module in list(sys.modules.items()):
        if name.startswith("numba.cuda") and hasattr(numba_module, "_have_nvjitlink"):
            # Nobody is warned of slow code or refused lto=True: what is linked here is PTX, and no slower for it.
            numba_module._have_nvjitlink = lambda: True  # type: ignore[attr-defined]
    codegen.JITCUDACodegen.magic_tuple = own_magic_tuple
