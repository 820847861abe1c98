"""The pages of the documentation, made by running: `python -m gridstride.gallery docs/gallery`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridstride.gallery.comparing import Climbed, format_size
from gridstride.gallery.grading import Lab
from gridstride.gallery.model import Ladder
from gridstride.gallery.sources import COMMON, parts
from gridstride.gallery.text import reason, source_text, table_rows

_INTRODUCTION = """Canonical kernels as ladders: real CUDA C++ from the plain way to the fast one, each step with the counters that it moves and the reason in a sentence.
They come with the package, and every step is tried against NumPy on awkward sizes under all checks."""
_LABORATORIES = """Each has a kernel that works and is slow or wrong, a task, hints, and goals: the results, the checks, exact counters.
`gridstride gallery open LAB DIR` begins one, `gridstride gallery check LAB DIR/start.cu` grades it."""


def page(ladder: Ladder, climbed: Sequence[Climbed]) -> str:
    """A ladder's page: what it teaches, its steps in one table, and the source of each."""
    headings, rows = table_rows(ladder, climbed)
    tried = ", ".join(format_size(size) for size in ladder.awkward)
    lines = [
        f"# {ladder.title}",
        "",
        f"Made by `python -m gridstride.gallery docs/gallery {ladder.name}`; do not edit. `gridstride gallery compare {ladder.name}` shows the same table.",
        "",
        ladder.about.strip(),
        "",
        f"## The ladder at {format_size(ladder.shown)}",
        "",
        _row(headings),
        _row(["---", *("---:" for _ in headings[1:])]),
        *(_row(_marked(ladder, one, row)) for one, row in zip(climbed, rows, strict=True)),
        "",
        "Counters are of the PTX, and those that a step is about are bold: memory's are what an H200 counts where its machine compiler keeps the accesses (`gridstride profile` marks lines where it does not). Times are the model's for an H200, launches and all.",
        f"Every step gives what NumPy gives, and no check finds anything, at this size and at {tried}"
        + (", or sizes of its own." if any(one.step.awkward for one in climbed) else "."),
        "",
    ]
    shared: set[str] = set()
    for one in climbed:
        lines += [f"## {one.step.name}", "", reason(ladder, one), ""]
        source = ladder.source_of(one.step)
        if source.name not in shared:
            shared.add(source.name)
            common = [part.text for part in parts(source.read_text(encoding="utf-8")) if part.name == COMMON and part.text.strip()]
            if common:
                lines += [f"What the kernels of `{source.name}` share:", *_fenced("".join(common)), ""]
        lines += [*_fenced(source_text(ladder, one.step)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _marked(ladder: Ladder, one: Climbed, row: list[str]) -> list[str]:
    return [row[0], *(f"**{cell}**" if name in one.step.moves else cell for name, cell in zip(ladder.columns, row[1:-1], strict=True)), row[-1]]


def _fenced(text: str) -> list[str]:
    return ["```cuda", text.rstrip(), "```"]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def index(ladders: Iterable[Ladder], labs: Iterable[Lab], *, measured: bool) -> str:
    """The page that leads to the others. measured: there is a page of times on a GPU."""
    lines = [
        "# The gallery",
        "",
        "Made by `python -m gridstride.gallery docs/gallery`; do not edit.",
        "",
        _INTRODUCTION,
        "",
        "```",
        "gridstride gallery                          the list",
        "gridstride gallery NAME[/STEP]              explanation and source",
        "gridstride gallery run NAME[/STEP]          try it on awkward sizes, check it, profile it",
        "gridstride gallery compare NAME             the ladder in one table",
        "gridstride gallery open NAME DIR            a folder with source, case file and check script, to edit",
        "gridstride gallery check LAB [FILE]         grade an exercise",
        "gridstride gallery hint LAB [N]             a hint for it",
        "```",
        "From Python: `from gridstride import gallery`; `gallery.ladder(\"transpose\")`, `gallery.compare(\"transpose\")`.",
        "",
        *(["[Predicted and measured](h200.md): the times of every step on an H200, beside what the model says.", ""] if measured else []),
        "| ladder | what it climbs | steps |",
        "|---|---|---|",
        *(_row([f"[{ladder.name}]({ladder.name}.md)", ladder.title, ", ".join(step.name for step in ladder.steps)]) for ladder in ladders),
        "",
        "## Laboratories",
        _LABORATORIES,
        "",
        "| laboratory | task | goals |",
        "|---|---|---|",
        *(_row([lab.name, lab.title, "; ".join(goal.text for goal in lab.goals)]) for lab in labs),
        "",
    ]
    return "\n".join(lines)
