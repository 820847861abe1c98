"""Code on a GPU: modules that the driver has loaded, and kernels with what it knows of them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

from gridstride.errors import LaunchError, UnsupportedError
from gridstride.frontends.resources import assemble
from gridstride.frontends.source import LoadedSource
from gridstride.machine.program import Program, load_program
from gridstride.runtime.commands import Launch
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.gpu_context import GpuContext
from gridstride.runtime.gpu_driver import DEFAULT_DYNAMIC_SHARED, TOO_NEW, DriverError, load_image
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.parameters import KernelParameter, kernel_parameters
from gridstride.runtime.storage import Storage

if TYPE_CHECKING:
    from gridstride.runtime.gpu_device import GpuDevice

_PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters can do; more have to be allowed to the kernel."""


class GpuKernel(Kernel):
    """A kernel as the driver has it."""

    def __init__(
        self,
        module: GpuModule,
        entry: str,
        parameters: Sequence[KernelParameter],
        parameter_bytes: int,
        *,
        function: Any,
        max_threads: int | None,
    ) -> None:
        self._context = module.device.context
        self.function = function
        self._offsets = [parameter.offset for parameter in parameters]
        self._allowed_shared = 0
        self._allowed_cluster = _PORTABLE_CLUSTER
        shared = self._attribute("SHARED_SIZE_BYTES")
        super().__init__(module, entry, parameters, parameter_bytes, static_shared=shared, max_threads=max_threads)

    @cached_property
    def own_registers(self) -> int:
        """Registers of a thread, as the driver has loaded it."""
        return self._attribute("NUM_REGS")

    def allow(self, shape: LaunchShape) -> None:
        """Allow the kernel what a launch needs beyond the defaults: much shared memory, large clusters."""
        driver, attributes = self._context.driver, self._context.driver.CUfunction_attribute
        if self.static_shared + shape.shared > DEFAULT_DYNAMIC_SHARED and shape.shared > self._allowed_shared:
            attribute = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            what = f"give kernel `{self.name}` {shape.shared:,} bytes of dynamic shared memory"
            self._context.check(driver.cuFuncSetAttribute(self.function, attribute, shape.shared), what)
            self._allowed_shared = shape.shared
        if shape.cluster is not None and (blocks := shape.cluster[0] * shape.cluster[1] * shape.cluster[2]) > self._allowed_cluster:
            attribute = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self._context.check(driver.cuFuncSetAttribute(self.function, attribute, 1), f"give kernel `{self.name}` clusters of {blocks} blocks")
            self._allowed_cluster = blocks

    def arguments(self, parameters: bytes) -> Arguments:
        return Arguments(parameters, self._offsets)

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._context.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._context.result(self._context.driver.cuFuncGetAttribute(attribute, self.function), "read what a kernel uses"))


class Arguments:
    """A launch's parameters where the driver reads them, which it does before the call returns. address: of the pointers to each of them."""

    def __init__(self, parameters: bytes, offsets: Sequence[int]) -> None:
        self._values = ctypes.create_string_buffer(parameters, max(len(parameters), 1))
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))
        self.address = ctypes.addressof(self._pointers) if offsets else 0


def start_kernel(context: GpuContext, stream: Any, command: Launch) -> None:
    """Ask for a launch in a stream. Raises LaunchError where the driver refuses it."""
    kernel, shape, driver = command.kernel, command.shape, context.driver
    assert isinstance(kernel, GpuKernel)
    what = f"launch kernel `{kernel.name}`"
    try:
        kernel.allow(shape)
        given = kernel.arguments(command.parameters)
        if not shape.cooperative and shape.cluster is None:
            answer = driver.cuLaunchKernel(kernel.function, *shape.grid, *shape.block, shape.shared, stream, given.address, 0)
        else:
            config = driver.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
            config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
            config.sharedMemBytes = shape.shared
            config.hStream = driver.CUstream(int(stream))
            attributes = launch_attributes(driver, shape)
            config.attrs, config.numAttrs = attributes, len(attributes)
            answer = driver.cuLaunchKernelEx(config, kernel.function, given.address, 0)
        context.check(answer, what)
    except DriverError as error:
        if error.lost:
            raise
        raise LaunchError(str(error)) from None
    context.kernels[kernel.name] = None


def launch_attributes(driver: Any, shape: LaunchShape) -> list[Any]:
    """What a launch asks for besides its dimensions."""
    attributes = []
    if shape.cooperative:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        attributes.append(attribute)
    if shape.cluster is not None:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        extents = attribute.value.clusterDim
        extents.x, extents.y, extents.z = shape.cluster
        attributes.append(attribute)
    return attributes


class GpuModule(Module):
    """A module that the driver has loaded. The memory of its variables comes and goes with it."""

    device: GpuDevice

    def __init__(self, device: GpuDevice, source: LoadedSource, program: Program | None = None) -> None:
        super().__init__(device, source)
        device.context.begin()
        self.handle = _load(device, source)
        driver, handle = device.context.driver, self.handle
        finalize(self, device.context.discard, partial(driver.cuModuleUnload, handle)).atexit = False
        self._known = program

    @property
    def program(self) -> Program:
        """The parsed PTX: parameters and variables by name."""
        if self._known is None:
            names = {self.source.names.display(entry): entry for entry in self.source.names.entries}
            self._known = load_program(self.source.ptx, file_names=self.source.files, entry_names=names)
        return self._known

    @cached_property
    def variables(self) -> Mapping[str, Storage]:
        context = self.device.context
        context.begin()
        found = {}
        for variable in self.program.module.variables.values():
            if variable.space in ("global", "const") and variable.size is not None:
                try:
                    address, size = context.result(context.driver.cuModuleGetGlobal(self.handle, variable.name.encode()), "find a variable")
                except DriverError:
                    continue  # the compiler left out what no kernel uses
                found[variable.name] = self.device.storage_of_variable(self, int(address), int(size), variable.name)
        return found

    def fresh(self) -> GpuModule:
        return GpuModule(self.device, self.source, self._known).declare(self._declared)

    def _make(self, entry: str) -> Kernel:
        layout = self.program.entries[entry]
        parameters = kernel_parameters(entry, self.source, self.program)
        context = self.device.context
        context.begin()
        function = context.result(context.driver.cuModuleGetFunction(self.handle, entry.encode()), f"find {entry} in {self.source.name}")
        return GpuKernel(self, entry, parameters, layout.parameter_bytes, function=function, max_threads=layout.max_threads)

    def _with_source(self, source: LoadedSource) -> GpuModule:
        return GpuModule(self.device, source)


def _load(device: GpuDevice, source: LoadedSource) -> Any:
    """The source as a module of the driver. CUDA C++ comes as machine code: a driver may be older than the PTX that the compiler writes."""
    target = device.context.gpu.arch
    if source.compiled is not None:
        # sm_90a, which was asked for because its instructions are used, is no other GPU than sm_90
        arch = source.compiled.options.arch if source.compiled.options.arch.rstrip("af") == target else target
        return load_image(source.compiled.cubin(arch), ptx=False, name=source.name)
    try:
        return load_image(source.ptx.encode(), ptx=True, name=source.name, any_version=source.python is not None)
    except DriverError as error:
        if error.status != TOO_NEW:
            raise
        try:
            machine_code, _ = assemble(source.ptx, target)
        except UnsupportedError:
            raise error from None
    return load_image(machine_code, ptx=False, name=source.name)
