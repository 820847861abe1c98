"""Copies and fills as the driver does them: each is taken apart into moves and sets of rows, for a stream or for a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.runtime.array import Array
from gridstride.runtime.commands import Copy, Rows, rows_of
from gridstride.runtime.gpu_context import GpuContext


@dataclass(frozen=True)
class End:
    """Where rows of bytes begin, and how far it is from one to the next."""

    address: int
    pitch: int
    on_host: bool = False


@dataclass(frozen=True)
class Move:
    """`count` rows of `width` bytes from one place to another."""

    destination: End
    source: End
    width: int
    count: int = 1

    def enqueue(self, context: GpuContext, stream: Any) -> None:
        driver, to, source = context.driver, self.destination, self.source
        if self.count > 1:
            context.check(driver.cuMemcpy2DAsync(self._described(driver.CUDA_MEMCPY2D(), driver), stream), "copy rows")
        elif source.on_host:
            context.check(driver.cuMemcpyHtoDAsync(to.address, source.address, self.width, stream), "copy to the GPU")
        elif to.on_host:
            context.check(driver.cuMemcpyDtoHAsync(to.address, source.address, self.width, stream), "copy from the GPU")
        else:
            context.check(driver.cuMemcpyAsync(to.address, source.address, self.width, stream), "copy on the GPU")

    def add_to(self, context: GpuContext, graph: Any, after: list[Any]) -> Any:
        driver = context.driver
        described = self._described(driver.CUDA_MEMCPY3D(), driver)
        described.srcHeight = described.dstHeight = self.count
        described.Depth = 1
        return context.check(driver.cuGraphAddMemcpyNode(graph, after, len(after), described, context.handle), "add a copy to a graph")

    def _described(self, described: Any, driver: Any) -> Any:
        kinds = driver.CUmemorytype
        if self.source.on_host:
            described.srcMemoryType, described.srcHost = kinds.CU_MEMORYTYPE_HOST, self.source.address
        else:  # pinned and managed memory are reached by one address from everywhere, and so is the device's
            described.srcMemoryType, described.srcDevice = kinds.CU_MEMORYTYPE_UNIFIED, driver.CUdeviceptr(self.source.address)
        if self.destination.on_host:
            described.dstMemoryType, described.dstHost = kinds.CU_MEMORYTYPE_HOST, self.destination.address
        else:
            described.dstMemoryType, described.dstDevice = kinds.CU_MEMORYTYPE_UNIFIED, driver.CUdeviceptr(self.destination.address)
        described.srcPitch, described.dstPitch = self.source.pitch, self.destination.pitch
        described.WidthInBytes, described.Height = self.width, self.count
        return described


@dataclass(frozen=True)
class Set:
    """`count` rows of `width` elements of 1, 2 or 4 bytes set to one value."""

    address: int
    pitch: int
    element: int
    value: int
    width: int
    count: int = 1

    def enqueue(self, context: GpuContext, stream: Any) -> None:
        bits = 8 * self.element
        if self.count > 1:
            fill: Callable[..., Any] = getattr(context.driver, f"cuMemsetD2D{bits}Async")
            answer = fill(self.address, self.pitch, self.value, self.width, self.count, stream)
        else:
            answer = getattr(context.driver, f"cuMemsetD{bits}Async")(self.address, self.value, self.width, stream)
        context.check(answer, "fill memory")

    def add_to(self, context: GpuContext, graph: Any, after: list[Any]) -> Any:
        driver = context.driver
        described = driver.CUDA_MEMSET_NODE_PARAMS()
        described.dst, described.pitch, described.value = driver.CUdeviceptr(self.address), self.pitch, self.value
        described.elementSize, described.width, described.height = self.element, self.width, self.count
        return context.check(driver.cuGraphAddMemsetNode(graph, after, len(after), described, context.handle), "add a fill to a graph")


Transfer = Move | Set
"""One thing that the driver does to memory; those of a list follow each other."""


# ---- copies ----------------------------------------------------------------------------------------------------------


def copy_transfers(command: Copy) -> list[Move]:
    """The moves of a copy; none where there are no elements."""
    if not command.nbytes:
        return []
    to, source = rows_of(command.destination), rows_of(command.source)
    on_hosts = not isinstance(command.destination, Array), not isinstance(command.source, Array)
    return list(_moves(to, source, *on_hosts))


def _moves(to: Rows, source: Rows, to_host: bool, from_host: bool) -> Iterator[Move]:
    if to.count == 1 or source.count == 1 or to.width == source.width:
        rows = source if to.count == 1 else to
        into = End(to.address, rows.width if to.count == 1 else to.pitch, to_host)
        yield Move(into, End(source.address, rows.width if source.count == 1 else source.pitch, from_host), rows.width, rows.count)
        return
    # rows of both kinds, of different widths: piece by piece, from one end of a row on either side to the next
    done = 0
    while done < to.nbytes:
        (line, within), (row, at) = divmod(done, to.width), divmod(done, source.width)
        width = min(to.width - within, source.width - at)
        yield Move(End(to.address + line * to.pitch + within, width, to_host), End(source.address + row * source.pitch + at, width, from_host), width)
        done += width


# ---- fills -----------------------------------------------------------------------------------------------------------


def fill_transfers(array: Array, pattern: bytes) -> list[Transfer]:
    """The sets of a fill, and for a pattern that the driver cannot set, copies of its first element."""
    if not array.size:
        return []
    return [transfer for rows in _all_rows(array) for transfer in _fill(rows, pattern)]


def _all_rows(array: Array) -> Iterator[Rows]:
    """An array's elements as rows, whatever its strides are: in which order they are filled nobody can tell."""
    axes = [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1]
    address = array.address + sum((n - 1) * step for n, step in axes if step < 0)
    axes = sorted(((abs(step), n) for n, step in axes if step), reverse=True)
    width = array.dtype.itemsize
    while axes and axes[-1][0] <= width:  # elements without a gap, and those that share bytes, as sliding windows do
        step, n = axes.pop()
        width += (n - 1) * step
    pitch, count = axes.pop() if axes else (width, 1)
    while axes and axes[-1][0] == pitch * count:
        count *= axes.pop()[1]
    for place in np.ndindex(*(n for _, n in axes)):
        yield Rows(address + sum(k * step for k, (step, _) in zip(place, axes, strict=True)), count, width, pitch)


