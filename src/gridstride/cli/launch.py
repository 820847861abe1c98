"""`gridstride launch`: one launch of one kernel, or all launches of a case file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from gridstride import arguments
from gridstride.cases import failed_case, read_cases, run_cases, select_cases
from gridstride.cli import options
from gridstride.errors import GridstrideError, UsageError
from gridstride.findings import Dim3
from gridstride.machine.limits import as_dim3
from gridstride.report import json as json_report
from gridstride.report import text as text_report
from gridstride.report.model import CaseResult, Failure, RunResult
from gridstride.report.source_lines import SourceLines
from gridstride.runtime import device as open_device
from gridstride.runtime.device import Device
from gridstride.runtime.expressions import evaluate_count
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.request import Argument, LaunchRequest, Scalar

STANDARD_OUTPUT = Path("-")
SourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="The kernels: a .cu or .ptx file.")]
KernelArgument = Annotated[
    str | None, typer.Argument(metavar="KERNEL", help="Which kernel to launch; not with --cases.", show_default=False)
]


def command(
    source: SourceArgument,
    kernel: KernelArgument = None,
    grid: Annotated[
        str | None, typer.Option(metavar="X[,Y[,Z]]", help="Blocks; arithmetic over scalar arguments, as in 'cdiv(n,256)'.")
    ] = None,
    block: Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="Threads a block.")] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An argument: n=1000, a=2.0, x=f32\\[n]:uniform, y=f32\\[n]:zeros:out, img=@photo.npy. Repeat for each.",
        ),
    ] = None,
    shared: Annotated[str, typer.Option(metavar="BYTES", help="Dynamic shared memory a block.")] = "0",
    cases: Annotated[Path | None, typer.Option(metavar="CASES.json", help="Run the launches of a case file.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this case of the file. Repeat for more.")] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-I", "--include", metavar="FOLDER", help="Where to look for headers. Repeat for more.")
    ] = None,
    define: Annotated[list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="A macro. Repeat for more.")] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="auto, sim, sim:NAME (see `gridstride devices`).")] = "auto",
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Run blocks and warps in another order, the same for the same seed.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processor cores to run blocks on.")] = None,
    budget: Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop a launch after this many loop iterations.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Count what the kernel does; `gridstride profile` shows it.")] = False,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON (- for standard output).")] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE.npz", help="Write the output buffers, under CASE.ARGUMENT_POSITION.")] = None,
) -> None:
    """Run one kernel once, or every launch of a case file, and show what came out.

    Exit status: 0 clean, 1 the kernel was stopped by a fault, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        for path in (json, save):
            if path is not None and path != STANDARD_OUTPUT:
                json_report.require_writable(path)
        target = open_device(device, seed=seed, threads=threads, budget=budget)

        def load() -> Module:
            return target.compile(Path(source), include_dirs=include or (), defines=define or ())

        if cases is not None:
            _refuse_with_cases(kernel, grid, block, arg, shared)
            run = _run_file(target, load, cases, only or [], profile)
        else:
            run = _run_single(target, load, kernel, grid, block, arg or [], shared, only, profile)
        if json == STANDARD_OUTPUT:
            print(json_report.json_text(run))
        elif json is not None:
            json_report.write_json(run, json)
        if save is not None:
            json_report.write_arrays(run, save)
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    if json != STANDARD_OUTPUT:
        _show(run, detailed=cases is None)
    _complain(run, errors, SourceLines(Path(source).parent), named=cases is not None)
    raise typer.Exit(run.exit_status)


def _refuse_with_cases(kernel: str | None, grid: str | None, block: str | None, arg: Sequence[str] | None, shared: str) -> None:
    given = {"KERNEL": kernel, "--grid": grid, "--block": block, "--arg": arg, "--shared": None if shared == "0" else shared}
    extra = [name for name, value in given.items() if value]
    if extra:
        raise UsageError(f"with --cases the file says what to launch; leave out {' and '.join(extra)}")


