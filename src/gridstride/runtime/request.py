"""One launch asked for from outside (a case file, a command line): what to run and on what data, before any device is involved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridstride.findings import Dim3
from gridstride.runtime.initial import Initial


@dataclass(frozen=True)
class Scalar:
    """A value passed as it is: a NumPy scalar where the request names a type, a Python number where the kernel decides."""

    value: Any


@dataclass(frozen=True)
class RawPointer:
    """A device address nobody allocated for this launch; 0 is null."""

    address: int


@dataclass(frozen=True)
class Buffer:
    """A device buffer of its own; `out` says that the host reads all of it after the launch."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    initial: Initial
    out: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.shape)


Argument = Scalar | RawPointer | Buffer


@dataclass(frozen=True)
class LaunchRequest:
    """`shared` is dynamic shared memory in bytes; `arguments` stand in the kernel's order; `cooperative`: the grid may synchronise.

    `cluster`: blocks of a cluster; None: as the kernel was compiled for.
    """

    name: str
    kernel: str
    grid: Dim3
    block: Dim3
    shared: int
    arguments: tuple[Argument, ...]
    cooperative: bool = False
    cluster: Dim3 | None = None
