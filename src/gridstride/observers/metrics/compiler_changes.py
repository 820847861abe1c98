"""Which memory accesses of the PTX the machine compiler changed: there a count from PTX is not what the hardware counts.

Every machine instruction names the PTX line it came from, so each PTX access can be set beside the machine accesses that it became. Most
became one of the same width. The others were merged with a neighbour or found unnecessary, made wider or narrower, put in a loop
(an atomic that the machine does not have), gathered over the warp (a reduction by all lanes into one address), or copied: an unrolled
loop has the access once for each copy of its body. Copies change no count as long as the lanes of a warp leave the loop together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridstride.frontends.sass import SassInstruction, SassListing
from gridstride.frontends.sass_meaning import MachineAccess, memory_access
from gridstride.ir.graph import Loop
from gridstride.ir.nodes import Block, Function, Kind, Op
from gridstride.observers.metrics.profile import InstructionCounts
from gridstride.passes.analyse_shapes import LaneLayout, ShapeAnalysis
from gridstride.passes.order_blocks import order_blocks
from gridstride.passes.select_operations import select_operations
from gridstride.passes.split_webs import liveness, split_webs
from gridstride.ptx.nodes import Module
from gridstride.ptx.parser import parse

How = Literal["removed", "merged", "resized", "emulated", "gathered", "copied"]
_SPACES = ("global", "shared", "local", "generic")
_ACROSS_LANES = ("REDUX", "CREDUX", "VOTE", "VOTEU", "MATCH")
_KINDS = {Kind.LOAD: "load", Kind.STORE: "store", Kind.ATOMIC: "atomic"}


@dataclass(frozen=True)
class AccessChange:
    """One PTX access and what it became on the machine.

    `machine` are the machine's accesses that came from it; `leaves` the PTX lines of the branches by which lanes leave the loops around
    it, and `lanes_may_part` whether one of them hangs on the lane (both matter to copies only).
    """

    kernel: str
    file: str | None
    line: int | None
    ptx_line: int
    opcode: str
    how: How
    machine: tuple[SassInstruction, ...]
    leaves: tuple[int, ...] = ()
    lanes_may_part: bool = True

    @property
    def description(self) -> str:
        """What happened, in a few words."""
        accesses = ", ".join(i.opcode for i in self.machine)
        return {
            "removed": "no access left on the machine",
            "merged": f"merged with a neighbour ({accesses or 'counted there'})",
            "resized": f"made another width ({accesses})",
            "emulated": f"made of several accesses ({accesses})",
            "gathered": f"gathered over the warp first, then one access ({accesses})",
            "copied": f"in a loop that the machine compiler unrolled ({len(self.machine)} copies)",
        }[self.how]

    @property
    def may_matter(self) -> bool:
        """Whether some run may count otherwise: copies of a loop that all lanes leave together never do."""
        return self.how != "copied" or self.lanes_may_part

    def happened(self, ran: Mapping[int, LineRun]) -> bool:
        """Whether it changed what was counted in a run, of which `ran` tells by PTX line.

        An access that never ran changed nothing, nor do copies where no branch out of the loops around them parted a warp, nor a
        gathered atomic that was counted as the one access it is each time.
        """
        access = ran.get(self.ptx_line)
        if access is None or access.executions == 0:
            return False
        if self.how == "gathered":
            return access.pieces != access.executions
        return self.how != "copied" or any(ran[line].divergent for line in self.leaves if line in ran)


@dataclass(frozen=True, slots=True)
class LineRun:
    """What a run counted at one PTX line: executions by a warp, sectors or passes of them all, branches at which lanes parted."""

    executions: int
    pieces: int
    divergent: int


@dataclass
class _Access:
    """A PTX access with what the machine has for it. `instances`: how often it stands in the code once device functions are inlined."""

    op: Op
    kind: str
    instances: int
    group: tuple[int, str, str]
    leaves: set[int]
    lanes_may_part: bool
    machine: list[tuple[SassInstruction, MachineAccess]] = field(default_factory=list)
    across_lanes: bool = False

    @property
    def bytes(self) -> int:
        assert self.op.access is not None
        return self.op.access.bytes


def compiler_changes(ptx: str | Module, sass: SassListing, kernels: Iterable[str] | None = None) -> list[AccessChange]:
    """All accesses of the kernels (default: all that both have) that became anything but one access of the same width and kind.

    `ptx` is the text that the machine code was made from, or its tree: its line numbers are what relates the two.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    names = [f.name for f in module.entries()] if kernels is None else list(kernels)
    return [change for name in names if name in sass.kernels for change in _kernel_changes(module, sass, name)]


