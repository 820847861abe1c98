"""How a kernel of this folder is launched, and what is expected of it and of its repaired twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[Any]


@dataclass(frozen=True)
class Blank:
    """An array that nobody has written."""

    count: int
    dtype: Any = np.int32


@dataclass(frozen=True)
class Case:
    """One kernel, twice: with its fault, and repaired.

    expect: argument position → what the repaired kernel leaves there. severity "none": there is no fault in either build. kind: where it is not the file's name.
    also: other kinds of error that the fault brings with it. unmarked: the finding belongs to no line.
    repaired_launch: what is other about the launch of the repaired twin, where it is the launch that is repaired.
    near: how far, relatively and absolutely, floating-point outputs may be from what is expected.
    schedules: run it again in so many other orders. in_order_only: other orders of blocks do without the fault.
    missed: why the fault is not found yet; empty where it is.
    """

    kernel: str
    grid: Any
    block: Any
    args: tuple[Any, ...]
    expect: dict[int, Any] = field(default_factory=dict)
    severity: str = "error"
    kind: str = ""
    also: tuple[str, ...] = ()
    shared: int = 0
    cooperative: bool = False
    unmarked: bool = False
    repaired_launch: dict[str, Any] = field(default_factory=dict)
    schedules: int = 0
    in_order_only: bool = False
    near: float = 0.0
    missed: str = ""


def ints(count: int, below: int = 1000) -> Ints:
    """Numbers without a pattern, the same ones every time."""
    return np.array([(k * 7919 + 13) * 104729 % 1000003 % below for k in range(count)], np.int32)


def zeros(count: int, dtype: Any = np.int32) -> Ints:
    return np.zeros(count, dtype)
