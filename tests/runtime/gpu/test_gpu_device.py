"""The device of a GPU over a stand-in for its driver: which calls are made, and what becomes of what the driver answers."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import CompileError, KernelFault, LaunchError, UnsupportedError, UsageError
from gridstride.frontends import resources
from gridstride.runtime import gpu_driver, gpu_module
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.gpu_device import GpuDevice

from .conftest import PTX, install
from .fake_driver import FakeDriver, real

# ---- the stand-in ----------------------------------------------------------------------------------------------------


def test_the_bindings_look_at_arguments_before_they_look_for_the_library() -> None:
    """What makes the stand-in's check of signatures worth something."""
    with pytest.raises(TypeError):
        real.cuMemAlloc("many")
    with pytest.raises(TypeError):
        real.cuStreamSynchronize()


# ---- which GPU it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "memory", "attributes", "key"),
    [
        ("NVIDIA H200", 150 << 30, {}, "h200"),
        ("NVIDIA H100 80GB HBM3", 85_000_000_000, {}, "h100"),
        ("NVIDIA A100-SXM4-80GB", 85_000_000_000, {"COMPUTE_CAPABILITY_MAJOR": 8, "MULTIPROCESSOR_COUNT": 108}, "a100"),
        ("NVIDIA H200 MIG 1g.18gb", 18 << 30, {"MULTIPROCESSOR_COUNT": 16}, "nvidia-h200-mig-1g-18gb"),
    ],
)
def test_what_a_gpu_is_made_of(monkeypatch: pytest.MonkeyPatch, name: str, memory: int, attributes: dict[str, int], key: str) -> None:
    install(monkeypatch, FakeDriver(name, memory, **attributes))
    assert gs.device("gpu").spec.key == key


def test_a_product_that_is_not_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"COMPUTE_CAPABILITY_MAJOR": 12, "MULTIPROCESSOR_COUNT": 170, "MEMORY_CLOCK_RATE": 14_001_000, "GLOBAL_MEMORY_BUS_WIDTH": 512}
    install(monkeypatch, FakeDriver("NVIDIA GeForce RTX 5090", 32 << 30, CLOCK_RATE=2_407_000, **more))
    spec = gs.device("gpu").spec
    assert (spec.key, spec.target, spec.multiprocessors, spec.boost_clock_mhz) == ("nvidia-geforce-rtx-5090", "sm_120", 170, 2407)
    assert spec.memory_bandwidth_gbs == pytest.approx(1792.1, abs=0.1) and spec.memory_bytes == 32 << 30
    assert spec.architecture.shared_per_block_optin == 232_448 and spec.source == "what its driver reports"


def test_without_a_driver_auto_is_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def cuInit(self, flags: int) -> Any:
            raise RuntimeError("no libcuda")

    install(monkeypatch, Missing())  # type: ignore[arg-type]
    assert gs.device().name == "sim:h200"
    with pytest.raises(UnsupportedError) as caught:
        gs.device("gpu:1")
    assert str(caught.value) == "this needs an NVIDIA GPU, and NVIDIA's driver is not installed here"


def test_a_gpu_that_cannot_be_used(driver: FakeDriver) -> None:
    driver.refuse["cuDevicePrimaryCtxRetain"] = "OUT_OF_MEMORY"
    with pytest.raises(UnsupportedError) as caught:
        gs.device("gpu")
    assert str(caught.value) == "NVIDIA H200 cannot be used: CUDA could not open the GPU: CUDA_ERROR_OUT_OF_MEMORY (what CUDA says)"
    with pytest.raises(UnsupportedError, match="there is no GPU 3: this machine has 1"):
        gs.device("gpu:3")


# ---- copies and fills ------------------------------------------------------------------------------------------------

LAYOUTS = [np.s_[:], np.s_[1:5], np.s_[:, 2:6], np.s_[::2, 1:4], np.s_[3, ::2], np.s_[2], np.s_[:, 3]]


@pytest.mark.parametrize(("to", "source"), [(a, b) for a, b in itertools.product(LAYOUTS, LAYOUTS) if np.zeros((6, 8))[a].size == np.zeros((6, 8))[b].size])
@pytest.mark.parametrize("way", ["to", "from", "on"])
def test_copies_of_every_layout(device: GpuDevice, to: Any, source: Any, way: str) -> None:
    ours, theirs = np.zeros((6, 8), np.int32), np.arange(48, dtype=np.int32).reshape(6, 8)
    if ours[to].shape != theirs[source].shape:
        pytest.skip("other shapes of as many elements")
    there = device.array(theirs) if way in ("from", "on") else theirs
    target = device.array(ours) if way in ("to", "on") else ours
    with device.stream() as stream:
        stream.copy(target[to], there[source])
    ours[to] = theirs[source]
    assert np.array_equal(np.asarray(target), ours)


