"""`gridstride bench`: the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, RenderableType

from gridstride.bench import Options, images, numba_report, observer_report, report, run
from gridstride.bench.numba_kernels import run as run_numba
from gridstride.bench.observers import run as run_observers
from gridstride.cli.options import console, write_json
from gridstride.errors import UsageError
from gridstride.report.files import require_writable

Found = TypeVar("Found")


def command(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this kernel. Repeat for more.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="An eighth of the work, three repetitions: a look, not a measurement.")] = False,
    observers: Annotated[bool, typer.Option("--observers", help="What profiling and the checks cost, against plain runs.")] = False,
    numba: Annotated[bool, typer.Option("--numba", help="Kernels in Python, against Numba's own simulator.")] = False,
    pipeline: Annotated[bool, typer.Option("--pipeline", help="The image pipeline against OpenCV, on one frame of 3840 x 2160.")] = False,
    repetitions: Annotated[int, typer.Option("--repetitions", metavar="N", min=1, help="Measurements of each kernel.")] = 7,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write every measurement as JSON to FILE (- for standard output).")] = None,
) -> None:
    """Measure the simulator on one core: against the same loops in C++, NumPy, Numba's simulator and Oclgrind; its observers against itself; or
    Python kernels against Numba's simulator.

    Every output is verified before it is timed. Exit status: 1 if an output is wrong or a kernel fails; a missed goal is shown only.
    """
    if json is not None and json != "-":
        require_writable(Path(json))  # said before the minutes of measuring, not after
    named = [name for name, asked in (("--observers", observers), ("--numba", numba), ("--pipeline", pipeline)) if asked]
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} are two benchmarks: run one at a time")
    options = Options(tuple(only or ()), quick, repetitions)
    if observers:
        observed = _shown(lambda progress: run_observers(options, progress))
        _report(observer_report.render(observed), observer_report.as_json(observed), json)
        raise typer.Exit(1 if observed.failed else 0)
    if numba:
        compared = _shown(lambda progress: run_numba(options, progress))
        _report(numba_report.render(compared), numba_report.as_json(compared), json)
        raise typer.Exit(1 if compared.failed else 0)
    if pipeline:
        made = _shown(lambda progress: images.run(options, progress))
        _report(images.render(made), images.as_json(made), json)
        raise typer.Exit(1 if made.failed else 0)
    results = _shown(lambda progress: run(options, progress))
    _report(report.render(results), report.as_json(results), json)
    raise typer.Exit(1 if results.failed else 0)


def _shown(measure: Callable[[Callable[[str], None]], Found]) -> Found:
    """Measure, and show on a terminal what is measured now."""
    notes = Console(stderr=True)
    if not notes.is_terminal:
        return measure(lambda step: None)
    with notes.status("starting") as status:
        return measure(lambda step: status.update(f"measuring: {step}"))


def _report(text: RenderableType, document: dict[str, Any], json: str | None) -> None:
    if json != "-":
        console().print(text)
    if json is not None:
        write_json(json, document)
