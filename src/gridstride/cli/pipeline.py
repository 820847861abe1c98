"""`gridstride pipeline`: the edges of photographs, every stage checked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

import gridstride as gs
from gridstride.cli import options, pipeline_streamed
from gridstride.cli.pipeline_spread import SpreadPipelines, Where, in_order
from gridstride.cli.running import STANDARD_OUTPUT
from gridstride.errors import UsageError
from gridstride.pipeline import batch
from gridstride.pipeline.implementations import ALL, IMPLEMENTATIONS, EdgePipeline, require_known
from gridstride.pipeline.parameters import DEFAULT, Parameters

VERIFICATION_FAILED = 1
DEPTHS = {"8": 8, "16": 16}
"""Depths that are numbers, by how they are written."""


def command(
    images: Annotated[list[Path] | None, typer.Argument(metavar="IMAGE|FOLDER|PATTERN…", help="PNG, JPEG or TIFF files, folders, *.png, frame_%04d.png, - for standard input.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Folder for the edges, or a PNG file for one image (- for standard output).")] = Path(
        "out"
    ),
    device: Annotated[str, typer.Option(metavar="D", help="auto, sim, sim:NAME, gpu or gpu:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processor cores to run blocks on.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON (- for standard output).")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Take the photograph that comes with Gridstride.")] = False,
    sigma: Annotated[float, typer.Option(metavar="S", help="Sigma of the Gaussian blur, in pixels.")] = DEFAULT.sigma,
    radius: Annotated[int | None, typer.Option(metavar="R", help="Pixels it reaches to each side; at least 2 sigma if not given.")] = None,
    border: Annotated[str, typer.Option(metavar="B", help="Beyond the border: replicate, reflect or constant.")] = DEFAULT.border,
    border_value: Annotated[float, typer.Option(metavar="V", help="The constant border's value, from 0 to 255.")] = DEFAULT.border_value,
    stage: Annotated[
        str, typer.Option(metavar="STAGE", help="What is written: grey, blurred_rows, blurred, magnitude (the edges) or thresholded.")
    ] = DEFAULT.output,
    depth: Annotated[str, typer.Option(metavar="BITS", help="Of what is written: 8, 16 or float (as TIFF).")] = str(DEFAULT.depth),
    threshold: Annotated[float, typer.Option(metavar="T", help="Magnitude from which thresholded edges count.")] = DEFAULT.threshold,
    stream: Annotated[
        bool, typer.Option("--stream", help="Many images: copies, kernels, decoding and encoding at once; not checked against NumPy.")
    ] = False,
    graph: Annotated[bool, typer.Option("--graph", help="With --stream: ask for each image's work as one graph.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Skip images whose output is there and whose file and choices are unchanged.")] = False,
    workers: Annotated[int | None, typer.Option(metavar="N", min=1, help="Spread the images over N processes (a Dask cluster of this machine).")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Spread the images over a running Dask cluster: tcp://HOST:PORT of its scheduler.")
    ] = None,
    impl: Annotated[str, typer.Option(metavar="NAME", help=f"Implementation: all, {', '.join(IMPLEMENTATIONS)}.")] = "cuda",
) -> None:
    """Find the edges in photographs: grey, blur, Sobel and histogram on a device, each stage checked against NumPy.

    Exit status: 0 all stages agree, 1 one does not or a kernel was stopped, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    tables = options.console()
    if STANDARD_OUTPUT in (json_file, output):
        if json_file == output:
            raise UsageError("standard output (-) takes the image or the JSON result, not both")
        tables.quiet = True  # the document or the image alone goes there
    if graph and not stream:
        raise UsageError("--graph is for --stream")
    if workers is not None and cluster is not None:
        raise UsageError("--workers starts a cluster, --cluster takes one that runs: give one of them")
    if stream and (workers is not None or cluster is not None):
        raise UsageError("--stream is for one process; workers read, compute and write beside each other without it")
    if stream and impl in (ALL, "reference"):
        raise UsageError(f"--stream is for implementations with kernels, not `{impl}`")
    chosen = Parameters(sigma, radius, cast(Any, border), border_value, cast(Any, stage), cast(Any, DEPTHS.get(depth, depth)), threshold)
    if impl != ALL:
        require_known(impl)
    impls = IMPLEMENTATIONS if impl == ALL else (impl,)
    pipelines: HerePipelines | SpreadPipelines
    if workers is None and cluster is None:
        opened = gs.device(device, threads=threads)
        pipelines = HerePipelines([EdgePipeline(opened, chosen, name) for name in impls])
    else:
        pipelines = SpreadPipelines(Where(workers, cluster), device, threads, chosen, impls)
    status = run(images or [], output, pipelines, json_file, demo, tables, Console(stderr=True), how=How(stream, graph, resume))
    raise typer.Exit(status)


@dataclass(frozen=True)
class How:
    """How images are taken: streamed (with graphs), and without those that are done."""

    stream: bool = False
    graph: bool = False
    resume: bool = False


class HerePipelines:
    """Images done one after the other by this process, with each of the implementations."""

    def __init__(self, pipelines: Sequence[EdgePipeline]) -> None:
        self.pipelines = pipelines
        self.parameters = pipelines[0].parameters
        self.device = str(pipelines[0].device)

    def outcomes(self, tasks: Sequence[batch.Task]) -> Iterator[batch.Outcome]:
        """Each task's outcome, in order."""
        prepared: set[str] = set()
        for task in tasks:
            yield batch.process(task, self.pipelines, prepared)


