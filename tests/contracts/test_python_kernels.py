"""Contracts of kernels written in Python, and the indices of `gridstride.index`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import ContractError, UsageError

pytest.importorskip("numba.cuda")
from numba import cuda

from gridstride.index import elements, elements_y, elements_z, mine, mine_y, mine_z


@gs.contract(extent="n", block=64, covers="y", extents={"x": "n"}, distinct=("x", "y"), shared="8*block")
@cuda.jit
def twice(n, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


@cuda.jit
@gs.contract(extent="y.size", covers="y", block_multiple_of=32)
def inner(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = 2 * x[i]


@gs.contract(extent="y.size", covers="y", block=64)
@cuda.jit
def one(x, y):
    for i in mine(y.size):
        y[i] = 2 * x[i]


@gs.contract(extent="y.size", covers="y", block=64, grid_stride=True)
@cuda.jit
def many(x, y):
    for i in elements(y.size):
        y[i] = 2 * x[i]


@gs.contract(extent=("out.shape[1]", "out.shape[0]"), covers="out", block=(8, 4))
@cuda.jit
def image(out):
    for row in mine_y(out.shape[0]):
        for column in mine(out.shape[1]):
            out[row, column] = row


@gs.contract(extent=("out.shape[2]", "out.shape[1]", "out.shape[0]"), covers="out", block=(4, 4, 2))
@cuda.jit
def volume(out):
    for k in mine_z(out.shape[0]):
        for j in mine_y(out.shape[1]):
            for i in mine(out.shape[2]):
                out[k, j, i] = k


@gs.contract(extent=("out.shape[2]", "out.shape[1]", "out.shape[0]"), covers="out", block=(4, 4, 2), grid_stride=True)
@cuda.jit
def volume_loop(out):
    for k in elements_z(out.shape[0]):
        for j in elements_y(out.shape[1]):
            for i in elements(out.shape[2]):
                out[k, j, i] = k


def pair(device: gs.Device, n: int) -> Sequence[Any]:
    return device.array(np.arange(n, dtype=np.float32)), device.empty(n)


def box(device: gs.Device, *extent: int) -> Sequence[Any]:
    return (device.empty(tuple(reversed(extent)), np.int32),)


@pytest.fixture(scope="module")
def device() -> gs.Device:
    return gs.device("sim")


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (twice, lambda device, n: (n, *pair(device, n))),
        *((function, pair) for function in (inner, one, many)),
        *((function, box) for function in (image, volume, volume_loop)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_element_has_its_thread(device: gs.Device, function: Any, make: Any) -> None:
    proof = device.compile(function).prove(arguments=make)
    assert proof.passed and "double-write" in proof.checks and sum(proof.covered.values()) > 500, proof


def test_launches_are_held_against_it(device: gs.Device) -> None:
    kernel = device.compile(twice)
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    for launch, message in (
        (lambda: kernel[1000, 32](1000, x, y), "(block): it is launched with blocks of 32 threads, and the contract says 64; launch it with blocks of 64, or by"),
        (lambda: kernel[15, 64](1000, x, y), "(extent): 15 blocks of 64 elements reach 960 of n = 1,000; launch 16 blocks, rounded up, or by twice.for_each(n)"),
        (lambda: kernel[16, 64](1000, x[:999], y), "(extents): `x` has 999 elements, and needs 1,000 (n = 1,000); pass an array of that size"),
        (lambda: kernel[16, 64](1000, x, y), "(shared): blocks of 64 threads need 512 bytes of dynamic shared memory, and the launch gives 0; pass shared=512"),
        (lambda: kernel.for_each(5)(1000, x, y), "(extent): for_each was asked for 5 elements, and n is 1,000; pass the same number in both places"),
    ):
        with pytest.raises(ContractError, match=re.escape(f"twice breaks its contract {message}")):
            launch()
    assert not y.any()
    both = device.zeros(1000)
    with pytest.raises(ContractError, match=re.escape("(distinct): `x` and `y` have 4,000 bytes in common")):
        kernel[16, 64](1000, both, both)
    kernel[16, 64, 0, 512](1000, x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_for_each(device: gs.Device) -> None:
    kernel = device.compile(twice)
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    kernel.for_each(1000)(1000, x, y)
    np.testing.assert_array_equal(y, 2 * x)
    on_device, out = device.array(x), device.zeros(1000)
    graph = device.graph()
    graph.kernel(kernel.for_each(), 999, on_device, out)
    graph.instantiate().launch()
    np.testing.assert_array_equal(out.numpy()[:999], 2 * x[:999])
    assert out.numpy()[999] == 0 and kernel.for_each().command((1000, on_device, out)).shape.shared == 512


def test_another_contract_and_none(device: gs.Device) -> None:
    other = gs.Contract(extent="y.size", block=32)
    assert device.compile(one, contracts={"one": other}).contract == other
    assert device.compile(one).with_contract(None).contract is None
    with pytest.raises(UsageError, match="^there is no kernel 'on' to give a contract to; the function is one$"):
        device.compile(one, contracts={"on": other})
    with pytest.raises(UsageError, match=re.escape("one has no contract to prove; give it one with @gs.contract(…) (docs/contracts.md)")):
        device.compile(one).with_contract(None).prove(arguments=pair)


def test_a_mutant(device: gs.Device) -> None:
    @gs.contract(extent="y.size", covers="y", block=64)
    @cuda.jit
    def late(x, y):
        i = cuda.grid(1)
        if 0 < i < y.size:
            y[i] = x[i]

    proof = device.compile(late).prove(arguments=pair)
    assert proof.counterexample is not None and proof.counterexample.launch.extent == (1,)
    assert proof.counterexample.finding.message == "no thread writes `y`[0], its only element"


def test_a_loop_costs_what_the_loop_by_hand_costs(device: gs.Device) -> None:
    @cuda.jit
    def by_hand(x, y):
        for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
            y[i] = 2 * x[i]

    counts = []
    for function in (by_hand, many):
        kernel = device.compile(function).with_contract(None)
        with gs.profiling() as profile:
            kernel[3, 64](device.zeros(1000), device.zeros(1000))
        counts.append(sum(instruction.executions for instruction in profile[kernel.name].instructions))
    assert counts[0] == counts[1] > 500
