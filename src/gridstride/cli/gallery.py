"""`gridstride gallery`: the kernels that come with Gridstride, as ladders from the plain way to the fast one, and exercises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

import gridstride as gs
from gridstride.cli.options import console, write_json
from gridstride.errors import UnsupportedError, UsageError
from gridstride.gallery import Climbed, Grade, Workshop, climb, find, lab, labs, ladders, project, text
from gridstride.gallery.grading import LABS
from gridstride.gallery.model import Ladder, Step
from gridstride.report import profile_text
from gridstride.report.files import require_writable
from gridstride.report.source_lines import SourceLines

BUDGET = 2_000_000
"""Loop iterations of all warps together after which a solution is stopped: exercises need a hundredth of them, and an endless loop ends."""
_ACTIONS = {"run": "NAME[/STEP]", "compare": "NAME", "open": "NAME DIR", "check": "LAB [FILE]", "hint": "LAB [N]"}


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME[/STEP]] | run NAME[/STEP] | compare NAME | open NAME DIR | check LAB [FILE] | hint LAB [N]", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="DEVICE", help="The simulated GPU whose model gives the times: sim, sim:NAME.")] = "sim",
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="compare, check: write the result as JSON (- for standard output).")] = None,
) -> None:
    """The kernels that come with Gridstride: ladders from the plain way to the fast one, and exercises.

    Without words: the list. NAME shows a ladder or one step of it; `run` tries it on awkward sizes against NumPy under all checks and profiles it; `compare` puts
    its steps side by side; `open` makes a folder of it to edit; `check` grades a solution of an exercise, `hint` helps.

    Exit status: 0 clean, 1 a step or a solution is wrong, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    given = list(words or ())
    if json is not None and json != "-":
        require_writable(Path(json))
    if not given:
        _print(text.listing(ladders(), labs()), json)
        return
    if given[0] not in _ACTIONS:
        _one_or_two("gridstride gallery NAME[/STEP]", given, 1, 1)
        _show(given[0], json)
        return
    action, rest = given[0], given[1:]
    _one_or_two(f"gridstride gallery {action} {_ACTIONS[action]}", rest, 2 if action == "open" else 1, 1 if action in ("run", "compare") else 2)
    if action == "open":
        _open(rest[0], Path(rest[1]))
        return
    if action == "hint":
        print(_hint(rest[0], rest[1] if len(rest) > 1 else "1"))
        return
    if not device.startswith("sim"):
        raise UnsupportedError(f"`{device}`: counters and checks are the simulator's; name a simulated device, such as sim:h200")
    if action == "check":
        _check(rest[0], Path(rest[1]) if len(rest) > 1 else None, Workshop(gs.device(device, budget=BUDGET)), json)
    else:
        workshop = Workshop(device)
        ladder, steps = find(rest[0])
        with _progress() as progress:
            climbed = climb(ladder, steps, workshop, progress)
        if json is not None:
            write_json(json, as_json(ladder, climbed, workshop.device.name))
        if json != "-":
            (_print_profiles if action == "run" else _print_comparison)(ladder, climbed)
        raise typer.Exit(int(not all(one.passed for one in climbed)))


def _one_or_two(usage: str, rest: list[str], least: int, most: int) -> None:
    if not least <= len(rest) <= most:
        raise UsageError(f"write {usage}")


def _print(what: RenderableType, json: str | None = None) -> None:
    if json is not None:
        raise UsageError("--json is for run, compare and check")
    console().print(what, highlight=False)


def _show(name: str, json: str | None) -> None:
    if name.replace("_", "-") in LABS:
        _print(text.lab_shown(lab(name)), json)
        return
    _print(text.shown(*find(name)), json)


def _open(name: str, folder: Path) -> None:
    for path in project.open_lab(lab(name), folder) if name.replace("_", "-") in LABS else project.open_ladder(*find(name), folder):
        print(path)


def _hint(name: str, number: str) -> str:
    hints = lab(name).hints
    if not number.isdecimal() or not 1 <= int(number) <= len(hints):
        raise UsageError(f"{name} has hints 1 to {len(hints)}, not {number!r}")
    return hints[int(number) - 1]


def _check(name: str, file: Path | None, workshop: Workshop, json: str | None) -> None:
    exercise = lab(name)
    graded = exercise.grade(Path(exercise.start) if file is None else file, workshop)
    if json is not None:
        write_json(json, grade_json(graded))
    if json != "-":
        console().print(text.grade(graded), highlight=False)
    raise typer.Exit(int(not graded.passed))


def _print_comparison(ladder: Ladder, climbed: list[Climbed]) -> None:
    console().print(text.comparison(ladder, climbed), highlight=False)


def _print_profiles(ladder: Ladder, climbed: list[Climbed]) -> None:
    out = console()
    for one in climbed:
        sources = SourceLines(ladder.source_of(one.step).parent)
        out.rule(Text(f"{ladder.name}/{one.step.name}"))
        out.print(Text(one.step.claim))
        for launch in one.shown.launches:
            out.print(profile_text.profile(launch, sources), highlight=False)
    out.print(Text("\n".join(text.verdict(climbed))))


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """Say on a terminal which step is running."""
    notes = Console(stderr=True)
    if not notes.is_terminal:
        yield lambda step: None
        return
    with notes.status("starting") as status:
        yield lambda step: status.update(f"running {step}")


def as_json(ladder: Ladder, climbed: list[Climbed], device: str) -> dict[str, Any]:
    """A comparison as a document: each step with its counters, its modelled time, its runs, and what is wrong."""
    return {"schema": 1, "device": device, "ladder": ladder.name, "steps": [_step_json(one.step, one) for one in climbed]}


def _step_json(step: Step, one: Climbed) -> dict[str, Any]:
    return {
        "name": step.name,
        "claim": step.claim,
        "size": list(one.shown.size),
        "counters": dict(one.values),
        "moves": list(step.moves),
        "modelled_us": one.shown.modelled_us,
        "passed": one.passed,
        "wrong": one.complaints,
        "runs": [{"size": list(run.size), "wrong": run.wrong, "findings": [found.as_json() for found in run.findings]} for run in one.runs],
    }


def grade_json(grade: Grade) -> dict[str, Any]:
    return {
        "schema": 1,
        "lab": grade.lab.name,
        "passed": grade.passed,
        "goals": [{"goal": judged.goal, "met": judged.met, "got": judged.got} for judged in grade.judged],
        "hint": None if grade.passed else grade.hint,
    }