def run(
    inputs: list[Path],
    output: Path,
    pipelines: HerePipelines | SpreadPipelines,
    json_file: Path | None,
    demo: bool,
    console: Console,
    errors: Console,
    how: How,
) -> int:
    """The command without its parsing; returns the exit status, the highest of those of all images.

    Raises `GridstrideError` for what concerns all images; what concerns one is written to `errors`, and the others are done.
    """
    with ExitStack() as stack:
        if demo:
            inputs = [*inputs, stack.enter_context(batch.demo_photograph())]
        if not inputs:
            raise UsageError("no image was named: give image files or folders, or --demo for the photograph that comes with Gridstride")
        tasks = batch.plan(inputs, output, pipelines.parameters.ending)
        skipped = [task for task in tasks if how.resume and batch.is_done(task, pipelines.parameters)]
        tasks = [task for task in tasks if task not in skipped]
        if skipped:
            console.print(f"{len(skipped)} of {len(skipped) + len(tasks)} images are done and unchanged: skipped.")
        status = 0
        entries: list[dict[str, Any]] = [batch.skipped_as_json(task) for task in skipped]
        progress = stack.enter_context(_progress(console, errors))
        shown = progress.add_task("" if not tasks else escape(tasks[0].source.name), total=len(tasks))
        if how.stream and isinstance(pipelines, HerePipelines):
            status, made, line = pipeline_streamed.run(tasks, pipelines.pipelines[0], how.graph, progress, shown, partial(_complain, errors))
            entries += made
            console.print(Text(line), soft_wrap=True)
            tasks = []
        waiting = deque(tasks)
        for ready in in_order(pipelines.outcomes(tasks), tasks):
            progress.advance(shown)
            for outcome in ready:
                waiting.popleft()
                progress.update(shown, description=escape(waiting[0].source.name if waiting else ""))
                entries += batch.entries(outcome)
                status = max(status, tell(outcome, pipelines.device, console, errors))
    if json_file == STANDARD_OUTPUT:
        options.print_json(batch.json_text(pipelines.device, entries))
    elif json_file is not None:
        batch.write_json(json_file, pipelines.device, entries)
    return status


def tell(outcome: batch.Outcome, device: str, console: Console, errors: Console) -> int:
    """Show what became of one image, and say what went wrong. Returns the exit status for it."""
    source, reports = outcome.task.source, outcome.reports
    if outcome.failure is not None:
        _complain(errors, outcome.failure)
        return outcome.failure.exit_status
    for report in reports:
        _show(console, report, device)
        if not report.passed:
            wrong = ", ".join(c.stage for c in report.checks if not c.passed)
            _complain(errors, f"{source}: {wrong} {'' if len(reports) == 1 else f'of `{report.impl}` '}differ from the reference")
    for difference in outcome.differences:
        _complain(errors, f"{source}: {difference}")
    if len(reports) > 1 and not outcome.differences:
        console.print(f"{', '.join(report.impl for report in reports)} agree bit for bit.")
    return VERIFICATION_FAILED if outcome.differences or not all(report.passed for report in reports) else 0


class _Rate(ProgressColumn):
    """Images a second, as soon as that is known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} images/s" if task.speed else "")


def _progress(console: Console, errors: Console) -> Progress:
    """Which image is being worked on; shown on a terminal only."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
        # Tables printed above a moving bar go through it; but never there when standard output is a file or a pipe.
        redirect_stdout=console.is_terminal,
    )


def _show(console: Console, report: batch.ImageReport, device: str) -> None:
    """The table of stages of one image."""
    pixels = report.height * report.width
    table = Table(title=Text(f"{report.task.source.name}: {report.width} × {report.height}, {report.layout}, {report.impl} on {device}"), title_justify="left")
    table.add_column("Stage", no_wrap=True)
    for heading in ("Max error", "Tolerance", "Verdict", "Time", "Mpixel/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for check, launch in report.checked_launches:
        verdict = Text("ok", "green") if check.passed else Text("FAILED", "bold red")
        tolerance = "exact" if check.tolerance == 0 else f"{check.tolerance:.2e}"
        time, rate = ("", "") if launch is None else (_milliseconds(launch.seconds), f"{pixels / launch.seconds / 1e6:,.1f}")
        table.add_row(check.stage, _number(check.max_error), tolerance, verdict, time, rate)
    total = sum(stage.seconds for stage in report.stages)
    table.add_section()
    table.add_row("all stages", "", "", "", _milliseconds(total), f"{pixels / total / 1e6:,.1f}")
    console.print(table)
    prepared = f"machine code {_milliseconds(report.prepare_seconds)}, " if report.prepare_seconds else ""
    timings = f"{prepared}reading {_milliseconds(report.read_seconds)}, checking {_milliseconds(report.verify_seconds)}"
    console.print("Errors on the scale of 0 to 255, against NumPy in float64; what is exact must equal NumPy in float32.")
    console.print(Text(f"Beside the stages: {timings}."))
    written = "Edges" if report.written == DEFAULT.output else report.written.replace("_", " ").capitalize()
    console.print(Text(f"{written}: {report.task.target}"), soft_wrap=True)


def _number(error: float) -> str:
    return "0" if error == 0 else f"{error:.2e}" if math.isfinite(error) else str(error)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def _complain(errors: Console, error: object) -> None:
    """A message on standard error, never taken for markup and never wrapped."""
    errors.print(Text(f"gridstride: {error}"), soft_wrap=True)
