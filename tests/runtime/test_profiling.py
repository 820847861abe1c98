"""`gs.profiling()`: what it holds, and that unprofiled launches stay so."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gridstride as gs

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
template <typename T> __global__ void fill(T *x) { x[threadIdx.x] = 1; }
"""
N = 1000


def launch(module: gs.Module, times: int = 1) -> None:
    x = module.device.array(np.ones(N, np.float32))
    y = module.device.array(np.ones(N, np.float32))
    for _ in range(times):
        module["saxpy"][4, 256](N, 2.0, x, y)
    assert y.numpy()[-1] == 1 + 2 * times


@pytest.fixture
def module() -> gs.Module:
    return gs.device("sim:h200").compile(SOURCE)


def test_a_kernel_by_its_name(module: gs.Module) -> None:
    with gs.profiling() as profile:
        launch(module)
    saxpy = profile["saxpy"]
    # 1,000 elements: 31 full warps and one of 8 lanes, whose 32 bytes are one sector
    assert saxpy.load_requests == 2 * 32
    assert saxpy.load_sectors == 2 * (31 * 4 + 1)
    assert saxpy.sectors_per_load == pytest.approx(125 / 32)
    assert saxpy.flops == 2 * N
    assert {line.line for line in saxpy.lines if line.load_sectors} == {5}
    assert list(profile) == ["saxpy"] and len(profile) == 1 and "saxpy" in profile
    assert profile.launches[0].profile.footprint_bytes == 2 * 4 * N


def test_launches_add_up(module: gs.Module) -> None:
    with gs.profiling() as profile:
        launch(module, times=3)
    assert profile["saxpy"].flops == 3 * 2 * N
    assert [launched.flops for launched in profile["saxpy"].launches] == [2 * N] * 3


def test_printed_it_is_the_report_of_the_command(module: gs.Module) -> None:
    with gs.profiling() as profile:
        assert str(profile) == "nothing was launched inside this profile"
        launch(module, times=2)
    shown = str(profile)
    assert shown.startswith("saxpy: 2 launches; the one that takes longest:\nsaxpy on sim:h200 (H200 SXM 141GB): grid 4, block 256, 1,024 threads\n")
    assert "global loads   64 requests, 250 sectors" in shown and "\x1b" not in shown


def test_instances_of_templates(module: gs.Module) -> None:
    array = module.device.zeros(32, np.float64)
    with gs.profiling() as profile:
        module["fill<double>"][1, 32](array)
    (name,) = profile
    assert profile[name].store_sectors == 32 * 8 // 32


def test_nothing_is_counted_outside(module: gs.Module) -> None:
    with gs.profiling() as profile:
        pass
    launch(module)
    assert profile.launches == ()
    with pytest.raises(gs.UsageError) as raised:
        profile["saxpy"]
    assert str(raised.value) == "no kernel called 'saxpy' was launched inside this profile: nothing was launched"


def test_a_kernel_that_was_not_launched_wrong(module: gs.Module) -> None:
    with gs.profiling() as profile:
        launch(module)
    with pytest.raises(KeyError) as raised:
        profile["saxpi"]
    assert str(raised.value) == "no kernel called 'saxpi' was launched inside this profile; did you mean 'saxpy'?"
    assert profile.get("fill") is None


def test_profiles_nest(module: gs.Module) -> None:
    with gs.profiling() as outer:
        launch(module)
        with gs.profiling() as inner:
            launch(module)
    assert (len(outer.launches), len(inner.launches)) == (2, 1)


def test_launches_of_other_threads_count(module: gs.Module) -> None:
    with gs.profiling() as profile:
        thread = threading.Thread(target=launch, args=(module,))
        thread.start()
        thread.join()
    assert len(profile.launches) == 1


def test_an_error_ends_the_profile(module: gs.Module) -> None:
    with pytest.raises(RuntimeError), gs.profiling() as profile:
        raise RuntimeError
    launch(module)
    assert profile.launches == ()


