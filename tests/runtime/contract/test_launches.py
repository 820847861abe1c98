"""Launches: arguments, shapes, shared memory, variables, cooperative and cluster launches."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import LaunchError, UnsupportedError, UsageError
from gridstride.runtime.device import LaunchShape

from .conftest import SOURCE, N, blocks


def test_a_kernel_computes(device: gs.Device, module: gs.Module) -> None:
    a, b = np.random.default_rng(1).random((2, N))
    out = device.zeros(N, np.float64)
    module["fused"][blocks(N), 128](N, device.array(a), device.array(b), out)
    assert np.array_equal(out.numpy(), a * b)


def test_many_launches_follow_each_other(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(N, np.int32)
    for value in range(300):  # more than one batch of what is kept for a stream
        module["add"][blocks(N), 128](N, value, x)
    assert (x.numpy() == sum(range(300))).all()


def test_a_template_and_ptx(device: gs.Device, module: gs.Module) -> None:
    x = device.array(np.arange(8, dtype=np.float32))
    device.compile("template <typename T> __global__ void twice(T* x) { x[threadIdx.x] += x[threadIdx.x]; }")["twice<float>"][1, 8](x)
    assert np.array_equal(x.numpy(), 2 * np.arange(8, dtype=np.float32))
    ptx = device.compile(
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry seven(.param .u64 to) {\n.reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
        "ld.param.u64 %rd1, [to]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, 7; st.global.u32 [%rd2], %r1; ret; }\n"
    )
    y = device.zeros(1, np.int32)
    ptx["seven"][1, 1](y)
    assert y.item() == 7


def test_variables_of_a_module(device: gs.Device, module: gs.Module) -> None:
    fresh = module.fresh()
    assert fresh.variable("counter", np.int32).item() == 3
    fresh["count"][2, 5]()
    fresh.device.synchronize()
    assert fresh.variable("counter", np.int32).item() == 3 + 20
    fresh.variable("factor", np.int32).fill(10)
    fresh["count"][1, 1]()
    assert fresh.variable("counter", np.int32).item() == 33
    assert module.variable("counter", np.int32).item() == 3
    with pytest.raises(UsageError, match="has no variable 'countr'; did you mean 'counter'"):
        module.variable("countr")


@pytest.mark.parametrize("size", [1024, 48 * 1024, 100 * 1024, 227 * 1024])
def test_dynamic_shared_memory(device: gs.Device, module: gs.Module, size: int) -> None:
    out = device.zeros(1, np.int32)
    module["last_byte"][1, 32](size, out, shared=size)
    assert out.item() == 7


def test_what_no_device_launches_is_refused(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(4, np.int32)
    for wrong, grid, block, shared in (
        ("is too large: .* allows 1,024 threads a block", 1, (64, 32), 0),
        ("the grid's x dimension is 0", 0, 1, 0),
        ("the grid's y dimension is 70,000 blocks; the limit is 65,535", (1, 70_000), 1, 0),
        ("bytes of shared memory a block are too many", 1, 1, 228 * 1024),
    ):
        with pytest.raises(LaunchError, match=wrong):
            module["add"][grid, block](4, 1, x, shared=shared)
    with pytest.raises(LaunchError, match="argument 3"):
        module["add"][1, 1](4, 1, np.zeros(4, np.int32))
    with pytest.raises(LaunchError, match="argument 3 .*: the array holds float32"):
        module["add"][1, 1](4, 1, device.zeros(4))
    assert x.numpy().tolist() == [0] * 4


def test_a_kernel_of_another_kind_of_device_is_refused(device: gs.Device, device_name: str) -> None:
    if device_name == "sim":
        pytest.skip("there is no other kind of device here")
    other = gs.device("sim", blocking=True).compile(SOURCE)["trapped"]
    with pytest.raises(LaunchError, match="was compiled for"):
        device.require_launchable(other, LaunchShape((1, 1, 1), (1, 1, 1)))


def test_a_cooperative_launch(device: gs.Device, module: gs.Module) -> None:
    out = device.zeros(8, np.int32)
    fresh = device.compile(SOURCE)
    fresh["all_meet"][8, 32](out, cooperative=True)
    assert out.numpy().tolist() == [1] * 8


def test_a_launch_in_clusters(device: gs.Device, module: gs.Module) -> None:
    x = device.zeros(N, np.int32)
    try:
        module["add"][8, 128](N, 3, x, cluster=2)
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert (x.numpy() == 3).all()


def test_a_launch_that_is_waited_for_says_how_long_it_took(device: gs.Device, module: gs.Module) -> None:
    outcome = module["slow"].launch(LaunchShape((1, 1, 1), (1, 1, 1)), (10_000, device.zeros(1, np.int32)))
    assert outcome.seconds > 0 and outcome.threads == 1


def test_sessions_say_what_they_did_not_see(device: gs.Device, module: gs.Module, device_name: str) -> None:
    x = device.zeros(N, np.int32)
    with gs.checking() as findings, gs.profiling() as profile:
        module["add"][blocks(N), 128](N, 1, x)
        device.synchronize()
    if device_name == "sim":
        assert findings.passed and len(profile.launches) == 1
    else:
        assert not findings.passed and any("on a GPU" in what for what in findings.receipt.skipped)
        assert len(profile) == 0 and "on a GPU" in str(profile)
