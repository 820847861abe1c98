"""What a launch can be asked for, and what it tells when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridstride.findings import Dim3
from gridstride.lower.kernel import KernelCode
from gridstride.machine.orders import Order
from gridstride.machine.raw_findings import CheckReceipt, RawFinding


@dataclass(frozen=True)
class Covered:
    """An output of which each element belongs to one thread: addresses from `low` to `high`, elements of `unit` bytes."""

    low: int
    high: int
    unit: int

    @property
    def elements(self) -> int:
        return -(-(self.high - self.low) // self.unit)


@dataclass(frozen=True)
class LaunchOptions:
    """lockstep: lanes of a warp never run apart, as before Volta. seed permutes the order of blocks (of clusters, where there are any) and warps, order says it.
    threads: worker threads, None: as many as cannot be noticed. cluster: blocks of a cluster, None: as the kernel was compiled for.
    budget: most loop iterations of one worker, blocks counting as one each; None: no limit."""

    seed: int | None = None
    order: Order | None = None
    threads: int | None = None
    budget: int | None = None
    cooperative: bool = False
    cluster: Dim3 | None = None
    registers: int | None = None  # of a thread, where they are known; they limit how many blocks are resident
    lockstep: bool = False
    profile: bool = False
    checks: frozenset[str] = frozenset()  # kinds of findings to look for beyond bounds and alignment
    covered: tuple[Covered, ...] = ()  # for the check `double-write`
    trace: bool = False  # every read of global memory leaves its mark for `RacePlanes.touched`, also where nothing can race


@dataclass(frozen=True)
class Counts:
    """What a profiled launch counted, summed over its workers: `sites` (accesses and branches, see lower/counting.py)
    and `blocks` (executions, lanes), and the code they belong to."""

    code: KernelCode
    file_names: Mapping[int, str]
    sites: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Writers:
    """Who wrote each element of a covered output first: linear numbers of blocks (-1: nobody) and threads, and the sites."""

    blocks: npt.NDArray[np.int64]
    threads: npt.NDArray[np.int64]
    sites: npt.NDArray[np.int32]


@dataclass(frozen=True)
class LaunchOutcome:
    """seconds: of the run, without making native code."""

    seconds: float
    blocks: int
    warps: int
    threads: int
    counts: Counts | None = None
    findings: tuple[RawFinding, ...] = ()
    receipt: CheckReceipt | None = None
    writers: tuple[Writers, ...] = ()  # of each output in `LaunchOptions.covered`
