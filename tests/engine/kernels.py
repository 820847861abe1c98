"""Runs kernels of a source under several schedules and hands their results to a check.

program = Kernels(SOURCE)                        # compiled when first used
program.run("scale", 4, 128, x, 2.0)             # [x after the run], the same bits under every schedule
program.each("lock", 4, 128, x, check=check)     # check([x after the run]) under every schedule
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import gridstride as gs

Outputs = list[npt.NDArray[Any]]
SEEDS = (None, 1, 2, 3)
HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"
EVERY_TARGET = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


class Kernels:
    """A source with its kernels, CUDA C++ or PTX."""

    def __init__(self, source: str, **options: Any) -> None:
        self.source = source
        self.options = options

    @functools.cached_property
    def device(self) -> Any:
        return gs.device("sim")

    @functools.cached_property
    def module(self) -> gs.Module:
        return self.device.compile(self.source, **self.options)

    def once(
        self,
        name: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        seed: int | None = None,
        threads: int | None = None,
        budget: int | None = None,
        shared: int = 0,
    ) -> Outputs:
        """The NumPy arguments as one launch left them."""
        kernel, device = self.module[name], self.device
        arrays = [device.array(a) if isinstance(a, np.ndarray) and a.ndim else a for a in arguments]
        device.seed, device.threads, device.budget = seed, threads, budget
        kernel[grid, block](*arrays, shared=shared)
        return [a.numpy() for a in arrays if isinstance(a, gs.Array)]

    def each(
        self,
        name: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        check: Callable[[Outputs], object],
        race_free: bool = True,
        seeds: Sequence[int | None] = SEEDS,
        shared: int = 0,
        budget: int | None = None,
    ) -> None:
        """Call `check` with the results of the natural order, of three seeds and, if race-free, of two threads."""
        for seed in seeds:
            check(self.once(name, grid, block, *arguments, seed=seed, shared=shared, budget=budget))
        if race_free:
            check(self.once(name, grid, block, *arguments, threads=2, shared=shared, budget=budget))

    def run(self, name: str, grid: Any, block: Any, *arguments: Any, shared: int = 0, race_free: bool = True) -> Outputs:
        """The results, which must have the same bits under every schedule."""
        kept: list[Outputs] = []

        def same(outputs: Outputs) -> None:
            kept.append(outputs)
            for first, other in zip(kept[0], outputs, strict=True):
                # bits, so that NaNs count; but between a record's fields may lie anything
                a, b = (first, other) if first.dtype.names else (first.view(np.uint8), other.view(np.uint8))
                np.testing.assert_array_equal(a, b, err_msg="another schedule gives another result")

        self.each(name, grid, block, *arguments, check=same, shared=shared, race_free=race_free)
        return kept[0]


def per_thread(count: int, model: Callable[[int], int], dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """What a plain Python model of one thread gives for each, wrapped to the type as C's unsigned arithmetic wraps."""
    kind = np.dtype(dtype)
    values = [model(t) & ((1 << 8 * kind.itemsize) - 1) for t in range(count)]
    return np.array(values, dtype=f"u{kind.itemsize}").view(kind)


def fault_of(launch: Callable[[], object]) -> gs.KernelFault:
    """The fault that a launch ends with."""
    try:
        launch()
    except gs.KernelFault as fault:
        return fault
    raise AssertionError("the launch ended without a fault")
