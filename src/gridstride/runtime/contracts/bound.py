"""A contract bound to a kernel's parameters, and what a launch must be to keep it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from gridstride.errors import ContractError, LaunchError, UsageError
from gridstride.events.hazards import first_common, ranges
from gridstride.findings import Dim3
from gridstride.machine.limits import AXES, format_dim3
from gridstride.observers.checks import launch_shape
from gridstride.runtime.array import Array
from gridstride.runtime.checking import record as record_findings
from gridstride.runtime.contracts.contract import Block, Contract
from gridstride.runtime.device import LaunchShape, shared_bytes
from gridstride.runtime.expressions import Number, evaluate, names_in
from gridstride.runtime.host_memory import HostArray
from gridstride.runtime.names import extent_of
from gridstride.runtime.parameters import KernelParameter
from gridstride.runtime.pointer import Pointer

if TYPE_CHECKING:
    from gridstride.runtime.module import Kernel

_OF_THE_BLOCK = ("block", "block_x", "block_y", "block_z", "warps")
_MOST_THREADS_OF_AN_INDEX = 2**31 - 1


class Scalars(Mapping[str, Number]):
    """The numbers among a launch's arguments, by all names of their parameters, read when they are asked for."""

    __slots__ = ("_arguments", "_positions")

    def __init__(self, positions: Mapping[str, int], arguments: Sequence[Any]) -> None:
        self._positions, self._arguments = positions, arguments

    def __getitem__(self, name: str) -> Number:
        value = self._arguments[self._positions[name]]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int | float):
            return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._positions if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class BoundContract:
    """A contract and the kernel it is about. Raises UsageError where the contract names what the kernel has not."""

    def __init__(self, contract: Contract, kernel: Kernel) -> None:
        self.contract, self.kernel = contract, kernel.name
        by_place = {f"p{p.position}": p.position for p in kernel.parameters}
        self.positions = by_place | {name: p.position for p in reversed(kernel.parameters) for name in (p.ptx_name, p.name)}
        """Of parameters by the names of the source, of the PTX, and p0, p1 …"""
        self._parameters = kernel.parameters
        for name in contract.buffers:
            self._require_buffer(name)
        for text in (*contract.extent, *(text for texts in contract.extents.values() for text in texts)):
            self._require_scalars(text, ())
        self._shared_scalars: tuple[str, ...] = ()
        if isinstance(contract.shared, str):
            self._require_scalars(contract.shared, _OF_THE_BLOCK)
            self._shared_scalars = tuple(name for name in names_in(contract.shared) if name not in _OF_THE_BLOCK)
        of_outputs = dict.fromkeys(contract.outputs, contract.extent) if contract.extent else {}
        self._texts: dict[str, tuple[str, ...]] = {**of_outputs, **contract.extents}
        self._pairs = [pair for group in contract.distinct for pair in combinations(group, 2)]
        self._checks = self._of_clauses()

    # ---- the declaration against the kernel ------------------------------------------------------------------------

    def _require_buffer(self, name: str) -> None:
        parameter = self._parameter(name)
        if parameter.is_pointer is False:
            raise UsageError(f"the contract of {self.kernel} takes {name} for a buffer, and it is {parameter.describe()}")

    def _require_scalars(self, text: str, more: Sequence[str]) -> None:
        for name in (text,) if text in self.positions else names_in(text):
            if name not in more and self._parameter(name).is_pointer:
                raise UsageError(f"the contract of {self.kernel} takes {name} for a number, and it is {self._parameter(name).describe()}")

    def _parameter(self, name: str) -> KernelParameter:
        position = self.positions.get(name)
        if position is None:
            known = [p.name for p in self._parameters]
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise UsageError(f"the contract of {self.kernel} names {name!r}, which is no parameter of it; {hint}")
        return self._parameters[position]

    # ---- values of a launch ----------------------------------------------------------------------------------------

    def argument(self, name: str, arguments: Sequence[Any]) -> Any:
        """What a parameter was given."""
        given = arguments[self.positions[name]]
        return given.mapped if isinstance(given, HostArray) else given

    def scalars(self, arguments: Sequence[Any]) -> Scalars:
        """The numbers among the arguments."""
        return Scalars(self.positions, arguments)

    def _number(self, text: str, scalars: Mapping[str, Number], clause: str) -> int:
        try:
            value = scalars[text]
        except KeyError:
            value = self._value(text, scalars, clause)
        if isinstance(value, int) and value >= 0:
            return value
        if not math.isfinite(value) or value < 0 or value != int(value):
            raise self.broken(clause, f"{text} is {value}, which is no number of elements", "pass a whole number of at least 0")
        return int(value)

    def _value(self, text: str, scalars: Mapping[str, Number], clause: str) -> Number:
        """Of arithmetic."""
        if text.isdecimal():
            return int(text)
        try:
            return evaluate(text, scalars)
        except UsageError as error:
            raise self.broken(clause, f"{text} has no value here: {error}", "pass a number for each scalar that the contract names") from None

    def extent(self, scalars: Mapping[str, Number]) -> tuple[int, ...]:
        """The elements along each axis of the contract's extent."""
        return tuple(self._number(text, scalars, "extent") for text in self.contract.extent)

    def elements(self, name: str, scalars: Mapping[str, Number]) -> tuple[int, ...] | None:
        """The elements of a buffer, along each axis; None where the contract does not say how many."""
        return tuple(self._number(text, scalars, "extents") for text in self._texts.get(name, ())) or None

    def shared(self, block: Dim3, scalars: Mapping[str, Number]) -> int:
        """Bytes of dynamic shared memory that a block needs."""
        wanted = self.contract.shared
        if wanted is None:
            return 0
        if isinstance(wanted, str):
            if wanted.isdecimal():
                return int(wanted)
            shape = Block(*block)
            names: dict[str, Number] = {name: scalars[name] for name in self._shared_scalars if name in scalars}
            return self._number(wanted, names | dict(zip(_OF_THE_BLOCK, (shape.threads, *block, shape.warps), strict=True)), "shared")
        try:
            return shared_bytes(wanted(Block(*block)))
        except LaunchError as error:
            raise self.broken("shared", f"its function of the block gives no size: {error}", "let it return bytes") from None

    def broken(self, clause: str, has: str, do: str) -> ContractError:
        """The error for a clause that a launch breaks; it is a finding too."""
        error = ContractError(self.kernel, clause, has, do)
        record_findings([launch_shape.refused(self.kernel, str(error), do)])
        return error

    # ---- a launch against the contract -----------------------------------------------------------------------------

    def require_kept(self, shape: LaunchShape, arguments: Sequence[Any]) -> None:
        """Raise ContractError for a launch that breaks a clause."""
        scalars = self.scalars(arguments)
        for check in self._checks:
            check(shape, arguments, scalars)

    def _of_clauses(self) -> list[Callable[[LaunchShape, Sequence[Any], Mapping[str, Number]], None]]:
        """Only what this contract says has to be looked at."""
        contract = self.contract
        wanted = (
            (contract.block is not None, self._check_block),
            (contract.block_multiple_of > 1 and contract.block is None, self._check_multiple),
            (bool(contract.extent), self._check_extent),
            (bool(self._texts), self._check_buffers),
            (bool(contract.distinct), self._check_distinct),
            (contract.shared is not None, self._check_shared),
        )
        return [check for says, check in wanted if says]

    def _check_block(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        if shape.block != self.contract.block:
            assert self.contract.block is not None
            wanted = format_dim3(self.contract.block)
            has = f"it is launched with blocks of {format_dim3(shape.block)} threads, and the contract says {wanted}"
            raise self.broken("block", has, f"launch it with blocks of {wanted}{self._or_for_each()}")

    def _check_multiple(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        multiple, threads = self.contract.block_multiple_of, shape.threads_per_block
        if threads % multiple:
            lower, upper = threads // multiple * multiple, -(-threads // multiple) * multiple
            fits = f"{lower} or {upper}" if lower else f"{upper}"
            raise self.broken("block_multiple_of", f"blocks of {threads} threads are no multiple of {multiple}", f"launch blocks of {fits} threads")

    def _check_extent(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        contract = self.contract
        extent = self.extent(scalars)
        if contract.nonempty and 0 in extent:
            text = contract.extent[extent.index(0)]
            raise self.broken("nonempty", f"{text} is 0, and the kernel takes at least one element", "leave this launch out")
        taken = contract.elements_of_block(shape.block)
        for axis, text, elements, each, blocks in zip(AXES, contract.extent, extent, taken, shape.grid, strict=False):
            reach, strided = blocks * each, axis in contract.grid_stride
            if reach == elements or (contract.guard and (strided or elements <= reach <= _MOST_THREADS_OF_AN_INDEX)):
                continue
            along, needed = f" along {axis}" if len(extent) > 1 else "", max(1, -(-elements // each))
            grid = f"{_count(blocks, 'block')} of {_count(each, 'element')}"
            says = f"{text} = {elements:,}" if not text.isdecimal() else f"the {elements:,} elements"
            if not contract.guard:
                do = f"pass a multiple of {each:,} and as many blocks, or give the kernel a guard"
                raise self.broken("guard", f"{grid}{along} are {reach:,}, {says}, and the kernel has no guard", do)
            if reach < elements:
                has = f"{grid}{along} reach {reach:,} of {says}"
                raise self.broken("extent", has, f"launch {_count(needed, 'block')}{along}, rounded up{self._or_for_each()}")
            if self._has_32_bits(text):
                has = f"{grid}{along} reach {reach:,}, and an index with the 32 bits of {text} ends at {_MOST_THREADS_OF_AN_INDEX:,}"
                raise self.broken("extent", has, f"launch {_count(needed, 'block')}{along}" if needed * each < reach else "let the kernel take 64 bits")

    def _has_32_bits(self, text: str) -> bool:
        position = self.positions.get(text)
        return position is not None and self._parameters[position].size == 4 and not self._is_unsigned(position)

    def _is_unsigned(self, position: int) -> bool:
        dtype = self._parameters[position].value_dtype
        return dtype is not None and dtype.kind == "u"

    def _check_buffers(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        for name, texts in self._texts.items():
            array = self.argument(name, arguments)
            if not isinstance(array, Array):
                continue
            wanted = [self._number(text, scalars, "extents") for text in texts]
            needed = math.prod(wanted)
            if array.size < needed:
                said = " × ".join(f"{text} = {value:,}" if text != str(value) else f"{value:,}" for text, value in zip(texts, wanted, strict=True))
                raise self.broken("extents", f"`{name}` has {array.size:,} elements, and needs {needed:,} ({said})", "pass an array of that size")

    def _check_distinct(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        for first, second in self._pairs:
            a, b = self.argument(first, arguments), self.argument(second, arguments)
            if isinstance(a, Array) and isinstance(b, Array) and a.storage is not b.storage:
                continue  # two allocations: the usual case
            common = first_common(*(ranges(_spans(argument)) for argument in (a, b)))
            if common is not None:
                has = f"`{first}` and `{second}` have {_count(common[1], 'byte')} in common"
                raise self.broken("distinct", has, "pass arrays that do not overlap")

    def _check_shared(self, shape: LaunchShape, arguments: Sequence[Any], scalars: Mapping[str, Number]) -> None:
        needed = self.shared(shape.block, scalars)
        if shape.shared < needed:
            has = f"blocks of {format_dim3(shape.block)} threads need {needed:,} bytes of dynamic shared memory, and the launch gives {shape.shared:,}"
            raise self.broken("shared", has, f"pass shared={needed}{self._or_for_each()}")

    def _or_for_each(self) -> str:
        names = ", ".join(self.contract.extent)
        return f", or by {self.kernel}.for_each({f'({names})' if len(self.contract.extent) > 1 else names})" if names else ""


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _spans(argument: Any) -> list[tuple[int, int]]:
    """The addresses under an argument; of a bare address one byte, since nobody knows how many."""
    if isinstance(argument, Array):
        return extent_of(argument) if argument.size else []
    if isinstance(argument, Pointer) and argument.address:
        return [(argument.address, argument.address + 1)]
    return []
