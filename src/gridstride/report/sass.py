"""Source, PTX and machine code side by side: as a document and as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.frontends.sass import SassInstruction, SassKernel, SassListing
from gridstride.frontends.sass_meaning import explanations, memory_access
from gridstride.observers.metrics.compiler_changes import AccessChange, compiler_changes, line_totals
from gridstride.ptx.nodes import Function, Module
from gridstride.report.source_lines import SourceLines

Place = tuple[str | None, int | None]
_WIDEST = 48
"""Characters of an instruction before it is folded."""


@dataclass
class SourceLine:
    """What one source line became: PTX lines in order, each with its machine instructions; None holds those of PTX lines elsewhere."""

    place: Place
    by_ptx: dict[int | None, list[SassInstruction]] = field(default_factory=dict)
    ptx_accesses: int = 0
    machine_accesses: int = 0
    changes: list[AccessChange] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether a run may count other accesses than the PTX's."""
        return any(change.may_matter for change in self.changes)


@dataclass
class KernelListing:
    """One kernel's source lines, sorted; `meanings` by address."""

    kernel: SassKernel
    lines: list[SourceLine]
    meanings: dict[int, str]
    changes: list[AccessChange]


def list_kernel(module: Module, sass: SassListing, entry: str) -> KernelListing:
    """Bring a kernel's machine code and PTX together by source line. Raises UnsupportedError for PTX that is not known here."""
    kernel = sass.kernels[entry]
    changes = compiler_changes(module, sass, [entry])
    totals = line_totals(module, sass, [entry])
    places = {i.line: _place(module, i.loc) for f in _functions(module, kernel) for i in f.body}
    lines: dict[Place, SourceLine] = {}
    for ptx_line, place in sorted(places.items()):
        lines.setdefault(place, SourceLine(place)).by_ptx[ptx_line] = []
    for instruction in kernel.instructions:
        place = (instruction.file, instruction.line)
        line = lines.setdefault(place, SourceLine(place))
        key = instruction.ptx_line if instruction.ptx_line in line.by_ptx else None
        line.by_ptx.setdefault(key, []).append(instruction)
    for place, line in lines.items():
        line.changes = [change for change in changes if (change.file, change.line) == place]
        if place[1] is not None:
            line.ptx_accesses, line.machine_accesses = totals.get(place[1], (0, 0))
    ordered = sorted(lines.values(), key=lambda line: (line.place[0] or "", line.place[1] or 0))
    return KernelListing(kernel, ordered, explanations(kernel), changes)


def _functions(module: Module, kernel: SassKernel) -> list[Function]:
    """The kernel's PTX and that of the functions of which it has machine code."""
    lines = {i.ptx_line for i in kernel.instructions}
    return [f for f in module.functions.values() if f.name == kernel.name or (not f.entry and any(i.line in lines for i in f.body))]


def _place(module: Module, loc: Any) -> Place:
    return (None, None) if loc is None else (module.files.get(loc.file), loc.line)


def describe(listing: KernelListing, name: str) -> dict[str, Any]:
    """The listing as a JSON document."""
    return {
        "name": name,
        "entry": listing.kernel.name,
        "instructions": [
            {
                "address": i.address,
                "text": i.text,
                "function": i.function,
                "file": i.file,
                "line": i.line,
                "inlined_at": [{"file": file, "line": line} for file, line in i.inlined_at],
                "ptx_line": i.ptx_line,
                "meaning": listing.meanings.get(i.address),
            }
            for i in listing.kernel.instructions
        ],
        "lines": [
            {
                "file": line.place[0],
                "line": line.place[1],
                "memory_instructions_ptx": line.ptx_accesses,
                "memory_instructions_sass": line.machine_accesses,
                "changed": line.changed,
            }
            for line in listing.lines
        ],
        "changes": [
            {"file": c.file, "line": c.line, "ptx_line": c.ptx_line, "how": c.how, "message": c.description} for c in listing.changes
        ],
    }


def render(listing: KernelListing, name: str, arch: str, ptx: str, sources: SourceLines) -> RenderableType:
    """A table for each source line: PTX left, the machine instructions it became beside it, and what their numbers mean."""
    ptx_lines = [" ".join(line.split()).rstrip(";") for line in ptx.splitlines()]
    width = min(_WIDEST, max((len(ptx_lines[k - 1]) for line in listing.lines for k in line.by_ptx if k is not None), default=0))
    machine_width = min(_WIDEST, max((len(i.text) for i in listing.kernel.instructions), default=0))
    accesses = [access for i in listing.kernel.instructions if (access := memory_access(i)) is not None]
    kinds: dict[str, int] = defaultdict(int)
    for access in accesses:
        kinds[f"{access.space} {access.kind}"] += 1
    summary = ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in kinds.items()) or "no memory accesses"
    parts: list[RenderableType] = [
        Text(f"{name} on {arch}: {len(listing.kernel.instructions)} machine instructions; {summary}", style="bold"),
        *(_source_line(line, listing, ptx_lines, sources, (width, machine_width)) for line in listing.lines),
    ]
    return Group(*parts, Text(""))


def _source_line(
    line: SourceLine, listing: KernelListing, ptx_lines: Sequence[str], sources: SourceLines, widths: tuple[int, int]
) -> RenderableType:
    file, number = line.place
    where = "no source line" if number is None else f"{PurePosixPath(file or '?').name}:{number}"
    source = sources.line(file, number)
    title = Text.assemble((f"{where}  ", "bold cyan"), source or "")
    heading: list[RenderableType] = [Text(""), title]
    if line.changes:
        counts = f"{line.ptx_accesses} memory instructions in PTX, {line.machine_accesses} on the machine"
        if all(change.how == "copied" for change in line.changes):
            counts += "; counts change only where the lanes of a warp leave the loop at different times"
        what = "compiler changed this access" if line.changed else "unrolled"
        heading.append(Text(f"  {what}: {counts}", style="bold yellow" if line.changed else "yellow"))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, width=6, justify="right", style="dim")
    table.add_column(min_width=widths[0], overflow="fold")
    table.add_column(no_wrap=True, width=4, justify="right", style="dim")
    table.add_column(min_width=widths[1], overflow="fold")
    table.add_column(overflow="fold", style="green")
    changed = {change.ptx_line: change for change in line.changes}
    for ptx_line, instructions in sorted(line.by_ptx.items(), key=lambda item: item[0] or 0):
        shown = "" if ptx_line is None else ptx_lines[ptx_line - 1]
        notes: list[Text] = [Text(changed[ptx_line].description, style="yellow")] if ptx_line in changed else []
        rows = _rows(instructions, listing, notes)
        for k, (address, text, note) in enumerate(rows):
            table.add_row(str(ptx_line or "") if k == 0 else "", Text(shown if k == 0 else ""), address, text, note)
    return Group(*heading, table)


def _rows(instructions: Iterable[SassInstruction], listing: KernelListing, notes: list[Text]) -> list[tuple[str, Text, Text]]:
    rows = []
    for instruction in instructions:
        style = "bold" if memory_access(instruction) is not None else ""
        meaning = listing.meanings.get(instruction.address)
        note = Text(meaning) if meaning else notes.pop() if notes else Text("")
        rows.append((f"{instruction.address:04x}", Text(instruction.text, style=style), note))
    if notes or not rows:
        rows.append(("", Text(""), notes.pop() if notes else Text("")))
    return rows