def _fill(rows: Rows, pattern: bytes) -> Iterator[Transfer]:
    element = _least_period(pattern)
    if element in (1, 2, 4) and not any(place % element for place in (rows.address, rows.pitch if rows.count > 1 else 0)):
        yield Set(rows.address, rows.pitch, element, int.from_bytes(pattern[:element], "little"), rows.width // element, rows.count)
        return
    # the first element of the first row word by word, then what is there as often again until the row is full, and the rows likewise
    word = math.gcd(len(pattern), rows.address, 4)
    for k in range(0, len(pattern), word):
        yield Set(rows.address + k, word, word, int.from_bytes(pattern[k : k + word], "little"), 1)
    done = len(pattern)
    while done < rows.width:
        more = min(done, rows.width - done)
        yield Move(End(rows.address + done, more), End(rows.address, more), more)
        done += more
    filled = 1
    while filled < rows.count:
        count = min(filled, rows.count - filled)
        yield Move(End(rows.address + filled * rows.pitch, rows.pitch), End(rows.address, rows.pitch), rows.width, count)
        filled += count


def _least_period(pattern: bytes) -> int:
    """After how many bytes a pattern repeats itself."""
    for period in (1, 2, 4):
        if len(pattern) % period == 0 and pattern == pattern[:period] * (len(pattern) // period):
            return period
    return len(pattern)


def one_move(address: int, data: npt.NDArray[np.uint8], *, to_host: bool) -> Move:
    """A run of bytes between the device and a host array."""
    host, device = End(int(data.ctypes.data), data.size, on_host=True), End(address, data.size)
    return Move(host, device, data.size) if to_host else Move(device, host, data.size)
