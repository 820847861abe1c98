"""Images that lie in a device's memory already: their edges stay there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UnsupportedError, UsageError
from gridstride.pipeline import DeviceEdges, Parameters, edges, reference
from gridstride.pipeline.implementations import place_of
from pipeline import cases


@pytest.mark.parametrize("impl", ["cuda", "fused", "cub", "python"])
def test_edges_of_a_device_array_stay_on_its_device(impl: str) -> None:
    device = gs.device("sim")
    chosen = Parameters(output="blurred", depth="float")
    with gs.checking() as findings:
        for channels, bits in ((1, 8), (3, 8), (4, 16)):
            image = cases.image(33, 70, channels, bits)
            made = edges(device.array(image), impl=impl, output="blurred", depth="float")
            assert isinstance(made, DeviceEdges)
            assert all(isinstance(array, gs.Array) and array.device is device for array in (made.edges, made.histogram, made.output))
            expected = reference.run(image, np.float32, chosen)
            result = made.numpy()
            np.testing.assert_array_equal(result.edges, expected.edges)
            np.testing.assert_array_equal(result.histogram, expected.histogram)
            np.testing.assert_array_equal(result.output, expected.blurred)
    assert not findings, str(findings)


def test_edges_can_be_used_where_they_are() -> None:
    device = gs.device("sim")
    image = cases.image(20, 64, 1, 8)[..., 0]
    made = edges(device.array(image), impl="fused")
    again = edges(made.edges, impl="fused")  # a view of pitched memory
    np.testing.assert_array_equal(again.numpy().edges, reference.run(reference.run(image).edges).edges)
    assert made.output is made.edges


def test_only_the_results_take_memory() -> None:
    """A device with room for one frame and a half: it is enough for many images, as long as their results are given back."""
    image = np.zeros((1200, 1600), np.uint8)
    frame = image.size * (1 + 16 + 1)
    device = gs.device("sim")
    free = device.allocate(device.spec.memory_bytes - frame * 3 // 2)
    on_device = device.array(image)
    for _ in range(4):
        made = edges(on_device, impl="cuda")
        for array in (made.edges, made.histogram):
            array.free()
    assert free.live


def test_views_are_taken_as_they_are() -> None:
    image = cases.image(40, 70, 3, 8)
    on_device = gs.device("sim").array(image)
    np.testing.assert_array_equal(edges(on_device[::2, 5:60]).numpy().edges, reference.run(image[::2, 5:60]).edges)


def test_another_device_than_the_images_wrong() -> None:
    image = gs.device("sim:a100").array(np.zeros((4, 4), np.uint8))
    with pytest.raises(UsageError) as caught:
        edges(image, "sim:h200")
    assert str(caught.value) == "the image lies in the memory of sim:a100, not of sim:h200: copy it to the host first, or leave the device out"
    with pytest.raises(UsageError) as caught:
        edges(image, impl="reference")
    assert str(caught.value) == "`reference` runs in NumPy and has no frame on a device"


@pytest.mark.parametrize(
    ("array", "place"),
    [
        (np.zeros((2, 2)), None),
        ([[1, 2], [3, 4]], None),
        (SimpleNamespace(__cuda_array_interface__={}), "gpu:0"),
        (SimpleNamespace(__cuda_array_interface__={}, __dlpack__=None, __dlpack_device__=lambda: (2, 3)), "gpu:3"),
        (SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (2, 1)), "gpu:1"),
        (SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (1, 0)), None),
    ],
)
def test_where_an_image_lies(array: Any, place: str | None) -> None:
    assert place_of(array) == place


def test_a_gpus_array_goes_to_that_gpu() -> None:
    try:
        import cupy
    except ImportError:
        with pytest.raises(UnsupportedError):  # there is no GPU here, and it must not be taken for an array of the host
            edges(SimpleNamespace(__cuda_array_interface__={}, shape=(2, 2), dtype=np.dtype(np.uint8)))  # type: ignore[call-overload]
        return
    image = cases.image(33, 70, 3, 8)
    for impl in ("cuda", "fused", "cub"):
        made = edges(cupy.asarray(image), impl=impl)
        assert isinstance(made, DeviceEdges)
        np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(made.edges)), reference.run(image).edges)
        np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(made.histogram)), reference.run(image).histogram)
