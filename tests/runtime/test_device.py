"""The Python interface end to end, on the simulator."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.runtime.simulator import Simulator

SAXPY = r"""
#include <cstdio>
struct Pair { int count; float scale; };
__constant__ float weights[4];
__device__ unsigned int visits;

extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void unguarded(float* y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
}
extern "C" __global__ void scaled(Pair pair, const float* x, float* y) {
    int i = threadIdx.x;
    if (i < pair.count) y[i] = x[i] * pair.scale * weights[i % 4];
}
extern "C" __global__ void wide(unsigned long long value, bool flag, signed char small, double factor, double* out) {
    out[0] = double(value); out[1] = flag; out[2] = small; out[3] = factor;
}
extern "C" __global__ void shape(int* out) {
    extern __shared__ int dynamic[];
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    dynamic[t] = b * 1000 + t;
    __syncthreads();
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = dynamic[t];
}
extern "C" __global__ void visit() { atomicAdd(&visits, 1u); }
extern "C" __global__ void hello(int n) { printf("n is %d\n", n); }
extern "C" __global__ void __launch_bounds__(64) bounded(int* out) { out[threadIdx.x] = 1; }
template <typename T> __global__ void negate(T* values) { values[threadIdx.x] = -values[threadIdx.x]; }
template __global__ void negate<float>(float*);
"""

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 buffer, .param .u64 count)
{
    .reg .pred %p; .reg .b32 %t, %v; .reg .b64 %a, %n, %i;
    ld.param.u64 %a, [buffer];
    ld.param.u64 %n, [count];
    mov.u32 %t, %tid.x;
    cvt.u64.u32 %i, %t;
    setp.ge.u64 %p, %i, %n;
    @%p ret;
    shl.b64 %i, %i, 2;
    add.u64 %a, %a, %i;
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
"""


@pytest.fixture(scope="module")
def device() -> gs.Device:
    return gs.device("sim")


@pytest.fixture(scope="module")
def module(device: gs.Device) -> gs.Module:
    return device.compile(SAXPY)


def launch_error(message: str) -> Any:
    return pytest.raises(gs.LaunchError, match=f"^{re.escape(message)}$")


def usage_error(message: str) -> Any:
    return pytest.raises(gs.UsageError, match=f"^{re.escape(message)}$")


def test_saxpy(device: gs.Device, module: gs.Module) -> None:
    rng = np.random.default_rng(1)
    host_x, host_y = rng.random(1000, np.float32), rng.random(1000, np.float32)
    x, y = device.array(host_x), device.array(host_y)
    module["saxpy"][4, 256](1000, 2.0, x, y)
    assert np.array_equal(x.numpy(), host_x)
    # 2x is exact, so that one rounding or two give the same bits.
    assert np.array_equal(y.numpy(), np.float32(2) * host_x + host_y)


def test_views_pass_their_own_address(device: gs.Device, module: gs.Module) -> None:
    x, y = device.array(np.arange(64, dtype=np.float32)), device.zeros(64)
    module["saxpy"][1, 32](16, 1.0, x[8:], y[32:])
    expected = np.zeros(64, np.float32)
    expected[32:48] = np.arange(8, 24)
    assert np.array_equal(y.numpy(), expected)


def test_structures_and_constants(device: gs.Device, module: gs.Module) -> None:
    module.variable("weights", np.float32).copy_from(np.array([1, 2, 3, 4], np.float32))
    x, y = device.array(np.ones(8, np.float32)), device.zeros(8)
    pair = np.array((6, 0.5), dtype=[("count", np.int32), ("scale", np.float32)])
    module["scaled"][1, 32](pair, x, y)
    assert y.numpy().tolist() == [0.5, 1.0, 1.5, 2.0, 0.5, 1.0, 0.0, 0.0]


def test_scalars_of_every_width(device: gs.Device, module: gs.Module) -> None:
    out = device.empty(4, np.float64)
    module["wide"][1, 1](2**40, True, -5, 0.1, out)
    assert out.numpy().tolist() == [float(2**40), 1.0, -5.0, 0.1]


def test_grids_and_blocks_of_three_dimensions(device: gs.Device, module: gs.Module) -> None:
    grid, block = (2, 3, 2), (4, 2, 5)
    out = device.empty((12, 40), np.int32)
    module["shape"][grid, block](out, shared=40 * 4)
    expected = np.arange(12)[:, None] * 1000 + np.arange(40)
    assert np.array_equal(out.numpy(), expected)


