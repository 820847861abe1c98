"""`gridstride pipeline`: the edges of photographs, every stage checked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gridstride.cli import options, pipeline_streamed, pipeline_videos
from gridstride.cli.pipeline_spread import SpreadPipelines, Where, in_order
from gridstride.cli.running import STANDARD_OUTPUT, TraceOption, require_writable, traced
from gridstride.errors import GridstrideError, UnsupportedError, UsageError
from gridstride.pipeline import batch
from gridstride.pipeline.devices import device_for_images
from gridstride.pipeline.implementations import ALL, IMPLEMENTATIONS, EdgePipeline, require_known, usable
from gridstride.pipeline.parameters import DEFAULT, Parameters
from gridstride.pipeline.results import LIBRARY

VERIFICATION_FAILED = 1
DEPTHS = {"8": 8, "16": 16}
"""Depths that are numbers, by how they are written."""


def command(
    images: Annotated[list[Path] | None, typer.Argument(metavar="IMAGE|FOLDER|VIDEO|PATTERN…", help="PNG, JPEG or TIFF files, videos, folders, *.png, frame_%04d.png, - for standard input.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Folder for the edges, or a PNG file for one image (- for standard output), or a video (.mp4, .mkv) for one video.")] = Path(
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
    video: Annotated[bool, typer.Option("--video", help="Of a video make a video instead of its frames.")] = False,
    memory: Annotated[str | None, typer.Option(metavar="LIMIT", help="Device memory to take, such as 256MB: larger images are done in tiles.")] = None,
    trace: TraceOption = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="R.html", help="Write a report card of the first image: times, counters, roofline, timeline, pictures.")] = None,
    impl: Annotated[str, typer.Option(metavar="NAME", help=f"Implementation: all, {', '.join(IMPLEMENTATIONS)}; {LIBRARY} on a GPU.")] = "cuda",
) -> None:
    """Find the edges in photographs and videos: grey, blur, Sobel and histogram on a device, each stage checked against NumPy.

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
    if stream and impl in (ALL, "reference", LIBRARY):
        raise UsageError(f"--stream is for implementations with kernels, not `{impl}`")
    chosen = Parameters(sigma, radius, cast(Any, border), border_value, cast(Any, stage), cast(Any, DEPTHS.get(depth, depth)), threshold)
    if impl != ALL:
        require_known(impl)
    if trace is not None and (workers is not None or cluster is not None):
        raise UsageError("--trace is for one process")
    limit = None if memory is None else options.parse_bytes(memory, "--memory")
    if report is not None and (workers is not None or cluster is not None):
        raise UsageError("--report measures in one process: leave out --workers and --cluster")
    require_writable(trace, report)
    impls, left_out = usable() if impl == ALL else ((impl,), {})
    for name, reason in left_out.items():
        tables.print(Text(f"Left out: {name}: {reason}."), soft_wrap=True)
    pipelines: HerePipelines | SpreadPipelines
    if workers is None and cluster is None:
        opened = device_for_images(device, threads)
        pipelines = HerePipelines([EdgePipeline(opened, chosen, name, limit) for name in impls])
        if impl == ALL:
            try:
                pipelines.pipelines.append(EdgePipeline(opened, chosen, LIBRARY, limit))
            except UnsupportedError as error:
                tables.print(Text(f"Left out: {error}."), soft_wrap=True)
    else:
        pipelines = SpreadPipelines(Where(workers, cluster), device, threads, chosen, impls, limit)
    with traced(trace):
        status = run(images or [], output, pipelines, json_file, demo, tables, Console(stderr=True), how=How(stream, graph, resume, video, report))
    raise typer.Exit(status)


@dataclass(frozen=True)
class How:
    """How images are taken: streamed (with graphs), and without those that are done; whether videos become videos; and where a report card goes."""

    stream: bool = False
    graph: bool = False
    resume: bool = False
    video: bool = False
    report: Path | None = None


