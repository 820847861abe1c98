"""The dimensions of a launch, made from what the contract says and what the launch is given."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridstride.errors import UsageError
from gridstride.findings import Dim3
from gridstride.machine.limits import AXES, MAX_GRID_DIMENSIONS
from gridstride.runtime.contracts.bound import BoundContract

if TYPE_CHECKING:
    from gridstride.runtime.module import Kernel

_USUAL_BLOCKS: tuple[Dim3, ...] = ((256, 1, 1), (32, 8, 1), (32, 4, 2))
"""By the axes of the extent: 256 threads, a whole warp along x."""


def asked_extent(bound: BoundContract, extent: Any) -> tuple[int, ...]:
    """The elements that a caller of `for_each` asks for. Raises UsageError where they are not those of the contract's extent."""
    parts = extent if isinstance(extent, Sequence) and not isinstance(extent, str) else (extent,)
    axes = len(bound.contract.extent)
    try:
        numbers = tuple(operator.index(part) for part in parts)
    except TypeError:
        raise UsageError(f"{bound.kernel}.for_each takes a whole number of elements along each axis, not {extent!r}") from None
    if axes and len(numbers) != axes:
        names = ", ".join(bound.contract.extent)
        raise UsageError(f"{bound.kernel}.for_each takes {axes} number{'s' if axes > 1 else ''} ({names}), not {len(numbers)}")
    if any(n < 0 for n in numbers):
        raise UsageError(f"{bound.kernel}.for_each takes at least 0 elements, not {min(numbers)}")
    return numbers


def block_for_each(kernel: Kernel, asked: Dim3 | None) -> Dim3:
    """The contract's block, else the one asked for, else the usual one. Raises UsageError where the contract has no extent."""
    contract = kernel.contract
    assert contract is not None
    if not contract.extent:
        raise UsageError(f"the contract of {kernel.name} has no extent, so for_each cannot tell how many threads it needs")
    return contract.block or asked or usual_block(kernel)


def usual_block(kernel: Kernel) -> Dim3:
    """256 threads, or as many as the kernel allows, in a multiple that its contract wants."""
    contract = kernel.contract
    assert contract is not None
    x, y, z = _USUAL_BLOCKS[contract.axes - 1]
    most = kernel.max_threads or 1024
    while x * y * z > most and max(y, z) > 1:
        y, z = (y, z // 2) if z > 1 else (y // 2, z)
    x = min(x, most // (y * z))
    multiple = contract.block_multiple_of
    if x * y * z % multiple:
        x, y, z = max(1, min(256, most) // multiple) * multiple, 1, 1
    return x, y, z


def grid_for_each(kernel: Kernel, asked: tuple[int, ...] | None, block: Dim3, arguments: Sequence[Any]) -> tuple[Dim3, int]:
    """The grid, and the bytes of dynamic shared memory of a block.

    arguments: as the kernel's parameters take them. Raises ContractError where the arguments name another extent than was asked for; `kernel.command` says what else is wrong with arguments.
    """
    bound, contract = kernel.bound, kernel.contract
    assert bound is not None and contract is not None
    if len(arguments) != len(kernel.parameters):
        return (1, 1, 1), 0
    scalars = bound.scalars(arguments)
    extent = bound.extent(scalars)
    if asked is not None and asked != extent:
        text, n, said = next((t, a, b) for t, a, b in zip(contract.extent, asked, extent, strict=True) if a != b)
        raise bound.broken("extent", f"for_each was asked for {n:,} elements, and {text} is {said:,}", "pass the same number in both places")
    grid = contract.dimensions(extent, block)
    x, y, z = (min(blocks, most) if axis in contract.grid_stride else blocks for axis, blocks, most in zip(AXES, grid, MAX_GRID_DIMENSIONS, strict=True))
    return (x, y, z), bound.shared(block, scalars)