def test_module_variables(module: gs.Module) -> None:
    visits = module.variable("visits", np.uint32)
    visits.fill(0)
    module["visit"][3, 40]()
    assert visits.numpy().tolist() == [120]
    with usage_error("kernel.cu has no variable 'visit'; did you mean 'visits'?"):
        module.variable("visit")
    with pytest.raises(gs.UsageError, match="belongs to its module and is freed with it"):
        visits.free()


def test_printf_goes_to_standard_output(module: gs.Module, capsys: pytest.CaptureFixture[str]) -> None:
    module["hello"][1, 2](7)
    assert capsys.readouterr().out == "n is 7\nn is 7\n"


def test_templates_by_their_plain_and_mangled_names(device: gs.Device, module: gs.Module) -> None:
    values = device.array(np.arange(4, dtype=np.float32))
    module["negate<float>"][1, 4](values)
    module[module["negate<float>"].entry][1, 2](values)
    assert values.numpy().tolist() == [0.0, 1.0, -2.0, -3.0]


def test_ptx_text_does_not_tell_numbers_from_addresses(device: gs.Device) -> None:
    kernel = device.compile(PTX)["add_one"]
    buffer = device.zeros(32, np.uint32)
    kernel[1, 32](buffer, np.uint64(5))
    assert buffer.numpy().tolist() == [1] * 5 + [0] * 27
    with launch_error(
        "add_one, argument 2 (count: .u64): PTX does not say whether this is a number or an address; pass numpy.uint64(5) for the number, "
        "a device array or gridstride.pointer(5) for an address"
    ):
        kernel[1, 32](buffer, 5)


def test_files(device: gs.Device, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "k.cu").write_text(SAXPY)
    assert list(device.compile(tmp_path / "k.ptx")) == ["add_one"]
    assert "saxpy" in device.compile(str(tmp_path / "k.cu"))


def test_names_wrong(module: gs.Module) -> None:
    with pytest.raises(gs.UsageError, match=r"^there is no kernel 'saxpi' in kernel.cu \(did you mean 'saxpy'\?\); it has: "):
        module["saxpi"]
    assert "saxpi" not in module