def test_rows_of_different_widths_go_piece_by_piece(device: GpuDevice) -> None:
    wide, narrow = np.zeros((4, 3, 2), np.int16), np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    source = device.array(np.pad(narrow, ((0, 0), (0, 1), (0, 0))))  # rows of 6 elements in 8
    target = device.array(np.zeros((4, 3, 4), np.int16))  # rows of 2 elements in 4
    with device.stream() as stream:
        stream.copy(target[:, :, :2], source[:, :3])
    assert np.array_equal(target.numpy()[:, :, :2], narrow) and wide.sum() == target.numpy()[:, :, 2:].sum() == 0


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128", [("a", "u1"), ("b", "u2")]])
@pytest.mark.parametrize("key", [*LAYOUTS, np.s_[::-1, ::-2], np.s_[::3, ::3]])
def test_fills_of_every_layout(device: GpuDevice, dtype: Any, key: Any) -> None:
    host = np.zeros((6, 8), dtype)
    value = np.frombuffer(bytes(range(1, 1 + host.itemsize)), host.dtype)[0]
    array = device.array(host)
    with device.stream() as stream:
        stream.fill(array[key], value)
    host[key] = value
    assert np.array_equal(array.numpy(), host)


def test_fills_are_the_drivers_where_it_can(device: GpuDevice, driver: FakeDriver) -> None:
    array = device.empty((4, 8), np.float64)
    stream, before = device.stream(), len(driver.calls)
    array.fill(0, stream=stream)
    device.empty(6, np.float32).fill(1.5, stream=stream)
    device.empty(6, np.int16).fill(-2, stream=stream)
    array[:, :2].fill(0, stream=stream)
    sets = [name for name, _ in driver.calls[before:] if name.startswith("cuMemset")]
    assert sets == ["cuMemsetD8Async", "cuMemsetD32Async", "cuMemsetD16Async", "cuMemsetD2D8Async"]
    assert not driver.named("cuMemcpyHtoDAsync")


