"""Faults, host functions, graphs, timelines and sharing of a GPU's device, over a stand-in for its driver."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import KernelFault, UsageError
from gridstride.events.operations import Kind
from gridstride.runtime import gpu_context
from gridstride.runtime.gpu_device import GpuDevice
from gridstride.runtime.gpu_dlpack import taken

from .fake_driver import FakeDriver, real

pytestmark = pytest.mark.filterwarnings("error")


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"),
    [("ILLEGAL_ADDRESS", "out-of-bounds"), ("MISALIGNED_ADDRESS", "misaligned"), ("ASSERT", "assert"), ("LAUNCH_FAILED", "trap"), ("UNKNOWN", "lost")],
)
def test_a_fault_is_told_by_the_next_wait_and_then_by_every_call(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel, status: str, code: str) -> None:
    x, stream, event = device.zeros(1, np.uint32), device.stream(), device.event()
    kernel[1, 1](x, 1, stream=stream)
    driver.broken = status
    kernel[1, 1](x, 1, stream=stream)
    x.fill(0, stream=stream)
    stream.record(event)
    stream.wait(event)
    stream.call(print)
    messages = set()
    for call in (stream.synchronize, device.synchronize, x.numpy, lambda: kernel[1, 1](x, 1), lambda: device.empty(3), device.stream, lambda: event.done):
        with pytest.raises(KernelFault) as caught:
            call()
        assert caught.value.code == code
        messages.add(str(caught.value))
    assert len(messages) == 1 and f"CUDA_ERROR_{status} (what CUDA says)" in messages.pop()


def test_the_sentence_of_a_fault(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    kernel[1, 1](device.zeros(1, np.uint32), 1)
    driver.broken = "ILLEGAL_ADDRESS"
    with pytest.raises(KernelFault) as caught:
        device.synchronize()
    assert str(caught.value) == (
        "kernel `add` read or wrote memory that is not there for it: CUDA reports CUDA_ERROR_ILLEGAL_ADDRESS (what CUDA says) and no more; "
        'the simulator with checks names the line and the thread (the same program with gs.device("sim") inside gs.checking())'
    )


@pytest.mark.parametrize("wait", ["read", "write", "event", "query", "allocate", "elapsed"])
def test_every_call_that_waits_tells(device: GpuDevice, driver: FakeDriver, wait: str) -> None:
    x, stream = device.zeros(4), device.stream()
    start, end = stream.record(), stream.record()
    driver.broken = "LAUNCH_FAILED"
    calls = {
        "read": x.numpy,
        "write": lambda: x.copy_from(np.ones(4, np.float32)),
        "event": end.synchronize,
        "query": lambda: stream.done,
        "allocate": lambda: device.empty(3),
        "elapsed": lambda: start.elapsed_ms(end),
    }
    for _ in range(2):
        with pytest.raises(KernelFault):
            calls[wait]()


def test_a_blocking_device_waits_for_each_launch(driver: FakeDriver, kernel: gs.Kernel) -> None:
    blocking = gs.device("gpu", blocking=True)
    add = blocking.compile(kernel.module.ptx)["add"]
    x = blocking.zeros(1, np.uint32)
    before = len(driver.named("cuStreamSynchronize"))
    add[1, 1](x, 1)
    assert len(driver.named("cuStreamSynchronize")) == before + 1
    driver.broken = "ASSERT"
    with pytest.raises(KernelFault, match="kernel `add` stopped itself"):
        add[1, 1](x, 1)


def test_a_fault_that_nobody_waited_for_is_told_at_the_end(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    one = gs.device("gpu", blocking=False)
    assert isinstance(one, GpuDevice)
    context = one.context
    driver.broken = "ILLEGAL_ADDRESS"
    del one
    gc.collect()
    assert not context.lost  # the garbage collector asks nothing of the driver
    gpu_context.close_retired()
    assert "gridstride: a kernel was stopped, and the program never waited for it: a kernel read or wrote memory" in capsys.readouterr().err
    assert context.lost and len(driver.named("cuDevicePrimaryCtxRelease")) == 1


# ---- host functions --------------------------------------------------------------------------------------------------


def test_host_functions(device: GpuDevice) -> None:
    seen: list[int] = []
    stream = device.stream()
    for k in range(3):
        stream.call(seen.append, k)
    stream.synchronize()
    assert seen == [0, 1, 2]

    def fails() -> None:
        raise ValueError("no")

    stream.call(fails)
    with pytest.raises(UsageError) as caught:
        stream.synchronize()
    assert str(caught.value) == "the host function fails raised ValueError: no" and isinstance(caught.value.__cause__, ValueError)
    stream.synchronize()
    x = device.zeros(3)
    stream.call(x.numpy)
    with pytest.raises(UsageError, match="a function that a stream calls must not use the device"):
        device.synchronize()


def test_memory_that_ends_in_a_host_function_is_freed_later(device: GpuDevice, driver: FakeDriver) -> None:
    held = [device.empty(4)]
    address = held[0].address
    during = []

    def let_go() -> None:
        held.clear()
        gc.collect()
        during.append(address in driver.live)

    device.default_stream.call(let_go)
    device.synchronize()
    assert during == [True] and address not in driver.live


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_a_graph_and_its_update(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    x, y, host, seen = device.zeros(1, np.uint32), device.zeros((3, 4), np.float64), np.zeros(1, np.uint32), []
    graph = device.graph()
    first = graph.kernel(kernel[1, 1], x, 3)
    filled = graph.fill(y[:, 1:3], 1.25)
    graph.copy(host, x, after=[first, filled])
    graph.call(seen.append, 1, after=[first])
    graph.fill(device.zeros(0), 1)
    replay = graph.instantiate()
    replay.launch()
    replay.update(first, x, 10)
    replay.launch(device.stream())
    device.synchronize()
    assert x.item() == 13 and host[0] == 13 and seen == [1, 1]
    assert y.numpy().tolist() == [[0, 1.25, 1.25, 0]] * 3
    nodes = next(iter(driver.graphs.values()))
    assert nodes[-3][1] == (1, len(nodes) - 3) and nodes[-2][1] == (1,)  # behind the last node of the fill


def test_a_graph_ends_with_its_last_user(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    graph = device.graph()
    graph.kernel(kernel[1, 1], device.zeros(1, np.uint32), 3)
    replay = graph.instantiate()
    replay.launch()
    del replay, graph
    gc.collect()
    device.event()
    assert not driver.named("cuGraphExecDestroy")  # the stream may not have come to it
    device.synchronize()
    device.synchronize()
    assert driver.named("cuGraphExecDestroy") and driver.named("cuGraphDestroy")


def test_attributes_of_launches_in_a_graph(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    graph, x = device.graph(), device.zeros(1, np.uint32)
    graph.kernel(kernel[4, 32], x, 3, cooperative=True)
    graph.kernel(kernel[4, 32], x, 3, cluster=(2, 1))
    graph.instantiate()
    (_, cooperative, one), (_, cluster, two) = driver.named("cuGraphKernelNodeSetAttribute")
    assert (int(cooperative), one.cooperative) == (int(real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE), 1)
    assert (int(cluster), two.clusterDim.x, two.clusterDim.z) == (int(real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION), 2, 1)


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_streams_and_events_are_the_drivers(device: GpuDevice, driver: FakeDriver) -> None:
    one = device.stream(priority=-3, non_blocking=True)
    device.event(timing=False)
    assert driver.named("cuStreamCreateWithPriority")[-1] == (1, -3) and driver.named("cuEventCreate")[-1] == (2,)
    assert device.legacy_stream.native.handle == 0 and device.default_stream is device.legacy_stream
    never = device.event()
    one.wait(never)
    never.synchronize()
    assert not driver.named("cuStreamWaitEvent") and not driver.named("cuEventSynchronize")
    device.legacy_stream.wait(one.record(never))
    assert driver.named("cuStreamWaitEvent") == [(0, never.native.handle, 0)]
    driver.not_ready = True
    assert not one.done and not never.done
    driver.not_ready = False
    assert one.done and never.done
    handle = one.native.handle
    one.close()
    assert driver.named("cuStreamDestroy") == [(handle,)]


# ---- timelines -------------------------------------------------------------------------------------------------------


def test_a_timeline_is_measured(device: GpuDevice, kernel: gs.Kernel) -> None:
    x, pinned = device.zeros(1, np.uint32, name="x"), device.pinned(1, np.uint32)
    copies, work = device.stream(), device.stream()
    with gs.timeline() as timeline:
        x.copy_from(pinned, stream=copies)
        x.copy_from(np.ones(1, np.uint32), stream=copies)
        work.wait(copies.record())
        kernel[1, 1](x, 1, stream=work)
        device.synchronize()
        x.numpy()
    kernel[1, 1](x, 1)
    one, two, launch, back = timeline.operations
    assert timeline.timeline.measured and [p.operation.kind for p in timeline.operations] == [Kind.TO_DEVICE] * 2 + [Kind.KERNEL, Kind.TO_HOST]
    assert [p.operation.pageable for p in (one, two, back)] == [False, True, True]
    assert two.operation.after == (one.operation.number,) and launch.operation.after == (two.operation.number,)
    assert all(p.asked <= p.ready <= p.start < p.end for p in timeline.operations)
    assert timeline.timeline.host_waits[0].what == "the device"
    assert launch.operation.buffers == ("x",) and "kernel add" in str(timeline)


# ---- other libraries -------------------------------------------------------------------------------------------------


class Theirs:
    """Another library's array."""

    def __init__(self, array: gs.Array) -> None:
        self._array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": 5}


