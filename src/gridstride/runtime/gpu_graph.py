"""Graphs on a GPU: a graph's operations as nodes of one of CUDA's, made ready once and launched as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import finalize

from gridstride.errors import LaunchError
from gridstride.runtime.commands import Command, Copy, Fill, HostCall, Launch
from gridstride.runtime.gpu_context import GpuContext
from gridstride.runtime.gpu_driver import DriverError
from gridstride.runtime.gpu_host_calls import CALLBACK, forget, register
from gridstride.runtime.gpu_module import GpuKernel, launch_attributes
from gridstride.runtime.gpu_transfers import copy_transfers, fill_transfers

if TYPE_CHECKING:
    from gridstride.runtime.graph import Replay


@dataclass(eq=False)
class GpuReplay:
    """What is kept of an instantiated graph. last: for each of its operations the node behind which it has ended; a fill can be several."""

    graph: Any
    executable: Any = None
    last: list[Any] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)


def instantiate(context: GpuContext, replay: Replay) -> GpuReplay:
    """CUDA's graph of the operations. Raises LaunchError where the driver refuses one."""
    driver = context.driver
    made = GpuReplay(context.result(driver.cuGraphCreate(0), "make a graph"))
    finalize(replay, context.discard, partial(_destroy, context, made)).atexit = False
    try:
        for node, command in zip(replay.nodes, replay.commands, strict=True):
            after = list(dict.fromkeys(made.last[before.number] for before in node.after))
            made.last.append(_add(context, made, command, after))
        made.executable = context.result(driver.cuGraphInstantiate(made.graph, 0), "make a graph ready")
    except DriverError as error:
        raise LaunchError(str(error)) from None
    return made


def update(context: GpuContext, made: GpuReplay, number: int, command: Command) -> None:
    """A launch of the graph gets other arguments."""
    assert isinstance(command, Launch) and isinstance(command.kernel, GpuKernel)
    given = command.kernel.arguments(command.parameters)
    described = _described(context, command, given.address)
    answer = context.driver.cuGraphExecKernelNodeSetParams(made.executable, made.last[number], described)
    context.check(answer, f"give kernel `{command.kernel.name}` of a graph other arguments")


def _add(context: GpuContext, made: GpuReplay, command: Command, after: list[Any]) -> Any:
    driver = context.driver
    match command:
        case Launch():
            return _add_kernel(context, made, command, after)
        case HostCall():
            described = driver.CUDA_HOST_NODE_PARAMS()
            number = register(context, command, once=False)
            made.calls.append(number)
            described.fn, described.userData = driver.CUhostFn(CALLBACK), number
            return context.result(driver.cuGraphAddHostNode(made.graph, after, len(after), described), "add a host function to a graph")
        case Copy() | Fill():
            transfers = copy_transfers(command) if isinstance(command, Copy) else fill_transfers(command.array, command.pattern)
            for transfer in transfers:
                after = [transfer.add_to(context, made.graph, after)]
            if not transfers:
                after = [context.result(driver.cuGraphAddEmptyNode(made.graph, after, len(after)), "add to a graph")]
            return after[0]
    raise LaunchError(f"{command.what} cannot be part of a graph")


def _add_kernel(context: GpuContext, made: GpuReplay, command: Launch, after: list[Any]) -> Any:
    driver, kernel = context.driver, command.kernel
    assert isinstance(kernel, GpuKernel)
    kernel.allow(command.shape)
    given = kernel.arguments(command.parameters)
    described = _described(context, command, given.address)
    node = context.result(driver.cuGraphAddKernelNode(made.graph, after, len(after), described), f"add kernel `{kernel.name}` to a graph")
    for attribute in launch_attributes(driver, command.shape):
        name = driver.CUkernelNodeAttrID(int(attribute.id))
        value = driver.CUkernelNodeAttrValue()
        if command.shape.cluster is not None and attribute.id == driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            extents = value.clusterDim
            extents.x, extents.y, extents.z = command.shape.cluster
        else:
            value.cooperative = 1
        context.result(driver.cuGraphKernelNodeSetAttribute(node, name, value), f"add kernel `{kernel.name}` to a graph")
    return node


def _described(context: GpuContext, command: Launch, arguments: int) -> Any:
    kernel, shape = command.kernel, command.shape
    assert isinstance(kernel, GpuKernel)
    described = context.driver.CUDA_KERNEL_NODE_PARAMS()
    described.func = kernel.function
    described.gridDimX, described.gridDimY, described.gridDimZ = shape.grid
    described.blockDimX, described.blockDimY, described.blockDimZ = shape.block
    described.sharedMemBytes = shape.shared
    described.kernelParams = arguments
    return described


def _destroy(context: GpuContext, made: GpuReplay) -> None:
    """CUDA lets launches of it that are under way end first."""
    if made.executable is not None:
        context.driver.cuGraphExecDestroy(made.executable)
    context.driver.cuGraphDestroy(made.graph)
    for number in made.calls:
        forget(number)
