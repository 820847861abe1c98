"""Running a launch again in other orders, on the same data, and comparing what each leaves in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.errors import KernelFault
from gridstride.findings import Dim3, Finding
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.orders import Order, order_of
from gridstride.observers.checks import order_dependent
from gridstride.observers.checks.scene import plain_variable
from gridstride.runtime.smallest_change import smallest_change

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


@dataclass(frozen=True)
class ScheduleShape:
    """What is put into an order: the blocks of a grid and the warps of each. seed: what the natural order is, None: as they are numbered."""

    grid: Dim3
    warps: int
    seed: int | None
    clusters: bool = False  # what is put into an order are clusters of blocks


def compare_schedules(
    kernel: str,
    memory: Memory,
    before: Contents,
    run: Callable[[int | Order | None], object],
    seeds: range,
    names: Mapping[int, str],
    dtypes: Mapping[int, np.dtype[Any]],
    shape: ScheduleShape,
) -> list[Finding] | None:
    """Run the launch on `before` under each seed, then in strict lockstep, and compare with what memory holds now, which is there again afterwards.

    run: launches with a seed, in an order, or in lockstep for None; it may raise KernelFault. names, dtypes: by allocation address. None where launches
    allocate, so that their memory cannot be compared.
    """
    natural = Contents.of(memory)
    if natural.allocations != before.allocations:
        return None
    worst: dict[int, tuple[order_dependent.Difference, int]] = {}  # allocation number → the worst difference and its first seed
    differing: dict[int, int] = {}
    lockstep: dict[int, order_dependent.Difference] = {}
    findings: list[Finding] = []
    change: str = ""
    try:
        for seed in seeds:
            before.restore(memory)
            try:
                run(seed)
            except KernelFault as fault:
                _raise_interruption(fault)
                if not findings:
                    findings.append(order_dependent.stopped_under(kernel, seed, str(fault)))
                continue
            for number, found in _differences(natural, memory, dtypes).items():
                differing[number] = differing.get(number, 0) + 1
                if number not in worst or worst[number][0].rank < found.rank:
                    worst[number] = (found, seed)
        before.restore(memory)
        try:
            run(None)
        except KernelFault as fault:
            _raise_interruption(fault)
            findings.append(order_dependent.stopped_in_lockstep(kernel, str(fault)))
        else:
            # what the order changes anyway says nothing of the model
            lockstep = {number: found for number, found in _differences(natural, memory, dtypes).items() if number not in worst}
        shown = max(worst, key=lambda number: worst[number][0].rank, default=None)
        if shown is not None and not worst[shown][0].rounding:
            change = _smallest_change(before, memory, run, shape, worst[shown][1], lambda: _differs(natural, memory, dtypes, shown))
    finally:
        natural.restore(memory)

    def place(number: int, found: order_dependent.Difference) -> tuple[str, int, int]:
        """Name and elements of an allocation, and the address of the first element that differs."""
        allocation = natural.allocations[number]
        dtype = dtypes.get(allocation.address, np.dtype(np.uint8))
        name = names.get(allocation.address) or plain_variable(allocation.name) or f"{allocation.address:#x}"
        return name, allocation.size // dtype.itemsize, allocation.address + found.first * dtype.itemsize

    for number, (found, seed) in worst.items():
        name, elements, address = place(number, found)
        findings.append(order_dependent.tell_difference(kernel, name, elements, found, seed, len(seeds), differing[number], address, change if number == shown else ""))
    for number, found in lockstep.items():
        name, elements, address = place(number, found)
        findings.append(order_dependent.tell_other_model(kernel, name, elements, found, address))
    return findings


def _smallest_change(
    before: Contents, memory: Memory, run: Callable[[int | Order | None], object], shape: ScheduleShape, seed: int, differs: Callable[[], bool]
) -> str:
    """What of the seed's order is enough to show the difference, in words; empty where nothing simple is."""
    if shape.clusters:
        return ""  # which pair of clusters it takes is not looked for
    usual, failing = (order_of(s, prod(shape.grid), shape.warps) for s in (shape.seed, seed))
    if usual is None or failing is None:
        return ""

    def shows(order: Order) -> bool:
        before.restore(memory)
        try:
            run(order)
        except KernelFault as fault:
            _raise_interruption(fault)
            return False
        return differs()

    found = smallest_change(usual, failing, shows)
    return order_dependent.tell_change(found.what, found.first, found.second, found.moved, shape.grid) if found is not None else ""


def _differs(natural: Contents, memory: Memory, dtypes: Mapping[int, np.dtype[Any]], number: int) -> bool:
    found = _differences(natural, memory, dtypes).get(number)
    return found is not None and not found.rounding


def _raise_interruption(fault: KernelFault) -> None:
    if fault.code == "interrupted":
        raise fault


def _differences(natural: Contents, memory: Memory, dtypes: Mapping[int, np.dtype[Any]]) -> dict[int, order_dependent.Difference]:
    """By the number of the allocation: how memory differs from what the natural order left."""
    found = {}
    for number, (allocation, kept) in enumerate(zip(natural.allocations, natural.data, strict=True)):
        other = _difference(kept, memory.bytes_view(allocation.address, allocation.size), dtypes.get(allocation.address))
        if other is not None:
            found[number] = other
    return found


def _difference(natural: Bytes, other: Bytes, dtype: np.dtype[Any] | None) -> order_dependent.Difference | None:
    if np.array_equal(natural, other):
        return None
    if dtype is None or natural.size % dtype.itemsize:
        dtype = np.dtype(np.uint8)
    return order_dependent.difference(natural.view(dtype), other.view(dtype))