class HerePipelines:
    """Images done one after the other by this process, with each of the implementations."""

    def __init__(self, pipelines: list[EdgePipeline]) -> None:
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
        as_video = (".mp4" if pipelines.parameters.depth == 8 else ".mkv") if how.video else None
        planned = batch.plan(inputs, output, pipelines.parameters.ending, as_video)
        if any(task.is_video for task in planned):
            _require_one_for_videos(pipelines)
        skipped = [task for task in planned if how.resume and not task.is_video and batch.is_done(task, pipelines.parameters)]
        tasks = [task for task in planned if task not in skipped]
        if skipped:
            console.print(f"{len(skipped)} of {len(skipped) + len(tasks)} images are done and unchanged: skipped.")
        told = Told([batch.skipped_as_json(task) for task in skipped], console, errors)
        try:
            status = _run_all(tasks, pipelines, told, how)
        except KeyboardInterrupt:
            _write_json(json_file, pipelines.device, planned, told.entries)
            raise
        card = None
        if how.report is not None and isinstance(pipelines, HerePipelines):
            try:
                card = _report(how.report, planned, pipelines.pipelines, told)
            except GridstrideError as error:
                told.complain(error)
                status = max(status, error.exit_status)
        _write_json(json_file, pipelines.device, planned, told.entries, card)
    return status


@dataclass(frozen=True)
class Told:
    """What has been said so far: entries of the JSON result, tables, and what went wrong."""

    entries: list[dict[str, Any]]
    console: Console
    errors: Console

    def complain(self, error: object) -> None:
        _complain(self.errors, error)


def _require_one_for_videos(pipelines: HerePipelines | SpreadPipelines) -> None:
    if isinstance(pipelines, SpreadPipelines):
        raise UsageError("--workers and --cluster spread images; a video is done by one process: leave them out")
    if len(pipelines.pipelines) > 1:
        raise UsageError("--impl all compares implementations on images; for a video name one")


def _run_all(tasks: list[batch.Task], pipelines: HerePipelines | SpreadPipelines, told: Told, how: How) -> int:
    """Do images, then videos; returns the exit status."""
    photographs, videos = ([task for task in tasks if task.is_video is kind] for kind in (False, True))
    status = 0
    with _progress(told.console, told.errors) as progress:
        shown = progress.add_task(escape(photographs[0].source.name) if photographs else "", total=len(photographs), visible=bool(photographs))
        if how.stream and photographs and isinstance(pipelines, HerePipelines):
            status, line = pipeline_streamed.run(photographs, pipelines.pipelines[0], how.graph, progress, shown, told.complain, told.entries)
            told.console.print(Text(line), soft_wrap=True)
            photographs = []
        waiting = deque(photographs)
        for ready in in_order(pipelines.outcomes(photographs), photographs) if photographs else ():
            progress.advance(shown)
            for outcome in ready:
                waiting.popleft()
                progress.update(shown, description=escape(waiting[0].source.name if waiting else ""))
                told.entries.extend(batch.entries(outcome))
                status = max(status, tell(outcome, pipelines.device, told.console, told.errors))
        if videos and isinstance(pipelines, HerePipelines):
            one = pipelines.pipelines[0]
            found = pipeline_videos.run(
                videos, one, progress, told.console, told.complain, told.entries, graph=how.graph, check=not how.stream, resume=how.resume
            )
            status = max(status, found)
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
        exact = [report.impl for report in reports if report.impl != LIBRARY]
        beside = f"; {LIBRARY} agrees with them within the tolerance" if len(exact) < len(reports) else ""
        console.print(f"{', '.join(exact)} agree bit for bit{beside}.")
    return VERIFICATION_FAILED if outcome.differences or not all(report.passed for report in reports) else 0


def _report(file: Path, planned: list[batch.Task], pipelines: Sequence[EdgePipeline], told: Told) -> dict[str, Any]:
    """Measure for the report card, write it, and return its numbers."""
    from gridstride.cli import pipeline_report  # templates and pictures, which other runs need not wait for

    card = pipeline_report.make_card(planned, pipelines, told.entries)
    pipeline_report.write(card, file)
    told.console.print(Text(f"Report card: {file}"), soft_wrap=True)
    return card.as_json()


def _write_json(
    file: Path | None, device: str, planned: list[batch.Task], entries: list[dict[str, Any]], report: dict[str, Any] | None = None
) -> None:
    """Write what --json asks for, in the order in which the images were named; those that were not reached are said to be."""
    if file is None:
        return
    place = {str(task.source): number for number, task in enumerate(planned)}
    reached = {entry["image"] for entry in entries}
    all_of_them = [*entries, *(batch.interrupted_as_json(task) for task in planned if str(task.source) not in reached)]
    all_of_them.sort(key=lambda entry: place[entry["image"]])
    if file == STANDARD_OUTPUT:
        options.print_json(batch.json_text(device, all_of_them, report))
    else:
        batch.write_json(file, device, all_of_them, report)


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
    if report.tile is not None:
        rows, columns = report.tile
        console.print(f"Memory is short: done in tiles of at most {columns:,} × {rows:,}, of which stages are not kept.")
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
