"""A GPU's device over a stand-in for its driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import gridstride as gs
from gridstride.runtime import gpu_context, gpu_driver
from gridstride.runtime.gpu_device import GpuDevice

if TYPE_CHECKING:
    from .fake_driver import FakeDriver

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .b8 table[16];
.visible .entry add(.param .u64 x, .param .u32 n) { ret; }
.visible .entry wide(.param .u64 x, .param .f64 a) .maxntid 64 { ret; }
"""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    from .fake_driver import FakeDriver  # here: it skips what uses it where there are no bindings

    driver = FakeDriver()
    install(monkeypatch, driver)
    return driver


def install(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    for place in (gpu_driver, gpu_context):
        monkeypatch.setattr(place, "load_driver", lambda: driver)


@pytest.fixture
def device(driver: FakeDriver) -> Iterator[GpuDevice]:
    device = gs.device("gpu", blocking=False)
    assert isinstance(device, GpuDevice)
    yield device
    driver.broken = None
    device.context.health.surfaced = True  # what a test did not wait for is its own affair


@pytest.fixture
def kernel(device: GpuDevice, driver: FakeDriver) -> gs.Kernel:
    """x[0] += n, when it is launched."""

    def add(parameters: list[int]) -> None:
        address = ctypes.c_uint64.from_address(parameters[0]).value
        ctypes.c_uint32.from_address(address).value += ctypes.c_uint32.from_address(parameters[1]).value

    driver.functions["add"] = add
    return device.compile(PTX)["add"]