class OnlyDlpack:
    def __init__(self, array: gs.Array) -> None:
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


@pytest.mark.parametrize("kind", [Theirs, OnlyDlpack])
def test_arrays_of_other_libraries_are_copied_on_the_gpu(device: GpuDevice, driver: FakeDriver, kind: type) -> None:
    theirs = device.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    before = len(driver.calls)
    ours = device.array(kind(theirs[:, 1:3]))
    assert not {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"} & {name for name, _ in driver.calls[before:]}
    theirs.fill(0)
    assert np.array_equal(ours.numpy(), np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3])
    assert device.array(kind(ours), np.float64).dtype == np.float64
    with pytest.raises(UsageError, match="lies in a GPU's memory"):
        gs.device("sim").array(Theirs(ours))


def test_a_capsule_keeps_the_array(device: GpuDevice, driver: FakeDriver) -> None:
    array = device.array(np.arange(6, dtype=np.int16).reshape(2, 3))
    address = array.address
    capsules = [array.T.__dlpack__() if hasattr(array, "T") else array[:, ::2].__dlpack__(), array.__dlpack__(stream=-1)]
    del array
    gc.collect()
    device.synchronize()
    assert address in driver.live
    found = taken(capsules.pop(0))
    assert (found.address, found.shape, found.dtype, found.strides) == (address, (2, 2), np.dtype(np.int16), (6, 4))
    capsules.clear()
    device.synchronize()
    assert address in driver.live
    del found
    gc.collect()
    device.synchronize()
    assert address not in driver.live


def test_what_cannot_be_exported(device: GpuDevice) -> None:
    array = device.zeros(4)
    for options in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="a GPU's array is exported where it is"):
            array.__dlpack__(**options)
    with pytest.raises(BufferError, match="DLPack has no way"):
        device.zeros(4, np.dtype([("a", "f4")])).__dlpack__()