def changed_lines(
    ptx: str | Module, sass: SassListing, kernel: str | None = None, counts: Iterable[InstructionCounts] | None = None
) -> dict[int, tuple[int, int]]:
    """Source lines whose accesses the machine compiler changed, with the memory instructions that PTX has there and the machine has.

    With the `counts` of a run of `kernel`, only lines where the change had an effect; without, copies count as a change where the lanes
    of a warp may leave the loop at different times. Lines are those of the innermost function, as in the PTX.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    names = [kernel] if kernel is not None else [f.name for f in module.entries()]
    changes = compiler_changes(module, sass, names)
    if counts is not None:
        ran = run_counts(counts)
        changes = [change for change in changes if change.happened(ran)]
    else:
        changes = [change for change in changes if change.may_matter]
    totals = line_totals(module, sass, names)
    return {change.line: totals[change.line] for change in changes if change.line is not None}


def run_counts(counts: Iterable[InstructionCounts]) -> dict[int, LineRun]:
    """What a profile counted, by PTX line, as `AccessChange.happened` takes it."""
    found: dict[int, LineRun] = {}
    for count in counts:
        line = found.get(count.ptx_line, LineRun(0, 0, 0))
        pieces = count.sectors + count.wavefronts
        found[count.ptx_line] = LineRun(line.executions + count.executions, line.pieces + pieces, line.divergent + count.divergent)
    return found


def line_totals(module: Module, sass: SassListing, kernels: Iterable[str]) -> dict[int, tuple[int, int]]:
    """By source line, the memory instructions of the PTX and of the machine code of some kernels."""
    in_ptx: Counter[int] = Counter()
    on_machine: Counter[int] = Counter()
    for name in kernels:
        if name not in sass.kernels:
            continue
        accesses = _accesses(module, name)
        _attach(accesses, sass.kernels[name].instructions)
        for access in accesses.values():
            if access.op.loc is not None:
                in_ptx[access.op.loc.line] += 1
                on_machine[access.op.loc.line] += len(access.machine)
    return {line: (in_ptx[line], on_machine[line]) for line in in_ptx}


def _kernel_changes(module: Module, sass: SassListing, name: str) -> list[AccessChange]:
    accesses = _accesses(module, name)
    _attach(accesses, sass.kernels[name].instructions)
    groups: dict[tuple[int, str, str], list[_Access]] = defaultdict(list)
    for access in accesses.values():
        groups[access.group].append(access)
    found = []
    for group in groups.values():
        for access, how in _judge(group):
            loc = access.op.loc
            found.append(
                AccessChange(
                    kernel=name,
                    file=None if loc is None else module.files.get(loc.file),
                    line=None if loc is None else loc.line,
                    ptx_line=access.op.line,
                    opcode=access.op.form.text if access.op.form is not None else access.kind,
                    how=how,
                    machine=tuple(instruction for instruction, _ in access.machine),
                    leaves=tuple(sorted(access.leaves)),
                    lanes_may_part=access.lanes_may_part,
                )
            )
    return sorted(found, key=lambda change: change.ptx_line)


def _accesses(module: Module, name: str) -> dict[int, _Access]:
    """The memory accesses of a kernel by PTX line, with the loops around them."""
    function = select_operations(module, name)
    loops = order_blocks(function)
    parting = _branches_that_may_part(function, loops)
    by_index = {block.index: block for block in function.blocks}
    found: dict[int, _Access] = {}
    for block in function.blocks:
        for op in block.ops:
            if op.kind not in _KINDS or op.access is None or op.access.space not in _SPACES or not op.line:
                continue
            if op.line in found:
                found[op.line].instances += 1
            else:
                found[op.line] = _Access(op, _KINDS[op.kind], 1, (block.index, op.access.space, _KINDS[op.kind]), set(), False)
            for leaving in _leaving(block, loops, by_index):
                found[op.line].leaves.add(leaving.terminator.line)
                found[op.line].lanes_may_part |= leaving.index in parting
    return found


def _leaving(block: Block, loops: list[Loop], blocks: Mapping[int, Block]) -> list[Block]:
    """The blocks whose branches leave the loops around `block`; every branch of the kernel for one outside of all loops."""
    around = [loop for loop in loops if id(block) in loop.body]
    branches = [b for b in blocks.values() if b.terminator.kind is Kind.BRANCH]
    if not around:
        return branches
    return [b for b in branches if any(id(b) in loop.body and any(id(t) not in loop.body for t in b.targets) for loop in around)]


def _branches_that_may_part(function: Function, loops: list[Loop]) -> set[int]:
    """Blocks at whose end the lanes of a warp may go different ways, whatever the shape of the block of threads."""
    webs = split_webs(function)
    return ShapeAnalysis(function, webs, liveness(function), loops, LaneLayout(32, False), independent=False).run().divergent


def _attach(accesses: dict[int, _Access], instructions: Iterable[SassInstruction]) -> None:
    for instruction in instructions:
        access = accesses.get(instruction.ptx_line or 0)
        if access is None:
            continue
        if (meaning := memory_access(instruction)) is not None:
            access.machine.append((instruction, meaning))
        elif access.kind == "atomic" and instruction.head in _ACROSS_LANES:
            access.across_lanes = True


def _judge(group: list[_Access]) -> list[tuple[_Access, How]]:
    """What became of the accesses of one kind in one basic block, to one space: they are compared together, for the machine compiler may
    give one PTX access the line of another."""
    if group[0].kind == "atomic":
        return [(access, how) for access in group if (how := _judge_atomic(access)) is not None]
    asked = Counter({size: 0 for size in (_machine_bytes(access.bytes) for access in group)})
    for access in group:
        asked[_machine_bytes(access.bytes)] += 1
    made = Counter(_machine_bytes(meaning.bytes) for access in group for _, meaning in access.machine)
    copies = sum(made.values()) // len(group)
    if made == asked:
        return []
    if copies > 1 and made == Counter({size: number * copies for size, number in asked.items()}):
        # A device function that is called from several places has as many copies of its body, and they are no change.
        return [(access, "copied") for access in group if len(access.machine) > access.instances]
    found: list[tuple[_Access, How]] = []
    wider = any(meaning.bytes > access.bytes for access in group for _, meaning in access.machine)
    for access in group:
        sizes = [_machine_bytes(meaning.bytes) for _, meaning in access.machine]
        if sizes == [_machine_bytes(access.bytes)]:
            continue
        if not sizes:
            found.append((access, "merged" if wider else "removed"))
        elif any(size != _machine_bytes(access.bytes) for size in sizes):
            found.append((access, "merged" if max(sizes) > access.bytes else "resized"))
        else:
            found.append((access, "copied"))
    return found


def _machine_bytes(size: int) -> int:
    """Bytes of an access as the machine has them: its narrow accesses move a register, which counts no differently."""
    return max(size, 4)


def _judge_atomic(access: _Access) -> How | None:
    kinds = Counter(meaning.kind for _, meaning in access.machine)
    if not access.machine:
        return "removed"
    if kinds["load"] or kinds["store"]:
        return "emulated"
    if access.across_lanes:
        return "gathered"
    return "copied" if kinds["atomic"] > access.instances else None