def test_copies_and_fills_between_arrays_stay_on_the_gpu(device: GpuDevice, driver: FakeDriver) -> None:
    source = device.array(np.arange(6))
    target, before = device.zeros(6, np.int64), len(driver.calls)
    target.copy_from(source).copy_from(device.array(source)).fill(3)
    assert not {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"} & {name for name, _ in driver.calls[before:]}
    assert target.numpy().tolist() == [3] * 6


# ---- memory that is given back ---------------------------------------------------------------------------------------


def test_memory_is_freed_by_the_next_call(device: GpuDevice, driver: FakeDriver) -> None:
    arrays: list[Any] = [device.empty(4), device.pinned(4), device.managed(4), device.stream().empty(4)]
    addresses = {a.mapped.address if hasattr(a, "mapped") else a.address for a in arrays}
    arrays.clear()
    gc.collect()
    assert addresses <= set(driver.live)
    device.synchronize()
    assert not addresses & set(driver.live)


def test_memory_freed_by_hand_is_freed_at_once(device: GpuDevice, driver: FakeDriver) -> None:
    array = device.empty(4)
    address = array.address
    array.free()
    assert address not in driver.live
    with pytest.raises(UsageError, match="already freed"):
        array.free()
    stream = device.stream()
    pooled = stream.empty(4)
    stream.free(pooled)
    assert [arguments[1] for arguments in driver.named("cuMemFreeAsync")] == [stream.native.handle]
    assert not driver.named("cuMemFree")[1:]


def test_nothing_is_freed_in_a_context_that_is_lost(device: GpuDevice, driver: FakeDriver) -> None:
    array = device.empty(4)
    driver.broken = "ILLEGAL_ADDRESS"
    with pytest.raises(KernelFault):
        device.synchronize()
    del array
    gc.collect()
    with pytest.raises(KernelFault):
        device.synchronize()
    assert not driver.named("cuMemFree")


def copy_in(array: gs.Array, stream: gs.Stream) -> weakref.ref[Any]:
    """Ask for a copy from a host array that nobody else has."""
    host = np.ones(array.shape, array.dtype)
    stream.copy(array, host)
    return weakref.ref(host)


def test_what_an_operation_needs_lives_until_the_stream_has_passed_it(device: GpuDevice, driver: FakeDriver) -> None:
    array, stream = device.empty(100), device.stream()
    driver.not_ready = True
    seen = [copy_in(array, stream) for _ in range(100)]
    gc.collect()
    assert all(each() is not None for each in seen)
    driver.not_ready = False
    stream.synchronize()
    assert all(each() is None for each in seen)


def test_a_stream_that_is_gone_keeps_what_its_work_needs(device: GpuDevice, driver: FakeDriver) -> None:
    seen = copy_in(device.empty(4), device.stream())
    driver.not_ready = True
    device.event()
    assert driver.named("cuStreamDestroy") and seen() is not None
    driver.not_ready = False
    device.synchronize()
    assert seen() is None


def test_out_of_memory(device: GpuDevice, driver: FakeDriver) -> None:
    driver.refuse["cuMemAlloc"] = driver.refuse["cuMemHostAlloc"] = "OUT_OF_MEMORY"
    with pytest.raises(LaunchError) as caught:
        device.empty(1000)
    assert str(caught.value) == "out of device memory: 4,000 bytes asked for, 1,000 free"
    with pytest.raises(LaunchError, match="out of pinned memory: 4,000 bytes asked for"):
        device.pinned(1000)


# ---- launches --------------------------------------------------------------------------------------------------------


def test_a_launch_hands_over_its_parameters(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    x = device.zeros(1, np.uint32)
    stream = device.stream()
    kernel[(2, 3), 32](x, 5, stream=stream)
    kernel[1, 32](x, 2, stream=stream, shared=100_000)
    assert x.item() == 7
    assert [call[1:9] for call in driver.named("cuLaunchKernel")] == [
        (2, 3, 1, 32, 1, 1, 0, stream.native.handle),
        (1, 1, 1, 32, 1, 1, 100_000, stream.native.handle),
    ]
    assert [call[1:] for call in driver.named("cuFuncSetAttribute")] == [(real.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000)]


def test_cooperative_and_cluster_launches(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    x = device.zeros(1, np.uint32)
    kernel[4, 32](x, 5, cooperative=True)
    kernel[16, 32](x, 5, cluster=16)
    plain, clustered = (call[0] for call in driver.named("cuLaunchKernelEx"))
    assert [attribute.value.cooperative for attribute in plain.attrs] == [1] and plain.numAttrs == 1
    extents = clustered.attrs[0].value.clusterDim
    assert (extents.x, extents.y, extents.z) == (16, 1, 1)
    assert [call[2] for call in driver.named("cuFuncSetAttribute")] == [1]


def test_launches_that_are_refused(device: GpuDevice, driver: FakeDriver, kernel: gs.Kernel) -> None:
    x = device.zeros(1, np.uint32)
    with gs.checking() as findings, pytest.raises(LaunchError, match="the block's x dimension is 2,000 threads; the limit is 1,024"):
        kernel[1, 2000](x, 1)
    assert [found.kind for found in findings] == ["launch-shape"]
    with pytest.raises(LaunchError, match="compiled for at most 64 threads a block"):
        kernel.module["wide"][1, 65](x, 1.0)
    driver.refuse["cuLaunchKernelEx"] = "COOPERATIVE_LAUNCH_TOO_LARGE"
    with pytest.raises(LaunchError) as caught:
        kernel[10_000, 32](x, 5, cooperative=True)
    assert str(caught.value) == "CUDA could not launch kernel `add`: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE (what CUDA says)"
    device.synchronize()
    with pytest.raises(LaunchError, match="was compiled for sim:h200, not for gpu:0"):
        device.require_launchable(gs.device("sim").compile(PTX)["add"], LaunchShape((1, 1, 1), (1, 1, 1)))


def test_a_launch_that_is_waited_for(device: GpuDevice, kernel: gs.Kernel) -> None:
    outcome = kernel.launch(LaunchShape((2, 1, 1), (32, 1, 1)), (device.zeros(1, np.uint32), 1))
    assert outcome.threads == 64 and outcome.seconds > 0


def test_sessions_are_told_that_a_gpu_is_not_watched(device: GpuDevice, kernel: gs.Kernel) -> None:
    with gs.checking() as findings, gs.profiling() as profile:
        kernel[1, 1](device.zeros(1, np.uint32), 1)
    assert findings.receipt.skipped == ("launches on a GPU: only the simulator checks",) and not findings.passed
    assert str(profile) == "launches on a GPU are not counted: profile the same program on the simulator"


# ---- code ------------------------------------------------------------------------------------------------------------


def test_cuda_code_is_loaded_as_machine_code(device: GpuDevice, driver: FakeDriver) -> None:
    module = device.compile('__device__ int seven = 7; extern "C" __global__ void k(int* x) { *x = seven; }')
    assert driver.named("cuModuleLoadData")[0][0][:4] == b"\x7fELF"
    assert [p.name for p in module["k"].parameters] == ["x"]
    assert module.variable("seven", np.int32).size == 4  # the stand-in's variables have 16 bytes
    with pytest.raises(CompileError):
        device.compile("__global__ void k( {")


def test_modules_are_unloaded_when_nothing_of_them_is_used(device: GpuDevice, driver: FakeDriver) -> None:
    module = device.compile(PTX)
    table = module.variable("table")
    del module
    gc.collect()
    device.synchronize()
    assert not driver.named("cuModuleUnload")
    del table
    gc.collect()
    device.synchronize()
    assert len(driver.named("cuModuleUnload")) == 1


def test_ptx_that_the_driver_does_not_know_goes_through_ptxas(device: GpuDevice, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.refuse["cuModuleLoadDataEx"] = "UNSUPPORTED_PTX_VERSION"
    monkeypatch.setattr(resources, "find_assembler", lambda: None)
    with pytest.raises(gpu_driver.DriverError, match="is PTX of version 8.0, which is newer than this GPU's driver knows"):
        device.compile(PTX)
    monkeypatch.setattr(gpu_module, "assemble", lambda ptx, arch: (b"\x7fELF" + arch.encode(), ""))
    device.compile(PTX)
    assert driver.named("cuModuleLoadData") == [(b"\x7fELFsm_90",)]
