"""Arrays against NumPy's own slicing, over a piece of fake device memory."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from gridstride.errors import UsageError
from runtime.fakes import BASE, FakeMemory, array_on

SHAPE = (4, 5, 6)


@given(numpy_strategies.basic_indices(SHAPE, allow_newaxis=True))
def test_views_hold_what_numpy_slices_hold(index: Any) -> None:
    host = np.arange(120, dtype=np.int32).reshape(SHAPE)
    view = array_on(FakeMemory(), host)[index]
    expected = host[index]
    assert view.shape == np.shape(expected)
    assert np.array_equal(view.numpy(), expected)
    assert view.nbytes == np.asarray(expected).nbytes


@given(numpy_strategies.basic_indices(SHAPE, allow_newaxis=True), st.integers(-(2**31), 2**31 - 1))
def test_writing_through_a_view_changes_what_numpy_would_change(index: Any, value: int) -> None:
    host = np.arange(120, dtype=np.int32).reshape(SHAPE)
    array = array_on(FakeMemory(), host)
    array[index] = value
    host[index] = value
    assert np.array_equal(array.numpy(), host)


def test_address_of_a_view_counts_bytes_from_the_start() -> None:
    array = array_on(FakeMemory(), np.zeros((4, 5), np.float64), offset=256)
    assert array.address == BASE + 256
    assert array[2, 3].address == BASE + 256 + (2 * 5 + 3) * 8
    assert array[1:, 1:].address == BASE + 256 + 6 * 8
    assert array[::-1].address == BASE + 256 + 3 * 5 * 8


def test_copy_from_and_numpy_round_trip_and_are_copies() -> None:
    host = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    array = array_on(FakeMemory(), np.zeros((3, 4), np.float32)).copy_from(host)
    result = array.numpy()
    assert np.array_equal(result, host)
    result[...] = 0
    assert np.array_equal(array.numpy(), host)
    assert np.array_equal(np.asarray(array), host)
    assert np.array_equal(np.asarray(array, np.float64), host.astype(np.float64))


def test_fields_of_records_are_strided_views() -> None:
    host = np.array([(1, 2.5), (3, 4.5)], dtype=[("key", np.int32), ("value", np.float32)])
    array = array_on(FakeMemory(), host)
    array["value"].fill(7.0)
    assert array.numpy()["value"].tolist() == [7.0, 7.0]
    assert array["key"].numpy().tolist() == [1, 3]


def test_reshape_and_view_share_memory() -> None:
    array = array_on(FakeMemory(), np.arange(8, dtype=np.uint32))
    assert array.reshape(2, -1).numpy().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    array.reshape((4, 2))[3, 1] = 0x3F800000
    assert array.view(np.float32)[7].item() == 1.0


def test_dlpack_shares_the_memory_and_keeps_it_alive() -> None:
    memory = FakeMemory()
    array = array_on(memory, np.arange(6, dtype=np.float32).reshape(2, 3))
    exported = np.from_dlpack(array)
    array[1, 2] = 42.0
    assert exported.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 42.0]]
    del array
    gc.collect()
    assert memory.freed == 0
    del exported
    gc.collect()
    assert memory.freed == 1


def test_memory_is_freed_with_the_last_view() -> None:
    memory = FakeMemory()
    array = array_on(memory, np.zeros(10))
    view = array[3:]
    del array
    gc.collect()
    assert memory.freed == 0
    del view
    gc.collect()
    assert memory.freed == 1


def test_with_frees_once() -> None:
    memory = FakeMemory()
    with array_on(memory, np.zeros(10)) as array:
        assert array.size == 10
    assert memory.freed == 1
    del array
    gc.collect()
    assert memory.freed == 1


def test_empty_arrays_work() -> None:
    array = array_on(FakeMemory(), np.zeros((0, 3), np.float32))
    assert array.numpy().shape == (0, 3)
    assert array.fill(1).copy_from(np.zeros((0, 3), np.float32)).nbytes == 0


def wrong(message: str) -> Any:
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


def test_use_after_free_wrong() -> None:
    array = array_on(FakeMemory(), np.zeros(4), name="x")
    view = array[1:]
    array.free()
    for use in (array.numpy, view.numpy, lambda: array.address, lambda: array[0], lambda: view.fill(0)):
        with wrong("the array 'x' was freed and cannot be used any more"):
            use()
    with wrong("the array 'x' was already freed"):
        view.free()


def test_copy_from_wrong() -> None:
    array = array_on(FakeMemory(), np.zeros((2, 3), np.int32))
    with wrong("cannot copy an array of shape (3, 2) into one of shape (2, 3)"):
        array.copy_from(np.zeros((3, 2), np.int32))
    with wrong("cannot copy float64 into an array of int32: convert it first, as in .astype(np.int32)"):
        array.copy_from(np.zeros((2, 3)))
    with wrong("3000000000 does not fit an array of int32 (-2147483648 to 2147483647)"):
        array.copy_from(np.full((2, 3), 3_000_000_000))
    with wrong("-1 does not fit an array of uint8 (0 to 255)"):
        array_on(FakeMemory(), np.zeros(3, np.uint8)).fill(-1)
    with wrong("an array of <U1 cannot lie in device memory; convert it to numbers first"):
        array.copy_from(["a"])


def test_slicing_wrong() -> None:
    array = array_on(FakeMemory(), np.zeros(4))
    with wrong("device arrays are sliced by numbers and ranges, not by list; copy with .numpy() first"):
        array[[0, 1]]
    with wrong("an array of float64 has no field 'x'"):
        array["x"]
    with pytest.raises(IndexError):
        array[4]
    with wrong("only an array without gaps can be reshaped without a copy"):
        array[::2].reshape(2)
    with wrong("cannot reshape (4,) into (3,)"):
        array.reshape((3,))
    with wrong("rows of 24 bytes cannot be seen as complex128"):
        array_on(FakeMemory(), np.zeros(3)).view(np.complex128)
