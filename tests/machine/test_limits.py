"""Launch limits: what is allowed to the last thread, and the whole message of each refusal."""

from typing import Any

import numpy as np
import pytest

from gridstride.errors import LaunchError
from gridstride.machine.devices import find_device
from gridstride.machine.limits import as_dim3, check_launch, format_dim3, max_threads_for_registers

H200 = find_device("h200")
RTX4090 = find_device("rtx4090")


@pytest.mark.parametrize(
    ("grid", "block", "more"),
    [
        ((1, 1, 1), (1024, 1, 1), {}),
        ((1, 1, 1), (1, 1024, 1), {}),
        ((1, 1, 1), (16, 1, 64), {}),
        ((2**31 - 1, 1, 1), (1, 1, 1), {}),
        ((1, 65_535, 65_535), (1, 1, 1), {}),
        ((1, 1, 1), (1, 1, 1), {"shared_bytes": 227 * 1024}),
        ((1, 1, 1), (1, 1, 1), {"shared_bytes": 48 * 1024, "shared_optin": False}),
        ((1, 1, 1), (1024, 1, 1), {"registers": 64}),
        ((1, 1, 1), (896, 1, 1), {"registers": 72}),
        ((1, 1, 1), (128, 1, 1), {"registers": 255}),
        ((1, 1, 1), (128, 1, 1), {"max_threads": 128}),
    ],
)
def test_the_largest_that_is_allowed(grid: Any, block: Any, more: dict[str, Any]) -> None:
    check_launch(H200, grid, block, **more)


@pytest.mark.parametrize(
    ("grid", "block", "more", "message"),
    [
        ((1, 1, 1), (1025, 1, 1), {}, "the block's x dimension is 1,025 threads; the limit is 1,024"),
        ((1, 1, 1), (1, 1025, 1), {}, "the block's y dimension is 1,025 threads; the limit is 1,024"),
        ((1, 1, 1), (1, 1, 65), {}, "the block's z dimension is 65 threads; the limit is 64"),
        ((2**31, 1, 1), (1, 1, 1), {}, "the grid's x dimension is 2,147,483,648 blocks; the limit is 2,147,483,647"),
        ((1, 65_536, 1), (1, 1, 1), {}, "the grid's y dimension is 65,536 blocks; the limit is 65,535"),
        ((1, 1, 65_536), (1, 1, 1), {}, "the grid's z dimension is 65,536 blocks; the limit is 65,535"),
        ((0, 1, 1), (1, 1, 1), {}, "the grid's x dimension is 0; every dimension must be at least 1"),
        ((1, 1, 1), (32, 0, 1), {}, "the block's y dimension is 0; every dimension must be at least 1"),
        ((1, 1, -3), (32, 1, 1), {}, "the grid's z dimension is -3; every dimension must be at least 1"),
        ((1, 1, 1), (33, 32, 1), {}, "a block of 33 × 32 = 1,056 threads is too large: H200 SXM 141GB allows 1,024 threads a block"),
        (
            (1, 1, 1), (256, 1, 1), {"max_threads": 128},
            "a block of 256 threads is too large: the kernel was compiled for at most 128 threads a block (`__launch_bounds__` or `.maxntid`)",
        ),
        (
            (1, 1, 1), (1, 1, 1), {"shared_bytes": 227 * 1024 + 1},
            "232,449 bytes of shared memory a block are too many: H200 SXM 141GB allows 232,448, static and dynamic together",
        ),
        (
            (1, 1, 1), (1, 1, 1), {"shared_bytes": 48 * 1024 + 1, "shared_optin": False},
            ("49,153 bytes of shared memory a block are more than the default of 49,152: opt in with cudaFuncAttributeMaxDynamicSharedMemorySize "
            "(H200 SXM 141GB then allows 232,448)"),
        ),
        ((1, 1, 1), (1, 1, 1), {"shared_bytes": -4}, "a block cannot have -4 bytes of shared memory"),
        (
            (1, 1, 1), (32, 32, 1), {"registers": 65},
            ("a block of 32 × 32 = 1,024 threads needs too many registers: at 65 registers a thread, H200 SXM 141GB (64 K registers a block) allows "
            "896 threads; use smaller blocks or `__launch_bounds__`"),
        ),
        ((1, 1, 1), (32, 1, 1), {"registers": 256}, "256 registers a thread are impossible: H200 SXM 141GB has at most 255"),
    ],
)  # fmt: skip
def test_refused_launch_wrong(grid: Any, block: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check_launch(H200, grid, block, **more)
    assert str(caught.value) == message


def test_limits_are_the_devices_own() -> None:
    check_launch(H200, (1, 1, 1), (1, 1, 1), shared_bytes=100 * 1024)
    with pytest.raises(LaunchError, match="GeForce RTX 4090 allows 101,376"):
        check_launch(RTX4090, (1, 1, 1), (1, 1, 1), shared_bytes=100 * 1024)


# What the driver of an H200 gave as the largest block of kernels with that many registers (occupancy_h200.json).
@pytest.mark.parametrize(("registers", "threads"), [(72, 896), (96, 640), (128, 512), (168, 384), (254, 256)])
def test_registers_bound_the_block(registers: int, threads: int) -> None:
    assert max_threads_for_registers(H200.architecture, registers) == threads


@pytest.mark.parametrize(
    ("value", "dim3"), [(7, (7, 1, 1)), (np.int64(7), (7, 1, 1)), ((3,), (3, 1, 1)), ([3, 4], (3, 4, 1)), ((3, 4, 5), (3, 4, 5))]
)
def test_as_dim3(value: Any, dim3: tuple[int, int, int]) -> None:
    assert as_dim3(value, "grid") == dim3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, "the grid must be an integer or a tuple of up to three, not 1.5"),
        ("12", "the grid must be an integer or a tuple of up to three, not '12'"),
        ((1, 2.0), "the grid must be an integer or a tuple of up to three, not (1, 2.0)"),
        ((), "the grid must have one to three dimensions, not 0: ()"),
        ((1, 2, 3, 4), "the grid must have one to three dimensions, not 4: (1, 2, 3, 4)"),
    ],
)
def test_as_dim3_wrong(value: Any, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        as_dim3(value, "grid")
    assert str(caught.value) == message


def test_format_dim3() -> None:
    assert [format_dim3(d) for d in ((1, 1, 1), (1000, 1, 1), (16, 16, 1), (1, 1, 4))] == ["1", "1,000", "16 × 16", "1 × 1 × 4"]
