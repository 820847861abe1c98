"""Allocation, copies, fills, pinned, managed and pool memory: the same on the simulator and on a GPU."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import LaunchError, UsageError

from .conftest import N, blocks


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"])
def test_what_is_copied_there_comes_back(device: gs.Device, dtype: str) -> None:
    host = np.arange(60).reshape(3, 4, 5).astype(dtype)
    array = device.array(host)
    assert (array.shape, array.dtype) == (host.shape, host.dtype)
    assert np.array_equal(array.numpy(), host)
    assert np.array_equal(np.asarray(array), host)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_and_empty_arrays(device: gs.Device, shape: tuple[int, ...]) -> None:
    assert np.array_equal(device.zeros(shape, np.int32).fill(4).numpy(), np.full(shape, 4, np.int32))


def test_strided_views_are_read_and_written(device: gs.Device) -> None:
    host = np.arange(48, dtype=np.int32).reshape(6, 8)
    array = device.array(host)
    assert np.array_equal(array[1:5:2, ::-3].numpy(), host[1:5:2, ::-3])
    array[::2, 1:4] = np.full((3, 3), -1, np.int32)
    array[5] = 9
    host[::2, 1:4], host[5] = -1, 9
    assert np.array_equal(array.numpy(), host)


def test_copies_between_arrays_of_the_device(device: gs.Device) -> None:
    host = np.arange(48, dtype=np.float32).reshape(6, 8)
    source, target = device.array(host), device.zeros((6, 8))
    target.copy_from(source)
    assert np.array_equal(target.numpy(), host)
    target.fill(0)
    target[1:3, 2:5] = source[3:5, 0:3]
    assert np.array_equal(target.numpy()[1:3, 2:5], host[3:5, 0:3]) and target.numpy().sum() == host[3:5, 0:3].sum()
    again = device.array(source)
    source.fill(0)
    assert np.array_equal(again.numpy(), host)


def test_types_and_shapes_that_do_not_fit_are_refused(device: gs.Device) -> None:
    array = device.zeros(4, np.int8)
    with pytest.raises(UsageError, match="does not fit"):
        array.fill(300)
    with pytest.raises(UsageError, match="cannot copy an array of shape"):
        array.copy_from(np.zeros(5, np.int8))
    with pytest.raises(UsageError, match="converts nothing"):
        device.stream().copy(array, np.zeros(4, np.int16))
    with pytest.raises(UsageError, match="cannot copy float64"):
        array.copy_from(np.zeros(4))


VALUES: list[tuple[str, Any]] = [("uint8", 7), ("int16", -2), ("int32", 123456789), ("float32", 1.5), ("float64", 1.1), ("int64", 3), ("complex128", 1 + 2j)]


@pytest.mark.parametrize(("dtype", "value"), VALUES)
def test_fills_of_every_kind_of_view(device: gs.Device, dtype: str, value: Any) -> None:
    host = np.zeros((6, 10), dtype)
    array = device.array(host)
    with device.stream() as stream:
        for key in (np.s_[0], np.s_[2:4, 3:7], np.s_[5, ::3], np.s_[4, ::-2]):
            array[key].fill(value, stream=stream)
            host[key] = value
    assert np.array_equal(array.numpy(), host)
    assert np.array_equal(array.fill(value).numpy(), np.full((6, 10), value, dtype))


def test_a_fill_of_an_array_of_three_axes_with_gaps(device: gs.Device) -> None:
    host = np.zeros((3, 4, 6), np.int32)
    array = device.array(host)
    with device.stream() as stream:
        array[::2, 1:3, 2:5].fill(8, stream=stream)
    host[::2, 1:3, 2:5] = 8
    assert np.array_equal(array.numpy(), host)


def test_pitched_rows(device: gs.Device) -> None:
    array = device.pitched((5, 7), np.float32)
    host = np.arange(35, dtype=np.float32).reshape(5, 7)
    assert array.strides[0] % 512 == 0
    with device.stream() as stream:
        array.copy_from(host, stream=stream)
        back = np.zeros_like(host)
        array.copy_to(back, stream=stream)
    assert np.array_equal(back, host) and np.array_equal(array.numpy(), host)


@pytest.mark.parametrize("kind", ["pageable", "pinned"])
def test_copies_in_a_stream(device: gs.Device, kind: str) -> None:
    values = np.arange(4096, dtype=np.float32).reshape(64, 64)
    there = device.pinned((64, 64)) if kind == "pinned" else values
    back = device.pinned((64, 64)) if kind == "pinned" else np.zeros_like(values)
    if kind == "pinned":
        there[...] = values
    array, copy = device.zeros((64, 64)), device.zeros((64, 64))
    with device.stream() as stream:
        array.copy_from(there, stream=stream)
        copy[:, 8:40].copy_from(array[:, 8:40], stream=stream)
        copy[2:60:2].copy_from(array[2:60:2], stream=stream)
        copy.copy_to(back, stream=stream)
    want = np.zeros_like(values)
    want[:, 8:40], want[2:60:2] = values[:, 8:40], values[2:60:2]
    assert np.array_equal(np.asarray(back), want)


def test_rows_of_two_widths(device: gs.Device) -> None:
    values = np.arange(24, dtype=np.int32)
    wide, narrow = device.array(np.zeros((4, 8), np.int32)), device.array(np.zeros((6, 4, 2), np.int32))
    source = device.array(values.reshape(4, 6))
    with device.stream() as stream:
        wide[:, :6].copy_from(source, stream=stream)
        narrow[:, :2].copy_from(wide[:, :6].reshape(6, 2, 2) if wide[:, :6].contiguous else source.reshape(6, 2, 2), stream=stream)
    assert np.array_equal(wide.numpy()[:, :6].reshape(-1), values) and np.array_equal(narrow.numpy()[:, :2].reshape(-1), values)


def test_a_host_array_may_go_before_its_copy_has_ended(device: gs.Device) -> None:
    array = device.zeros(1 << 20, np.int32)
    with device.stream() as stream:
        array.copy_from(np.full(1 << 20, 5, np.int32), stream=stream)
        gc.collect()
    assert (array.numpy() == 5).all()


def test_pinned_memory_is_zero_and_kernels_use_it_as_it_is(device: gs.Device, module: gs.Module) -> None:
    pinned = device.pinned(N, np.int32)
    assert (pinned.numpy() == 0).all()
    pinned[...] = np.arange(N, dtype=np.int32)
    out = device.zeros(N, np.int32)
    module["next"][blocks(N), 128](N, pinned, out)
    module["add"][blocks(N), 128](N, 10, pinned)
    device.synchronize()
    assert np.array_equal(out.numpy(), np.arange(N) + 1) and np.array_equal(pinned.numpy(), np.arange(N) + 10)
    part = pinned[10:20]
    with device.stream() as stream:
        out[:10].copy_from(part, stream=stream)
    assert np.array_equal(out.numpy()[:10], np.arange(20, 30))


def test_managed_memory_has_one_address_for_both(device: gs.Device, module: gs.Module) -> None:
    managed = device.managed(N, np.int32)
    managed.host[...] = np.arange(N)
    with device.stream() as stream:
        stream.prefetch(managed)
        module["add"][blocks(N), 128](N, 5, managed, stream=stream)
        stream.prefetch(managed, to_host=True)
    assert np.array_equal(managed.host, np.arange(N) + 5) and np.array_equal(managed.numpy(), np.arange(N) + 5)
    with pytest.raises(UsageError, match="only managed memory"):
        device.stream().prefetch(device.zeros(4))


def test_the_pool_of_a_stream(device: gs.Device, module: gs.Module) -> None:
    total = device.zeros(N, np.int32)
    with device.stream() as stream:
        for value in range(1, 4):
            some = stream.empty(N, np.int32)
            some.fill(value, stream=stream)
            module["next"][blocks(N), 128](N, some, total, stream=stream)
            stream.free(some)
            with pytest.raises(UsageError, match="freed"):
                some.numpy()
            with pytest.raises(UsageError, match="freed"):
                stream.free(some)
    assert (total.numpy() == 4).all()


def test_use_after_free_and_free_after_free(device: gs.Device) -> None:
    array = device.zeros(4)
    view = array[1:]
    array.free()
    for use in (array.numpy, view.numpy, lambda: view.fill(1), lambda: device.array(np.zeros(3)).copy_from(view)):
        with pytest.raises(UsageError, match="was freed and cannot be used any more"):
            use()
    with pytest.raises(UsageError, match="was already freed"):
        array.free()
    pinned = device.pinned(4)
    pinned.free()
    with pytest.raises(UsageError, match="was freed"):
        pinned[0]


def test_memory_that_nobody_uses_is_given_back(device: gs.Device) -> None:
    for _ in range(50):
        device.empty(1 << 26, np.uint8)  # 3 GB in all
    with device.empty(1000) as array:
        assert array.storage.live
    assert not array.storage.live


def test_more_than_there_is_is_refused(device: gs.Device) -> None:
    with pytest.raises(LaunchError, match="out of device memory: .* bytes asked for, .* free"):
        device.empty(1 << 40, np.uint8)
    assert device.zeros(3).numpy().tolist() == [0, 0, 0]


def test_only_a_gpus_arrays_are_cudas(device: gs.Device, device_name: str) -> None:
    array = device.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    if device_name == "sim":
        assert not hasattr(array, "__cuda_array_interface__") and array.__dlpack_device__() == (1, 0)
        assert np.array_equal(np.from_dlpack(array), array.numpy())
    else:
        said = array[:, 1:].__cuda_array_interface__
        assert (said["shape"], said["typestr"], said["data"], said["strides"]) == ((2, 2), "<f4", (array.address + 4, False), (12, 4))
        assert array.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_arrays_of_other_libraries_on_a_gpu(device: gs.Device, device_name: str, library: str) -> None:
    if device_name == "sim":
        pytest.skip("the simulator's memory is no GPU's")
    other = pytest.importorskip(library)
    theirs = other.arange(12, dtype=other.float32).reshape(3, 4)
    theirs = theirs.cuda() if library == "torch" else theirs
    ours = device.array(theirs.T)
    assert np.array_equal(ours.numpy(), np.arange(12, dtype=np.float32).reshape(3, 4).T)
    seen = other.from_dlpack(ours)
    ours.fill(4)
    device.synchronize()
    assert float(seen.sum()) == 48
    del ours
    gc.collect()
    assert float(seen.sum()) == 48  # the importer keeps the memory
