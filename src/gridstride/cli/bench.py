"""`gridstride bench`: the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gridstride.bench import Options, run
from gridstride.bench.report import as_json, render
from gridstride.cli.options import console, write_json
from gridstride.report.json import require_writable


def command(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this kernel. Repeat for more.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="An eighth of the work, three repetitions: a look, not a measurement.")] = False,
    repetitions: Annotated[int, typer.Option("--repetitions", metavar="N", min=1, help="Measurements of each kernel.")] = 7,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write every measurement as JSON to FILE (- for standard output).")] = None,
) -> None:
    """Measure the simulator on one core: against the same loops in C++, NumPy, Numba's simulator and Oclgrind.

    Every output is verified before it is timed. Exit status: 1 if an output is wrong or a kernel fails; a missed goal is shown only.
    """
    if json is not None and json != "-":
        require_writable(Path(json))  # said before the minutes of measuring, not after
    options = Options(tuple(only or ()), quick, repetitions)
    notes = Console(stderr=True)
    if notes.is_terminal:
        with notes.status("starting") as status:
            results = run(options, lambda step: status.update(f"measuring: {step}"))
    else:
        results = run(options)
    if json != "-":
        console().print(render(results))
    if json is not None:
        write_json(json, as_json(results))
    raise typer.Exit(1 if results.failed else 0)