def _run_file(target: Device, load: Callable[[], Module], path: Path, only: Sequence[str], profile: bool) -> RunResult:
    requests = select_cases(read_cases(path), only)
    if not requests:
        raise UsageError(f"{path} holds no cases: nothing was run")
    try:
        module = load()
    except UsageError:
        raise
    except GridstrideError as error:
        return RunResult(target.name, tuple(failed_case(request, error) for request in requests))
    with _progress(len(requests)) as step:
        return RunResult(target.name, tuple(run_cases(requests, module, lambda request: step(request.name), profile=profile)))


def _run_single(
    target: Device,
    load: Callable[[], Module],
    name: str | None,
    grid: str | None,
    block: str | None,
    args: Sequence[str],
    shared: str,
    only: Sequence[str] | None,
    profile: bool,
) -> RunResult:
    if only:
        raise UsageError("--only picks cases of a case file; give it with --cases")
    if name is None:
        raise UsageError("say which kernel of the source to launch, or give --cases FILE")
    for option, value in (("--grid", grid), ("--block", block)):
        if value is None:
            raise UsageError(f"{option} is missing; a launch needs --grid and --block")
    assert grid is not None and block is not None
    try:
        kernel = load()[name]
    except UsageError:
        raise
    except GridstrideError as error:
        return RunResult(target.name, (CaseResult(name, name, failure=Failure(error.code, str(error))),))
    parsed = arguments.parse_arguments(args, kernel.name, [(p.name, p.ptx_name) for p in kernel.parameters])
    _require_types(kernel, parsed.arguments)
    request = LaunchRequest(
        kernel.name,
        kernel.name,
        _dimensions(grid, parsed, "--grid"),
        _dimensions(block, parsed, "--block"),
        evaluate_count(shared, parsed.scalars, "--shared"),
        parsed.arguments,
    )
    return RunResult(target.name, tuple(run_cases([request], kernel.module, profile=profile)))


def _dimensions(text: str, parsed: arguments.ParsedArguments, option: str) -> Dim3:
    return as_dim3(arguments.parse_dimensions(text, parsed.scalars, option), option)


def _require_types(kernel: Kernel, given: Sequence[Argument]) -> None:
    """Say in the command line's words what the Python interface would say in its own: PTX does not tell numbers from addresses."""
    for parameter, argument in zip(kernel.parameters, given, strict=True):
        if (
            isinstance(argument, Scalar)
            and isinstance(argument.value, int)
            and parameter.wide_integer
            and parameter.is_pointer is not False
        ):
            name, value = parameter.name, argument.value
            if parameter.is_pointer:
                raise UsageError(
                    f"{kernel.name}: {name} is a pointer; give it a buffer, as in {name}=f32[1000], or an address, as in {name}=ptr:{value}"
                )
            raise UsageError(
                f"{kernel.name}: PTX does not say what {name} is; write {name}=u64:{value} for a number, {name}=ptr:{value} for an address"
            )


def _show(run: RunResult, *, detailed: bool) -> None:
    if not detailed or any(case.failure is None for case in run.cases):
        options.console().print(text_report.summary(run, detailed=detailed), highlight=False)


def _complain(run: RunResult, errors: Console, sources: SourceLines, *, named: bool) -> None:
    """What went wrong, on standard error; `named` says which case each line is about."""
    for case in run.cases:
        about = f"{case.name}: " if named else ""
        for found in case.findings:
            errors.print(Text(about).append_text(text_report.finding(found, sources)))
        if case.failure is not None and not case.findings:
            errors.print(Text(f"gridstride: {about}{case.failure.message}"))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error where that is a terminal and there is more than one launch; calls to the result advance it."""
    console = Console(stderr=True)
    if total < 2 or not console.is_terminal:
        yield lambda name: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        started = -1

        def step(name: str) -> None:
            nonlocal started
            started += 1
            bar.update(task, completed=started, description=name)

        yield step
