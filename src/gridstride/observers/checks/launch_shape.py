"""The launch's shape does not fit the kernel: work is done twice, a tail is left out, or the device refuses the launch.

Warnings: the kernel takes its work from the index of some dimensions and is launched in others that it never looks at, so that all threads
along them do the same work again; the grid ends before an output does (the number of blocks was rounded down), and the kernel's
threads do not go on to the rest. Where the output was filled before, that takes the race checks, an integer argument with the output's
extent and a host that reads what no other launch has completed. An error: a limit of the device or of the kernel (`__launch_bounds__`) is exceeded, and nothing runs.

A kernel that hands out its work by an atomic counter, and one that looks at no index at all, get no warning.

Bad:

    // launched with a block of (32, 8): y is never looked at, every element is counted eight times
    __global__ void count(const unsigned char* d, int* bins, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&bins[d[i]], 1);
    }

Good:

    // launched with a block of 256
    __global__ void count(const unsigned char* d, int* bins, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&bins[d[i]], 1);
    }

What to do:
Launch in the dimensions that the kernel uses, or let it use all of its indices. Round the number of blocks up: `(n + block - 1) / block`, with a guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from gridstride.findings import Dim3, Finding, Site
from gridstride.machine.limits import AXES, format_dim3
from gridstride.observers.checks.check import Check
from gridstride.ptx.nodes import Address, Function, Module, Negated, Operand, Pair, Sink, Special, Symbol, VectorOperand

CHECK = Check("GS501", "launch-shape", ("warning", "error"), __doc__ or "", always=False)

# Registers that tell threads (or blocks) apart without naming a dimension.
_WHOLE_THREAD = frozenset({"%laneid", "%warpid"})
_WHOLE_BLOCK = frozenset({"%smid", "%clusterid.x", "%cluster_ctarank", "%gridid"})


_NOWHERE = Site()


@dataclass(frozen=True)
class IndexUse:
    """Which indices a kernel reads. specials: the special registers; tickets: it uses the old value of some atomic."""

    specials: frozenset[str]
    tickets: bool

    def threads(self, axis: str) -> bool:
        """Whether threads along `axis` can be told apart inside a block."""
        return f"%tid.{axis}" in self.specials or not _WHOLE_THREAD.isdisjoint(self.specials)

    def blocks(self, axis: str) -> bool:
        """Whether blocks along `axis` can be told apart."""
        mine = {f"%ctaid.{axis}", f"%cluster_ctaid.{axis}", f"%clusterid.{axis}"}
        return not mine.isdisjoint(self.specials) or not _WHOLE_BLOCK.isdisjoint(self.specials)

    @property
    def any(self) -> bool:
        """Whether the kernel takes its work from an index at all."""
        return any(self.threads(axis) or self.blocks(axis) for axis in AXES)


def index_use(module: Module, kernel: str) -> IndexUse:
    """What an entry, and every function that it calls, reads. A module is read once for each of its kernels."""
    return _index_use(_Once(module), kernel)


class _Once:
    """A module by its identity, so that answers about it can be kept."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __hash__(self) -> int:
        return hash((id(self.module), self.module.text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once) and other.module is self.module


@cache
def _index_use(key: _Once, kernel: str) -> IndexUse:
    module = key.module
    specials: set[str] = set()
    tickets = False
    waiting, seen = [kernel], {kernel}
    while waiting:
        function = module.functions[waiting.pop()]
        for opcode, operand in _operands(function):
            if isinstance(operand, Special):
                specials.add(operand.name)
            elif isinstance(operand, Symbol):
                name = module.aliases.get(operand.name, operand.name)
                if name in module.functions and name not in seen:
                    seen.add(name)
                    waiting.append(name)
            elif opcode.startswith("%ticket"):
                tickets = True
    return IndexUse(frozenset(specials), tickets)


def _operands(function: Function) -> Iterator[tuple[str, Operand]]:
    """Every operand with its instruction's opcode, nested ones taken apart; the result of an atomic that somebody may read as "%ticket"."""
    read = _registers_read(function)
    for instruction in function.body:
        for operand in instruction.operands:
            for part in _parts(operand):
                yield instruction.opcode, part
        first = instruction.operands[0] if instruction.operands else None
        if instruction.opcode.startswith("atom.") and not isinstance(first, Sink) and getattr(first, "name", None) in read:
            yield "%ticket", first  # type: ignore[misc]


def _registers_read(function: Function) -> frozenset[str]:
    """Names of registers that some instruction has in another place than the first, where results stand."""
    found: set[str] = set()
    for instruction in function.body:
        head = instruction.opcode.partition(".")[0]
        sources = instruction.operands if head in ("st", "red", "bra", "bar", "barrier", "call", "ret") else instruction.operands[1:]
        for operand in sources:
            found.update(name for part in _parts(operand) if (name := getattr(part, "name", None)))
        if instruction.guard is not None:
            found.add(instruction.guard.name)
    return frozenset(found)


def _parts(operand: Operand | None) -> Iterator[Operand]:
    match operand:
        case VectorOperand(items):
            for item in items:
                yield from _parts(item)
        case Pair(first, second):
            yield from _parts(first)
            yield from _parts(second)
        case Negated(inner):
            yield from _parts(inner)
        case Address(base, _):
            yield base
        case None:
            return
        case _:
            yield operand


def duplicate_work(use: IndexUse, kernel: str, grid: Dim3, block: Dim3, site: Site = _NOWHERE) -> Finding | None:
    """The warning for a launch of `grid` × `block` whose threads along some dimension cannot be told apart; None where all can.

    site: the kernel's place in the source, if known.
    """
    if not use.any:
        return None
    repeats = 1
    blind: list[str] = []
    for axis, extent in zip(AXES, block, strict=True):
        if extent > 1 and not use.threads(axis):
            repeats *= extent
            blind.append(f"threadIdx.{axis} ({extent:,} threads)")
    # A kernel that tells no blocks apart may mean all of them to do the same (to arrive, to count); blocks that draw tickets have work of their own.
    by_blocks = any(use.blocks(axis) for axis in AXES) and not use.tickets
    for axis, extent in zip(AXES, grid, strict=True):
        if extent > 1 and by_blocks and not use.blocks(axis):
            repeats *= extent
            blind.append(f"blockIdx.{axis} ({extent:,} blocks)")
    if not blind:
        return None
    looks = [f"threadIdx.{a}" for a in AXES if use.threads(a)] + [f"blockIdx.{a}" for a in AXES if use.blocks(a)]
    shape = f"a grid of {format_dim3(grid)} and blocks of {format_dim3(block)}"
    message = (
        f"the kernel takes its work from {_listed(looks)} and never looks at {_listed(blind)}: launched with {shape}, "
        f"the same work is done {repeats:,} times"
    )
    advice = "launch only in the dimensions that the kernel uses, or make the index from all of them"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, kernel, site)


