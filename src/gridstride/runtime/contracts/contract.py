"""`Contract`: what a kernel needs of its launches, as a declaration."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, SupportsIndex, TypeVar

from gridstride.errors import UsageError
from gridstride.findings import Dim3
from gridstride.machine.limits import AXES

Expression = str | int
"""A number, a scalar parameter's name, or arithmetic over these (`gridstride.runtime.expressions`)."""
Shared = Callable[["Block"], int]
_Function = TypeVar("_Function")
DECLARED_AS = "__gridstride_contract__"
"""The attribute under which a function in Python keeps its contract."""


@dataclass(frozen=True)
class Block:
    """A launch's block, as the clause `shared` sees it."""

    x: int
    y: int
    z: int

    @property
    def threads(self) -> int:
        return self.x * self.y * self.z

    @property
    def warps(self) -> int:
        return -(-self.threads // 32)


@dataclass(frozen=True, init=False)
class Contract:
    """What a kernel needs of its launches. Each clause may be left out.

    extent: how many elements there are along x, y and z: parameter names, or arithmetic over scalar parameters.
    block: the shape of the block. block_multiple_of: its threads are a multiple of this.
    elements_per_thread: elements along each axis that a thread takes; tile: that a block takes, where that is no multiple of its threads.
    grid_stride: axes ("x", "y", "xy", …; True: all) along which threads go on a whole grid further, so that any grid will do.
    nonempty: an extent of 0 is none that the kernel takes.
    guard: threads beyond the extent do nothing; False: the kernel has no such test, and the threads must be as many as the elements.
    covers: outputs of which every element of the extent is written, by exactly one thread, and nothing else.
    writes_once: outputs of which no element is written by two threads; some may be left out.
    extents: elements of a buffer where these are others than the extent's: "n + 1", or one for each axis.
    distinct: buffers that have no bytes in common with each other; a sequence of names, or of such sequences.
    shared: bytes of dynamic shared memory: a number, arithmetic over `block` (its threads), `block_x`, `block_y`, `block_z`, `warps` and
    scalar parameters, or a function of the `Block`.

    Raises UsageError for clauses that make no sense.
    """

    extent: tuple[str, ...]
    block: Dim3 | None
    block_multiple_of: int
    elements_per_thread: tuple[int, ...]
    tile: tuple[int, ...]
    grid_stride: str
    nonempty: bool
    guard: bool
    covers: tuple[str, ...]
    writes_once: tuple[str, ...]
    extents: Mapping[str, tuple[str, ...]] = field(hash=False)
    distinct: tuple[tuple[str, ...], ...]
    shared: str | Shared | None

    def __init__(
        self,
        *,
        extent: Expression | Sequence[Expression] = (),
        block: SupportsIndex | Sequence[SupportsIndex] | None = None,
        block_multiple_of: int = 1,
        elements_per_thread: int | Sequence[int] = 1,
        tile: int | Sequence[int] = (),
        grid_stride: bool | str = False,
        nonempty: bool = False,
        guard: bool = True,
        covers: str | Sequence[str] = (),
        writes_once: str | Sequence[str] = (),
        extents: Mapping[str, Expression | Sequence[Expression]] | None = None,
        distinct: Sequence[str] | Sequence[Sequence[str]] = (),
        shared: Expression | Shared | None = None,
    ) -> None:
        given = _expressions(extent, "extent")
        if len(given) > 3:
            raise UsageError(f"a contract's extent has at most three axes, not {len(given)}")
        stride = grid_stride if isinstance(grid_stride, str) else AXES[: len(given)] if grid_stride else ""
        if any(axis not in AXES[: max(1, len(given))] for axis in stride) or len(set(stride)) != len(stride):
            raise UsageError(f"a contract's grid_stride names axes of its extent, such as {AXES[: max(1, len(given))]!r}, not {grid_stride!r}")
        for name, switch in (("guard", guard), ("nonempty", nonempty)):
            if not isinstance(switch, bool):
                raise UsageError(f"a contract's {name} is True or False, not {switch!r}")
        if not guard and stride:
            raise UsageError("a kernel with grid-stride loops has a guard: leave out guard=False or grid_stride")
        set_ = object.__setattr__
        set_(self, "extent", given)
        set_(self, "block", None if block is None else _block(block))
        set_(self, "block_multiple_of", _positive(block_multiple_of, "block_multiple_of"))
        set_(self, "elements_per_thread", _numbers(elements_per_thread, "elements_per_thread", len(given)))
        set_(self, "tile", _numbers(tile, "tile", len(given)))
        set_(self, "grid_stride", "".join(axis for axis in AXES if axis in stride))
        set_(self, "nonempty", nonempty)
        set_(self, "guard", guard)
        set_(self, "covers", _names(covers, "covers"))
        set_(self, "writes_once", _names(writes_once, "writes_once"))
        set_(self, "extents", MappingProxyType({name: _expressions(value, f"extents of {name}") for name, value in dict(extents or {}).items()}))
        set_(self, "distinct", _groups(distinct))
        set_(self, "shared", _shared(shared))
        self._require_sense()

    def _require_sense(self) -> None:
        if self.tile and any(n != 1 for n in self.elements_per_thread):
            raise UsageError("a contract says what a thread takes (elements_per_thread) or what a block takes (tile), not both")
        if not self.extent and (self.tile or self.grid_stride or self.nonempty or not self.guard or any(n != 1 for n in self.elements_per_thread)):
            raise UsageError("a contract that says how threads take elements says how many there are too: extent=…")
        if self.block is not None and self.threads % self.block_multiple_of:
            raise UsageError(f"the contract's block has {self.threads} threads, which is no multiple of {self.block_multiple_of}")
        both = set(self.covers) & set(self.writes_once)
        if both:
            raise UsageError(f"{', '.join(sorted(both))}: covers says all that writes_once says; name an output in one of them")

    @property
    def threads(self) -> int:
        """Threads of the contract's block; 1 where it says nothing about it."""
        x, y, z = self.block or (1, 1, 1)
        return x * y * z

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs of which each element belongs to one thread."""
        return (*self.covers, *self.writes_once)

    @property
    def buffers(self) -> tuple[str, ...]:
        """All parameters that the contract takes for buffers."""
        return tuple(dict.fromkeys((*self.outputs, *self.extents, *(name for group in self.distinct for name in group))))

    @property
    def axes(self) -> int:
        """Axes of the extent; 1 where there is none."""
        return max(1, len(self.extent))

    def elements_of_block(self, block: Dim3) -> tuple[int, ...]:
        """Elements that a block takes along each axis of the extent."""
        if self.tile:
            return tuple(self.tile[k] if k < len(self.tile) else 1 for k in range(self.axes))
        each = (*self.elements_per_thread, 1, 1)
        return tuple(block[k] * each[k] for k in range(self.axes))

    def dimensions(self, extent: Sequence[int], block: Dim3) -> Dim3:
        """The grid that reaches all of the extent: at least one block along each axis."""
        x, y, z = (*(max(1, -(-n // m)) for n, m in zip(extent, self.elements_of_block(block), strict=True)), 1, 1)[:3]
        return x, y, z

    def __repr__(self) -> str:
        clauses = {name: getattr(self, name) for name in self.__dataclass_fields__}
        said = {name: value for name, value in clauses.items() if value != getattr(_NOTHING_SAID, name, None)}
        return f"Contract({', '.join(f'{name}={dict(value) if isinstance(value, Mapping) else value!r}' for name, value in said.items())})"


def contract(**clauses: Any) -> Callable[[_Function], _Function]:
    """A decorator that gives a kernel written in Python its contract; above or below `@cuda.jit`. The clauses are those of `Contract`."""
    declared = Contract(**clauses)

    def keep(function: _Function) -> _Function:
        setattr(function, DECLARED_AS, declared)
        return function

    return keep


def contract_of(function: object) -> Contract | None:
    """The contract that a function, or what a decorator made of it (`py_func`), was given."""
    for holder in (function, getattr(function, "py_func", None)):
        found = getattr(holder, DECLARED_AS, None)
        if isinstance(found, Contract):
            return found
    return None


def _positive(value: Any, what: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"a contract's {what} is a whole number, not {value!r}") from None
    if number < 1:
        raise UsageError(f"a contract's {what} is at least 1, not {number}")
    return number


def _numbers(value: Any, what: str, axes: int) -> tuple[int, ...]:
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if len(parts) > max(1, axes):
        raise UsageError(f"a contract's {what} has {len(parts)} axes, and its extent {axes}")
    return tuple(_positive(part, what) for part in parts)


def _block(value: Any) -> Dim3:
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not 1 <= len(parts) <= 3:
        raise UsageError(f"a contract's block has one to three dimensions, not {value!r}")
    x, y, z = (*(_positive(part, "block") for part in parts), 1, 1)[:3]
    return x, y, z


def _names(value: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"a contract's {what} names parameters, such as {what}=\"y\", not {value!r}")
    if len(set(names)) != len(names):
        raise UsageError(f"a contract's {what} names a parameter twice: {', '.join(names)}")
    return tuple(names)


def _groups(value: Any) -> tuple[tuple[str, ...], ...]:
    flat = isinstance(value, str) or all(isinstance(part, str) for part in value)
    groups = [_names(part, "distinct") for part in ([value] if flat and value else value)]
    for group in groups:
        if len(group) < 2:
            raise UsageError(f"a contract's distinct names at least two buffers, not {', '.join(group)} alone")
    return tuple(groups)


def _expressions(value: Any, what: str) -> tuple[str, ...]:
    parts: Iterable[Any] = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    return tuple(_expression(part, what) for part in parts)


def _expression(value: Any, what: str) -> str:
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    try:
        if not text:
            raise SyntaxError
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"a contract's {what} is a parameter's name or arithmetic over parameters, such as \"n\" or \"2*n\", not {value!r}") from None
    return text


def _shared(value: Any) -> str | Shared | None:
    if value is None or (callable(value) and not isinstance(value, str)):
        return value
    return _expression(value, "shared")


_NOTHING_SAID = Contract()
