"""Where a finding happened: sites, threads and addresses of one launch, told in the program's own names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridstride.findings import Dim3, Site
from gridstride.isa.windows import LOCAL_WINDOW, SHARED_WINDOW
from gridstride.machine.memory import Memory
from gridstride.machine.places import user_place

_WINDOW = (1 << 56) - 1
_HEAD, _RETURN = re.compile(r"__global__|__device__"), re.compile(r"\breturn\b")


@dataclass(frozen=True)
class SharedVariable:
    """A variable in shared memory: `size` bytes at `offset`; size 0: it reaches to the end (dynamic shared memory)."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Target:
    """A piece of memory in the program's words. `address`: the device address, or the offset in shared or local memory."""

    space: str
    buffer: str | None
    index: int | None
    address: int

    def __str__(self) -> str:
        if self.buffer is None:
            return f"{self.space} address {self.address:#x}"
        return f"`{self.buffer}`" if self.index is None else f"`{self.buffer}`[{self.index:,}]"


@dataclass(frozen=True)
class Scene:
    """One launch as findings see it.

    sites: as in `KernelCode.sites`. names: allocation address → what messages call it. line_of: text of a source line, None where unknown.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    sites: Sequence[Sequence[Any]]
    file_names: Mapping[int, str]
    memory: Memory | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    shared: Sequence[SharedVariable] = ()
    line_of: Callable[[str | None, int | None], str | None] = lambda file, number: None

    def site(self, number: int, block: int = -1, thread: int = -1) -> Site:
        """A site by its number (-1: unknown) with linear block and thread numbers (-1: none)."""
        where_block = unravel(block, self.grid) if block >= 0 else None
        where_thread = unravel(thread, self.block) if thread >= 0 else None
        if not 0 <= number < len(self.sites):
            return Site(block=where_block, thread=where_thread)
        file, line = user_place(self.sites[number], self.file_names)
        return Site(file, line, int(self.sites[number][0]), where_block, where_thread)

    def returns_before(self, site: int, later: int) -> bool:
        """Whether the source has a `return` between the head of the function that a site stands in and a later site of that file."""
        first, last = self.site(site), self.site(later)
        if first.line is None or last.line is None or first.file != last.file:
            return False
        head = first.line
        while head > 1 and not _HEAD.search(self.line_of(first.file, head) or ""):
            head -= 1
        return any(_RETURN.search((self.line_of(first.file, n) or "").partition("//")[0]) for n in range(head, max(first.line, last.line) + 1))

    def opcode(self, number: int) -> str:
        """The instruction of a site, "" where the site is unknown."""
        return str(self.sites[number][3]) if 0 <= number < len(self.sites) else ""

    def does(self, number: int) -> str:
        """What a site does with memory, as the verb of a sentence."""
        head = self.opcode(number).partition(".")[0]
        return {"st": "writes", "ld": "reads", "ldu": "reads", "atom": "atomically updates", "red": "atomically updates"}.get(head, "accesses")

    def target(self, space: str, address: int, nbytes: int) -> Target:
        """The buffer and the element that an address belongs to; elements have `nbytes` bytes."""
        address &= (1 << 64) - 1
        if space in ("generic", "flat", ""):
            space = "global"
            if address >> 56 == SHARED_WINDOW >> 56:
                space = "shared"
            elif address >> 56 == LOCAL_WINDOW >> 56:
                space = "local"
        if space in ("shared", "local") and address >> 56 in (SHARED_WINDOW >> 56, LOCAL_WINDOW >> 56):
            address &= _WINDOW
        size = max(nbytes, 1)
        if space == "shared":
            for variable in self.shared:
                if variable.offset <= address and (not variable.size or address < variable.offset + variable.size):
                    whole = variable.size == nbytes and variable.size != 0  # a variable that is no array
                    return Target(space, variable.name, None if whole else (address - variable.offset) // size, address)
            return Target(space, "shared", address // size, address)
        if space == "local":
            return Target(space, None, None, address)
        allocation = self.memory.find(address) if self.memory is not None else None
        if allocation is None:
            return Target(space, None, None, address)
        name = self.names.get(allocation.address) or plain_variable(allocation.name) or f"{allocation.address:#x}"
        return Target(space, name, (address - allocation.address) // size, address)


def unravel(linear: int, extents: Dim3) -> Dim3:
    """A linear block or thread number as (x, y, z)."""
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


def plain_variable(symbol: str) -> str:
    """A variable's name as the source has it: that of a variable inside a function is mangled (`_ZZ…E4tile` → `tile`).

    What stands before a colon is the function that the simulator found it in.
    """
    symbol = re.sub(r"_?\$_\d+$", "", symbol.rpartition(":")[2])
    if symbol.startswith("_ZZ"):
        # without the number of a name that the function has more than once
        for candidate in (symbol, re.sub(r"_\d+_?$", "", symbol)):
            for match in re.finditer(r"E(\d+)", candidate):
                if int(match[1]) == len(candidate) - match.end():
                    return candidate[match.end() :]
    return symbol


def place(site: Site, *, threads: bool = True) -> str:
    """ "file:line, block (x,y,z), thread (x,y,z)" of what is known."""
    parts = []
    if site.file and site.line:
        parts.append(f"{os.path.basename(site.file)}:{site.line}")
    elif site.ptx_line:
        parts.append(f"PTX line {site.ptx_line}")
    if threads and site.block is not None:
        parts.append(f"block {dim(site.block)}")
    if threads and site.thread is not None:
        parts.append(f"thread {dim(site.thread)}")
    return ", ".join(parts)


def dim(value: Dim3) -> str:
    return "({},{},{})".format(*value)


def lines(site: Site, other: Site) -> str:
    """The source lines of both sides, for the end of a message whose sentence names the threads."""
    first, second = place(site, threads=False), place(other, threads=False)
    if not first or not second:
        return first or second
    return f"both {first}" if first == second else f"{first} and {second}"
