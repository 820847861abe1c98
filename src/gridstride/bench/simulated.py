"""The simulator's side, through the public interface only: what a user's program would see, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gridstride.bench.cases import Array, contents, saxpy_case
from gridstride.runtime.request import Buffer, LaunchRequest, Scalar

CACHE_VARIABLE = "GRIDSTRIDE_CACHE_DIR"


@contextmanager
def empty_cache(folder: Path) -> Iterator[None]:
    """Send the cache of native code to an empty folder, so that every kernel is compiled within this run."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[CACHE_VARIABLE]
        else:
            os.environ[CACHE_VARIABLE] = before


class Simulator:
    """One simulated device on one thread, with the benchmark's modules loaded."""

    def __init__(self, sources: list[Path]) -> None:
        import gridstride as gs  # here, so that reading the command line's help does not load the engine

        self._device = gs.device("sim", threads=1)
        begin = time.perf_counter()
        self._modules = [self._device.compile(str(source)) for source in sources]
        self.load_seconds = time.perf_counter() - begin

    def start(self) -> float:
        """Launch something small, so that what all kernels share is made, and counts as no kernel's compilation; returns seconds."""
        case = saxpy_case(256)
        staged = self.stage(case, [contents(argument) for argument in case.arguments])
        seconds = staged.launch()
        staged.free()
        return seconds

    def _kernel(self, name: str) -> Any:
        for module in self._modules:
            if name in module:
                return module[name]
        raise KeyError(name)

    def stage(self, case: LaunchRequest, arrays: list[Array | None]) -> Staged:
        """Copy a launch's buffers to the device."""
        values: list[Any] = []
        for argument, array in zip(case.arguments, arrays, strict=True):
            values.append(argument.value if isinstance(argument, Scalar) else self._device.array(array))
        return Staged(self._kernel(case.kernel), case, values)


class Staged:
    """A launch ready to run: its buffers are on the device."""

    def __init__(self, kernel: Any, case: LaunchRequest, values: list[Any]) -> None:
        self._kernel, self._case, self._values = kernel, case, values

    def reset(self, index: int, array: Array) -> None:
        """Give one buffer its first contents again."""
        self._values[index].copy_from(array)

    def launch(self) -> float:
        """Run once, to the end; returns seconds."""
        begin = time.perf_counter()
        self._kernel[self._case.grid, self._case.block](*self._values, shared=self._case.shared)
        return time.perf_counter() - begin

    def outputs(self) -> dict[int, Array]:
        """What the launch left in its output buffers, by argument position."""
        pairs = zip(range(len(self._values)), self._case.arguments, self._values, strict=True)
        return {index: np.asarray(value.numpy()) for index, argument, value in pairs if isinstance(argument, Buffer) and argument.out}

    def free(self) -> None:
        for argument, value in zip(self._case.arguments, self._values, strict=True):
            if isinstance(argument, Buffer):
                value.free()
