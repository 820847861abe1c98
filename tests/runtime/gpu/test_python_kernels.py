"""Python kernels on a GPU, over a stand-in for its driver: the parameters that the driver is given, and the PTX that it loads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import gridstride as gs
from gridstride.runtime.gpu_driver import ptx_version

from .fake_driver import FakeDriver

cuda = pytest.importorskip("numba.cuda")


def scale(x, factor, pair):
    x[cuda.grid(1)] *= factor + pair[0]


def test_the_parameters_are_those_of_the_simulator(device: gs.Device, driver: FakeDriver) -> None:
    seen: list[list[int]] = []

    def body(parameters: list[int]) -> None:
        wide = [ctypes.c_int64.from_address(parameters[k]).value for k in range(7)]
        seen.append(wide)
        values = (ctypes.c_float * 6).from_address(wide[4])
        for k in range(wide[5]):
            values[k * wide[6] // 4] *= ctypes.c_float.from_address(parameters[7]).value

    driver.functions["scale"] = body
    x = device.array(np.arange(6, dtype=np.float32))[::2]
    device.compile(scale)[1, 3](x, np.float32(2.5), (1, 2.0))
    assert seen == [[0, 0, 3, 4, x.address, 3, 8]]  # owner, parent, elements, bytes of one, address, extent, stride
    assert x.numpy().tolist() == [0, 5, 10]
    image = next(arguments[0] for name, arguments in driver.calls if name == "cuModuleLoadDataEx")
    assert b".visible .entry scale(" in image and image.endswith(b"\0")


def test_numpy_arrays_are_copied_there_and_back(device: gs.Device, driver: FakeDriver) -> None:
    def body(parameters: list[int]) -> None:
        (ctypes.c_float * 1).from_address(ctypes.c_int64.from_address(parameters[4]).value)[0] = 9

    driver.functions["scale"] = body
    x = np.zeros(3, np.float32)
    device.compile(scale)[1, 3](x, np.float32(1), (1, 2.0))
    assert x.tolist() == [9, 0, 0]


def test_an_older_driver_is_given_the_version_that_it_knows(device: gs.Device, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bytes] = []
    load = FakeDriver._cuModuleLoadDataEx

    def choosy(self: FakeDriver, image: bytes, *more: object) -> object:
        loaded.append(image)
        if b".version 9.0" not in image:
            return (gs_status("CUDA_ERROR_UNSUPPORTED_PTX_VERSION"), None)
        return load(self, image, *more)  # type: ignore[arg-type]

    def gs_status(name: str) -> object:
        from .fake_driver import Status

        return getattr(Status, name)

    monkeypatch.setattr(FakeDriver, "_cuModuleLoadDataEx", choosy)
    device.compile(scale)[1, 3](device.zeros(3), np.float32(1), (1, 2.0))
    assert [image.split(b"\n")[0] for image in loaded] == [loaded[0].split(b"\n")[0], b".version 9.0"]  # the stand-in speaks CUDA 13.0


@pytest.mark.parametrize(("cuda_version", "ptx"), [((12, 0), "8.0"), ((12, 5), "8.5"), ((12, 6), "8.5"), ((12, 8), "8.7"), ((12, 9), "8.8"), ((13, 0), "9.0"), ((13, 1), "9.1")])
def test_versions_of_ptx(cuda_version: tuple[int, int], ptx: str) -> None:
    """PTX ISA, release notes: 12.5 and 12.6 brought the same version."""
    assert ptx_version(*cuda_version) == ptx