STOPPED = """
extern "C" __global__ void walks(int n, int period, const int *x, int *y) {
    int sum = 0;
    for (int k = 0; k < n; k++)
        sum += x[k % period * 32 + threadIdx.x];
    y[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize(("steps", "period", "budget"), [(1000, 1000, None), (1_000_000, 8, 100_000)], ids=["by a fault", "by its budget"])
def test_a_launch_that_is_stopped_is_not_counted_and_the_next_one_is_counted_whole(steps: int, period: int, budget: int | None) -> None:
    """4 blocks of one warp load 8 lines each; stopped midway, nothing of it is left over."""
    module = gs.device("sim:h200", blocking=True, budget=budget).compile(STOPPED)
    x, y = (module.device.array(np.ones(8 * 32, np.int32)) for _ in range(2))
    with gs.profiling() as profile:
        with pytest.raises(gs.KernelFault):
            module["walks"][4, 32](steps, period, x, y)
        assert profile.launches == ()
        whole = gs.device("sim:h200").compile(STOPPED)
        x, y = (whole.device.array(np.ones(8 * 32, np.int32)) for _ in range(2))
        whole["walks"][4, 32](8, 8, x, y)
    walks = profile["walks"]
    assert (walks.load_requests, walks.load_sectors, walks.store_requests, walks.store_sectors) == (32, 128, 4, 16)
    assert len(profile.launches) == 1


RECURSIVE = """
__shared__ int kept[32];
__device__ __noinline__ int calls(const int *x, int *y, int n) {
    kept[threadIdx.x] = x[n];
    y[n * 32 + threadIdx.x] = kept[31 - threadIdx.x];
    return n < 2 ? 1 : 1 + calls(x, y, n - 1) + calls(x, y, n - 2);
}
extern "C" __global__ void tree(const int *x, int *y, int n) { y[(n + 1) * 32 + threadIdx.x] = calls(x, y, n); }
"""


def test_functions_that_are_called_are_counted() -> None:
    """Of 5: 15 calls (one, and those of 4 and of 3), each with an access of every kind."""
    module = gs.device("sim:h200").compile(RECURSIVE)
    x, y = (module.device.array(np.zeros(size, np.int32)) for size in (8, 8 * 32))
    with gs.profiling() as profile:
        module["tree"][1, 32](x, y, 5)
    assert y.numpy()[6 * 32] == 15
    tree = profile["tree"]
    assert (tree.load_requests, tree.load_sectors) == (15, 15)
    assert (tree.store_requests, tree.store_sectors) == (16, 64)
    assert (tree.shared_stores, tree.shared_store_wavefronts, tree.shared_loads, tree.shared_load_wavefronts) == (15, 15, 15, 15)
    assert tree.bank_conflicts == 0


EXCHANGES = """
extern "C" __global__ void exchanges(const float *x, float *y, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    tile[t] = x[t];
    __syncthreads();
    float v = 0;
    if (t < 64) {                                    // lanes are gathered before they exchange values
        v = t % 3 ? tile[t * 2 % 256] : 1.0f;
        for (int step = 16; step > 0; step /= 2)
            v += __shfl_down_sync(0xffffffff, v, step);
        v += __ballot_sync(0xffffffff, v > 0) & 1;
    }
    if (t < n)
        atomicAdd(&y[t], v);
}
"""


def test_checks_do_not_count() -> None:
    """What checks put into the code (companions of values, gatherings of lanes) is no instruction of the program."""
    module = gs.device("sim:h200").compile(EXCHANGES)
    x, y = module.device.array(np.ones(256, np.float32)), module.device.zeros(256)

    def counted() -> gs.Profile:
        with gs.profiling() as profile:
            module["exchanges"][1, 256](x, y, 200)
            module.device.synchronize()
        return profile

    plain = counted().launches[0].instructions
    with gs.checking():
        checked = counted().launches[0].instructions
    assert checked == plain
    assert {i.opcode for i in plain if i.opcode.startswith(("shadow", "bar.warp"))} == set()
    assert [i.executions for i in plain if i.opcode.startswith("shfl")] == [2] * 5
