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
