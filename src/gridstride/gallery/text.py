"""The gallery on a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from gridstride.gallery.columns import Value, column
from gridstride.gallery.comparing import Climbed, format_size
from gridstride.gallery.grading import Grade, Lab
from gridstride.gallery.model import Ladder, Step
from gridstride.gallery.sources import part

_TEXT_WIDTH = 110


def listing(ladders: Iterable[Ladder], labs: Iterable[Lab]) -> RenderableType:
    """All ladders with their steps, and all laboratories."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ladder", no_wrap=True)
    table.add_column("what")
    table.add_column("steps")
    for ladder in ladders:
        table.add_row(Text(ladder.name, style="bold"), Text(ladder.title), Text(", ".join(step.name for step in ladder.steps)))
    exercises = Table(box=None, pad_edge=False, header_style="bold")
    exercises.add_column("laboratory", no_wrap=True)
    exercises.add_column("task")
    for lab in labs:
        exercises.add_row(Text(lab.name, style="bold"), Text(lab.title))
    how = (
        "gridstride gallery NAME shows one; run NAME[/STEP] tries it, compare NAME puts its steps side by side, open NAME DIR makes a project of it to edit, "
        "check LAB [FILE] grades an exercise, hint LAB [N] helps with it."
    )
    return Group(table, Text(), exercises, Text(), Text(how, style="dim"))


def shown(ladder: Ladder, steps: Sequence[Step]) -> RenderableType:
    """A ladder's explanation and the source of its steps."""
    found: list[RenderableType] = [Text(ladder.title, style="bold"), Text(_filled(ladder.about)), Text()]
    for step in steps:
        found += [Text(f"{ladder.name}/{step.name}", style="bold"), Text(textwrap.fill(step.claim, _TEXT_WIDTH)), _code(source_text(ladder, step)), Text()]
    return Group(*found)


def source_text(ladder: Ladder, step: Step) -> str:
    """The step's part of its source file."""
    return part(ladder.source_of(step).read_text(encoding="utf-8"), step.section or step.name)


def _code(text: str) -> RenderableType:
    return Syntax(text, "cuda", background_color="default", word_wrap=False)


def _filled(text: str) -> str:
    return "\n\n".join(textwrap.fill(paragraph, _TEXT_WIDTH) for paragraph in text.strip().split("\n\n"))


def table_rows(ladder: Ladder, climbed: Sequence[Climbed]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a comparison: the step, its counters, its modelled time."""
    headings = ["step", *(column(name).heading for name in ladder.columns), "modelled µs"]
    rows = []
    for one in climbed:
        cells = [format_value(one.values[name]) for name in ladder.columns]
        rows.append([one.step.name, *cells, f"{one.shown.modelled_us:,.1f}"])
    return headings, rows


def comparison(ladder: Ladder, climbed: Sequence[Climbed]) -> RenderableType:
    """The ladder in one table; counters that a step moves are bold, its claim stands below."""
    headings, rows = table_rows(ladder, climbed)
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"{ladder.title}: {format_size(ladder.shown)}", title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    for one, row in zip(climbed, rows, strict=True):
        marked: list[Any] = [Text(row[0], style="bold green" if one.passed else "bold red")]
        marked += [Text(cell, style="bold" if name in one.step.moves else "") for name, cell in zip(ladder.columns, row[1:-1], strict=True)]
        table.add_row(*marked, row[-1])
    reasons = Table.grid(padding=(0, 2))
    reasons.add_column(no_wrap=True)
    reasons.add_column()
    for one in climbed:
        reasons.add_row(Text(one.step.name, style="bold"), Text(reason(ladder, one)))
    return Group(table, Text(), reasons, Text(), Text("\n".join(verdict(climbed))))


def reason(ladder: Ladder, one: Climbed) -> str:
    """The claim of a step, at which size it was counted where that is not the ladder's, and of a trap what is found."""
    size = "" if one.shown.size == ladder.shown else f" Counted at {format_size(one.shown.size)}."
    kinds = sorted({(finding.code, finding.kind) for finding in one.shown.findings})
    found = f" Found: {', '.join(f'{kind} ({code})' for code, kind in kinds)}." if one.step.finds else ""
    return one.step.claim + size + found


def verdict(climbed: Sequence[Climbed]) -> list[str]:
    """What the runs showed, in lines."""
    complaints = [complaint for one in climbed for complaint in one.complaints]
    if complaints:
        return complaints
    runs = sum(len(one.runs) for one in climbed)
    traps = sum(bool(one.step.finds) for one in climbed)
    told = f"{runs} runs of {len(climbed)} step{'' if len(climbed) == 1 else 's'}: "
    if traps < len(climbed):
        told += "outputs as NumPy's, no findings of any check"
    if traps:
        told += f"{'; ' if traps < len(climbed) else ''}{traps} trap{'' if traps == 1 else 's'} with the findings expected"
    return [f"{told}. Times are the model's."]


def format_value(value: Value) -> str:
    """A counter for a table: whole numbers whole, ratios with three digits, – for what did not happen."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def grade(found: Grade) -> RenderableType:
    """What `gridstride gallery check` says."""
    table = Table.grid(padding=(0, 2))
    for judged in found.judged:
        mark = Text("✓", style="green") if judged.met else Text("✗", style="bold red")
        table.add_row(mark, Text(judged.goal), Text(judged.got, style="" if judged.met else "red"))
    end = Text("passed", style="bold green") if found.passed else Text(f"not yet: {found.hint}", style="bold yellow")
    return Group(table, end)


def lab_shown(lab: Lab) -> RenderableType:
    """A laboratory's task, its goals and where to begin."""
    goals = "\n".join(f"- {goal.text}" for goal in lab.goals)
    return Group(
        Text(lab.title, style="bold"), Text(_filled(lab.task)), Text(), Text(f"Goals:\n- outputs as NumPy's, no findings of any check\n{goals}"), Text(),
        Text(f"gridstride gallery open {lab.name} DIR makes a folder with the starting kernel; gridstride gallery check {lab.name} DIR/{lab.start} grades it."), Text(),
        _code((lab.folder / lab.start).read_text(encoding="utf-8")),
    )  # fmt: skip
