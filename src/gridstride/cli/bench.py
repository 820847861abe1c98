"""`gridstride bench`: the benchmarks."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from gridstride.errors import GridstrideError, UsageError


def command(
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this kernel. Repeat for more.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="An eighth of the work, three repetitions: a look, not a measurement.")] = False,
    repetitions: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements of each kernel.")] = 7,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every measurement as JSON.")] = None,
) -> None:
    """Measure the simulator on one core: against the same loops in C++, NumPy, Numba's simulator and Oclgrind.

    Every output is verified before it is timed. Exit status: 1 if an output is wrong or a kernel fails; a missed goal is shown only.
    """
    from gridstride.bench import Options, run  # here, so that the other commands do not load it
    from gridstride.bench.report import as_json, show

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        if json is not None and not json.resolve().parent.is_dir():  # said before the minutes of measuring, not after
            raise UsageError(f"cannot write {json}: there is no folder {json.resolve().parent}")
        options = Options(tuple(only or ()), quick, repetitions)
        if errors.is_terminal:
            with errors.status("starting") as status:
                results = run(options, lambda step: status.update(f"measuring: {step}"))
        else:
            results = run(options)
        show(results, Console())
        if json is not None:
            json.write_text(json_format.dumps(as_json(results), indent=1) + "\n", encoding="utf-8")
    except GridstrideError as error:
        errors.print(Text.assemble(("error: ", "bold red"), str(error)))
        raise typer.Exit(error.exit_status) from None
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise typer.Exit(130) from None
    raise typer.Exit(1 if results.failed else 0)