def tail_left_out(use: IndexUse, kernel: str, grid: Dim3, block: Dim3, buffer: str, elements: int, first_unwritten: int) -> Finding | None:
    """The warning for an output of which everything from `first_unwritten` on was not written, where the grid ends just there.

    None where the kernel's threads go on past the grid (it reads the size of its grid) or the tail begins elsewhere.
    """
    reach = grid[0] * block[0] * grid[1] * block[1] * grid[2] * block[2]
    if first_unwritten != reach or elements <= reach or any(f"%nctaid.{axis}" in use.specials for axis in AXES):
        return None
    threads = block[0] * block[1] * block[2]
    needed = -(-elements // threads)
    message = (
        f"the grid ends before `{buffer}` does: {grid[0] * grid[1] * grid[2]:,} blocks of {threads:,} threads are {reach:,}, "
        f"and its last {elements - reach:,} of {elements:,} elements stay unwritten"
    )
    advice = f"round the number of blocks up: {needed:,} blocks, as in (n + {threads} - 1) / {threads}, with a guard in the kernel"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, kernel, space="global", buffer=buffer, index=first_unwritten)


@dataclass(frozen=True)
class Tail:
    """What a rounded-down grid leaves of an output that was filled before: elements as rows × columns, and how far the threads reach in each."""

    elements: tuple[int, int]
    reach: tuple[int, int]
    block: tuple[int, int]
    first: int  # index of the first element that is left

    @property
    def needed(self) -> tuple[int, int]:
        """Blocks along rows and columns that would do."""
        (rows, columns), (high, wide) = self.elements, self.block
        return -(-rows // high), -(-columns // wide)


MARGIN = 8
"""So many elements may lie before the first one that is written, as where a stencil leaves the border alone."""


def tail_of(use: IndexUse, grid: Dim3, block: Dim3, elements: int, numbers: frozenset[int]) -> Iterator[Tail]:
    """The tails that a launch would leave of an output of so many elements if its grid was rounded down. numbers: the kernel's integer arguments.

    An extent of the output is one that the kernel was told; the threads, one an element, end less than a block before it."""
    if any(f"%nctaid.{axis}" in use.specials for axis in AXES) or use.tickets or not use.any or block[2] * grid[2] != 1:
        return
    reach, size = (grid[1] * block[1], grid[0] * block[0]), (block[1], block[0])
    shapes = {(1, elements)} if reach[0] == 1 and elements in numbers else set()
    shapes |= {(rows, elements // rows) for rows in numbers if rows > 1 and elements % rows == 0 and elements // rows in numbers}
    for shape in sorted(shapes):
        short = [n - r for n, r in zip(shape, reach, strict=True)]
        if any(s > 0 for s in short) and all(s < b for s, b in zip(short, size, strict=True)):
            first = reach[1] if short[1] > 0 else reach[0] * shape[1]
            yield Tail(shape, reach, size, first)


def leaves(tail: Tail, written: npt.NDArray[np.bool_]) -> bool:
    """Whether the elements that a launch wrote are just those that the threads reach."""
    table = written.reshape(tail.elements)
    rows, columns = (min(r, n) for r, n in zip(tail.reach, tail.elements, strict=True))
    top, left = (int(np.argmax(table.any(axis=axis))) for axis in (1, 0))
    if top > MARGIN or left > MARGIN or table[rows:].any() or table[:, columns:].any():
        return False
    # a border that is left alone is as wide at the end, where there is one
    bottom, right = (n if r < n else n - m for n, r, m in zip(tail.elements, tail.reach, (top, left), strict=True))
    return bool(table[top : min(rows, bottom), left : min(columns, right)].all()) and bool(table.any())


def tail_left_as_it_was(tail: Tail, kernel: str, buffer: str) -> Finding:
    """The warning for an output that was filled before the launch, of which the grid does not reach the end."""
    (rows, columns), (high, wide), (deep, broad) = tail.elements, tail.reach, tail.block
    if rows == 1:
        what = f"{wide // broad:,} blocks of {broad:,} threads are {wide:,}, and its last {columns - wide:,} of {columns:,} elements keep what was there before"
        blocks, how = f"{tail.needed[1]:,} blocks", f"(n + {broad} - 1) / {broad}"
    else:
        reached = f"{min(wide, columns):,} × {min(high, rows):,} of its {columns:,} × {rows:,} elements"
        what = f"{wide // broad:,} × {high // deep:,} blocks of {broad:,} × {deep:,} threads reach {reached}, and the rest keeps what was there before"
        blocks, how = f"{tail.needed[1]:,} × {tail.needed[0]:,} blocks", f"(width + {broad} - 1) / {broad}"
    advice = f"round the number of blocks up: {blocks}, as in {how}, with a guard in the kernel; if another kernel or the host does the rest, ignore this"
    message = f"the grid ends before `{buffer}` does: {what}"
    return Finding(CHECK.code, CHECK.kind, "warning", message, advice, kernel, space="global", buffer=buffer, index=tail.first)


def refused(kernel: str, reason: str, advice: str = "launch within the device's limits; see `gridstride plan` for what fits") -> Finding:
    """The finding for a launch that the device refuses, or that breaks its kernel's contract."""
    return Finding(CHECK.code, CHECK.kind, "error", reason, advice, kernel)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