def test_arguments_wrong(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(8)
    with launch_error("saxpy takes 4 arguments (n: `int`, a: `float`, x: `const float*`, y: `float*`), but 3 were given"):
        module["saxpy"][1, 32](8, 1.0, x)
    with launch_error("saxpy, argument 1 (n: `int`): 8.0 is no whole number"):
        module["saxpy"][1, 32](8.0, 1.0, x, x)
    with launch_error(
        "saxpy, argument 4 (y: `float*`): a numpy array lies in the host's memory; copy it with device.array(…) and pass that"
    ):
        module["saxpy"][1, 32](8, 1.0, x, np.zeros(8, np.float32))
    other = gs.device("sim:a100").zeros(8)
    with pytest.raises(gs.LaunchError, match="the memory of another device object"):
        module["saxpy"][1, 32](8, 1.0, x, other)


def test_dimensions_wrong(module: gs.Module, device: gs.Device) -> None:
    out = device.zeros(64, np.int32)
    with pytest.raises(gs.LaunchError, match="1,025 threads"):
        module["hello"][1, 1025](1)
    with pytest.raises(gs.LaunchError, match="the grid's x dimension is 0"):
        module["hello"][0, 32](1)
    with pytest.raises(gs.LaunchError, match="compiled for at most 64 threads a block"):
        module["bounded"][1, 128](out)
    with pytest.raises(gs.LaunchError, match="bytes of shared memory a block are too many"):
        module["hello"][1, 32](1, shared=1 << 20)
    with launch_error("shared memory is a whole number of bytes, not 1.5"):
        module["hello"][1, 32](1, shared=1.5)
    with launch_error("hello needs its grid and block: write hello[grid, block](…)"):
        module["hello"](1)
    with launch_error(
        "write hello[grid, block](…), where each is a number or a tuple of up to three; shared memory goes in as shared=BYTES"
    ):
        module["hello"][1, 32, 64]
    with pytest.raises(gs.UsageError, match="^a stream is made by device.stream\\(\\), not object "):
        module["hello"][1, 32](1, stream=object())


def test_a_fault_names_the_callers_variable_and_leaves_the_process_usable(device: gs.Device, module: gs.Module) -> None:
    results = device.zeros(40)
    with pytest.raises(gs.KernelFault) as caught:
        module["unguarded"][2, 32](results)
    fault = caught.value.fault
    assert caught.value.code == "out-of-bounds"
    assert isinstance(fault, gs.Finding)
    assert (fault.kind, fault.severity, fault.kernel, fault.buffer, fault.index) == ("out-of-bounds", "error", "unguarded", "results", 40)
    assert (fault.site.block, fault.site.thread) == ((1, 0, 0), (8, 0, 0))
    assert fault.site.line is not None
    assert "y[blockIdx.x" in SAXPY.splitlines()[fault.site.line - 1]
    module["saxpy"][1, 32](32, 0.0, results, results)


def test_a_fault_names_the_parameter_or_the_given_name(device: gs.Device, module: gs.Module) -> None:
    for array, name in ((device.zeros(40, name="field"), "field"), ([device.zeros(40)][0], "array")):
        with pytest.raises(gs.KernelFault) as caught:
            module["unguarded"][2, 32](array)
        assert isinstance(caught.value.fault, gs.Finding)
        assert caught.value.fault.buffer == name
    with pytest.raises(gs.KernelFault) as caught:
        module["unguarded"][2, 32](device.zeros(40))
    assert isinstance(caught.value.fault, gs.Finding)
    assert caught.value.fault.buffer == "y"


def test_use_after_free_wrong(device: gs.Device, module: gs.Module) -> None:
    with device.zeros(32, name="gone") as array:
        pass
    with usage_error("the array 'gone' was freed and cannot be used any more"):
        module["unguarded"][1, 32](array)


def test_memory_is_given_back() -> None:
    device = gs.device("sim")
    assert isinstance(device, Simulator)
    for _ in range(50):
        cycle: list[Any] = [device.empty(1 << 20)]
        cycle.append(cycle)  # only the garbage collector ends this one
    del cycle
    gc.collect()
    with device.empty(16, np.uint8):
        assert device.memory.used == 16
    assert device.memory.used == 0


def test_arrays_from_many_sources(device: gs.Device) -> None:
    assert device.array([[1, 2], [3, 4]], np.int16).numpy().tolist() == [[1, 2], [3, 4]]
    assert device.array(((2, 3), np.float64)).shape == (2, 3)
    assert device.array(np.arange(6).reshape(2, 3).T).numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert device.array(device.array([1.5])).numpy().tolist() == [1.5]
    assert device.array(range(3)).dtype == np.int64
    assert device.empty((0,), np.int32).numpy().size == 0
    assert device.zeros(3).dtype == np.float32

    class Exporter:
        def __dlpack__(self, **options: Any) -> Any:
            return np.arange(3).__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert device.array(Exporter()).numpy().tolist() == [0, 1, 2]


def test_arrays_wrong(device: gs.Device) -> None:
    class OnGpu:
        __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012 - as CuPy has it

    with usage_error("the OnGpu lies in a GPU's memory; copy it to the host first (CuPy: .get(), PyTorch: .cpu())"):
        device.array(OnGpu())
    with usage_error("an array of object cannot lie in device memory; convert it to numbers first"):
        device.array([object()])
    with usage_error("the shape (3, -1) has a negative extent"):
        device.empty((3, -1))
    with usage_error("a shape is a whole number or a tuple of them, not 2.5"):
        device.empty(2.5)  # type: ignore[arg-type]
    with usage_error("'float33' is no NumPy type"):
        device.empty(3, "float33")


def test_device_names() -> None:
    assert str(gs.device()) == "sim:h200"
    assert gs.device("sim:A100").name == "sim:a100"
    with pytest.raises(gs.UnsupportedError, match="needs an NVIDIA GPU|there is no GPU"):
        gs.device("gpu:99")
    with usage_error("unknown device `a100`; write auto, sim, sim:NAME (such as sim:a100), gpu or gpu:N; did you mean sim:a100?"):
        gs.device("a100")
    with usage_error("unknown device `cpu`; write auto, sim, sim:NAME (such as sim:a100), gpu or gpu:N"):
        gs.device("cpu")
    with pytest.raises(gs.UsageError, match="there is no device `h2000` in the table"):
        gs.device("sim:h2000")
    with usage_error('a device is opened by its name, such as "sim" or "sim:a100", not by int 5'):
        gs.device(5)  # type: ignore[arg-type]
    with usage_error("threads is a whole number, not str '2'"):
        gs.device("sim", threads="2")  # type: ignore[arg-type]
    with usage_error("give a path (.cu or .ptx), CUDA C++ text, PTX text or a Python function to compile, not int 5"):
        gs.device("sim").compile(5)  # type: ignore[arg-type]
    with usage_error("threads must be at least 1, not 0"):
        gs.device("sim", threads=0)


def test_a_seed_changes_nothing_that_is_defined(module: gs.Module) -> None:
    seeded = gs.device("sim", seed=5)
    out = seeded.empty((12, 40), np.int32)
    seeded.compile(SAXPY)["shape"][(2, 3, 2), (4, 2, 5)](out, shared=160)
    assert np.array_equal(out.numpy(), np.arange(12)[:, None] * 1000 + np.arange(40))
