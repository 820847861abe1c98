"""Running a launch again in other orders, on the same data, and comparing what each leaves in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.machine.memory import Allocation, Memory
from gridstride.observers.checks import order_dependent
from gridstride.observers.checks.scene import plain_variable

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Contents:
    """All live allocations, a copy of their bytes, and what is known of who wrote them."""

    allocations: tuple[Allocation, ...]
    data: tuple[Bytes, ...]
    undefined: tuple[tuple[tuple[int, int], ...], ...]
    shadow: tuple[Bytes, ...]

    @staticmethod
    def of(memory: Memory) -> Contents:
        found = [memory.find(int(start)) for start, _ in memory.table()]
        allocations = tuple(a for a in found if a is not None)
        definedness = memory.shadows.get("definedness")
        return Contents(
            allocations,
            tuple(memory.bytes_view(a.address, a.size).copy() for a in allocations),
            tuple(tuple(a.undefined) for a in allocations),
            tuple(definedness.view(a.address, a.size).copy() for a in allocations) if definedness is not None else (),
        )

    def restore(self, memory: Memory) -> None:
        for allocation, data in zip(self.allocations, self.data, strict=True):
            if allocation.live:
                memory.bytes_view(allocation.address, allocation.size)[...] = data
        for allocation, undefined in zip(self.allocations, self.undefined, strict=True):
            allocation.undefined = list(undefined)
        for allocation, states in zip(self.allocations, self.shadow, strict=bool(self.shadow)):
            memory.definedness().view(allocation.address, allocation.size)[...] = states


def compare_schedules(
    kernel: str,
    memory: Memory,
    before: Contents,
    run: Callable[[int], object],
    seeds: range,
    names: Mapping[int, str],
    dtypes: Mapping[int, np.dtype[Any]],
) -> list[Finding] | None:
    """Run the launch on `before` under each seed and compare with what memory holds now, which is there again afterwards.

    run: launches with a seed; it may raise KernelFault. names, dtypes: by allocation address. None where launches allocate, so that
    their memory cannot be compared.
    """
    natural = Contents.of(memory)
    if natural.allocations != before.allocations:
        return None
    worst: dict[int, tuple[order_dependent.Difference, int]] = {}  # allocation number → the worst difference and its first seed
    differing: dict[int, int] = {}
    stopped: list[Finding] = []
    try:
        for seed in seeds:
            before.restore(memory)
            try:
                run(seed)
            except KernelFault as fault:
                if fault.code == "interrupted":
                    raise
                if not stopped:
                    stopped.append(order_dependent.stopped_under(kernel, seed, str(fault)))
                continue
            for number, (allocation, kept) in enumerate(zip(natural.allocations, natural.data, strict=True)):
                found = _difference(kept, memory.bytes_view(allocation.address, allocation.size), dtypes.get(allocation.address))
                if found is None:
                    continue
                differing[number] = differing.get(number, 0) + 1
                if number not in worst or worst[number][0].rank < found.rank:
                    worst[number] = (found, seed)
    finally:
        natural.restore(memory)
    findings = stopped
    for number, (found, seed) in worst.items():
        allocation = natural.allocations[number]
        dtype = dtypes.get(allocation.address, np.dtype(np.uint8))
        name = names.get(allocation.address) or plain_variable(allocation.name) or f"{allocation.address:#x}"
        findings.append(
            order_dependent.tell_difference(
                kernel,
                name,
                allocation.size // dtype.itemsize,
                found,
                seed,
                len(seeds),
                differing[number],
                allocation.address + found.first * dtype.itemsize,
            )
        )
    return findings


def _difference(natural: Bytes, other: Bytes, dtype: np.dtype[Any] | None) -> order_dependent.Difference | None:
    if np.array_equal(natural, other):
        return None
    if dtype is None or natural.size % dtype.itemsize:
        dtype = np.dtype(np.uint8)
    return order_dependent.difference(natural.view(dtype), other.view(dtype))
