"""What commands that run kernels have in common (`launch`, `profile`): their options, running what these say, telling what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from gridstride import arguments
from gridstride.cases import CheckRequest, failed_case, read_cases, run_cases, select_cases
from gridstride.cli import options
from gridstride.errors import GridstrideError, UsageError
from gridstride.findings import Dim3
from gridstride.frontends.python_module import python_reference
from gridstride.machine.limits import as_dim3
from gridstride.report import files, findings_text
from gridstride.report import json as json_report
from gridstride.report.model import CaseResult, Failure, RunResult
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.device import Device
from gridstride.runtime.expressions import Number, evaluate_count
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.python_kernel import PythonKernel
from gridstride.runtime.python_module import PythonModule
from gridstride.runtime.recording import timeline
from gridstride.runtime.request import Argument, LaunchRequest, Scalar

STANDARD_OUTPUT = Path("-")
Spread = Callable[[Sequence[LaunchRequest]], Sequence[CaseResult]]
SourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="The kernels: a .cu or .ptx file, or module.py:function for a Python kernel.")]
KernelArgument = Annotated[
    str | None, typer.Argument(metavar="KERNEL", help="Which kernel to launch; not with --cases.", show_default=False)
]
GridOption = Annotated[
    str | None, typer.Option(metavar="X[,Y[,Z]]", help="Blocks; arithmetic over scalar arguments, as in 'cdiv(n,256)'.")
]
BlockOption = Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="Threads a block.")]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An argument: n=1000, a=2.0, x=f32\\[n]:uniform, y=f32\\[n]:zeros:out, img=@photo.npy. Repeat for each.",
    ),
]
SharedOption = Annotated[str, typer.Option(metavar="BYTES", help="Dynamic shared memory a block: 16384, 16KB, or arithmetic over scalar arguments.")]
CasesOption = Annotated[Path | None, typer.Option(metavar="CASES.json", help="Run the launches of a case file.")]
OnlyOption = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this case of the file. Repeat for more.")]
IncludeOption = Annotated[
    list[Path] | None, typer.Option("-I", "--include", metavar="FOLDER", help="Where to look for headers. Repeat for more.")
]
DefineOption = Annotated[list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="A macro. Repeat for more.")]
DeviceOption = Annotated[str, typer.Option(metavar="DEVICE", help="auto, sim, sim:NAME (see `gridstride devices`).")]
SeedOption = Annotated[int | None, typer.Option(metavar="N", help="Run blocks and warps in another order, the same for the same seed.")]
ThreadsOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processor cores to run blocks on.")]
BudgetOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop a launch after this many loop iterations.")]
LockstepOption = Annotated[bool, typer.Option("--lockstep", help="Never run lanes of a warp apart, as GPUs before Volta.")]
CooperativeOption = Annotated[bool, typer.Option("--cooperative", help="A cooperative launch: all blocks are resident, so that grid.sync() works.")]
ClusterOption = Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="Blocks a cluster; left out: as the kernel was compiled for.")]
CoversOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="An output of which each element is written by exactly one thread (double-write). Repeat for more.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON (- for standard output).")]
WorkersOption = Annotated[int | None, typer.Option("--workers", metavar="N", min=1, help="With --cases: spread the launches over N processes.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page: outputs, findings with their source, counters, roofline, occupancy.")]
TraceOption = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE.json", help="Write when copies and kernels run, by the device's model, for ui.perfetto.dev.")
]
SaveOption = Annotated[Path | None, typer.Option(metavar="FILE.npz", help="Write the output buffers, under CASE.ARGUMENT_POSITION.")]


@dataclass(frozen=True)
class WhatToRun:
    """A source and one launch of it (kernel, grid, block, arguments, shared), or a case file and which of its cases."""

    source: str
    kernel: str | None = None
    grid: str | None = None
    block: str | None = None
    arguments: Sequence[str] = ()
    shared: str = "0"
    cases: Path | None = None
    only: Sequence[str] = ()
    include: Sequence[Path] = ()
    define: Sequence[str] = ()
    cooperative: bool = False
    cluster: str | None = None
    covers: Sequence[str] = ()

    def run(self, target: Device, *, profile: bool = False, checks: CheckRequest | None = None, spread: Spread | None = None) -> RunResult:
        """Run it on `target`. What goes wrong in a launch is in the result; wrong options and files raise UsageError.

        spread: gives the results of a case file's launches instead of running them here.
        """
        if self.cases is not None:
            return _run_file(target, lambda: self.load(target), self._of_file(), profile, checks, spread)
        return _run_single(target, lambda: self.load(target), self, profile, checks)

    def launches(self, target: Device) -> tuple[Module | PythonModule, list[LaunchRequest]]:
        """The module and the launches, nothing run yet. Raises what loading raises, and UsageError for wrong options and files."""
        if self.cases is not None:
            requests = self._of_file()
            return self.load(target), requests
        module = self.load(target)
        return module, [_single_request(module[_named(self, module)], self)]

    def load(self, target: Device) -> Module | PythonModule:
        """The module that the source is. Raises what loading raises."""
        if python_reference(self.source) is not None:
            _refuse_for_python(self)
            return PythonModule(target, self.source)
        return target.compile(Path(self.source), include_dirs=self.include, defines=self.define)

    def _of_file(self) -> list[LaunchRequest]:
        assert self.cases is not None
        _refuse_with_cases(self)
        requests = select_cases(read_cases(self.cases), self.only)
        if not requests:
            raise UsageError(f"{self.cases} holds no cases: nothing was run")
        return requests


def _refuse_with_cases(what: WhatToRun) -> None:
    given = {
        "KERNEL": what.kernel,
        "--grid": what.grid,
        "--block": what.block,
        "--arg": what.arguments,
        "--shared": None if what.shared == "0" else what.shared,
        "--cooperative": what.cooperative,
        "--cluster": what.cluster,
        "--covers": what.covers,
    }
    extra = [name for name, value in given.items() if value]
    if extra:
        raise UsageError(f"with --cases the file says what to launch; leave out {' and '.join(extra)}")


def _refuse_for_python(what: WhatToRun) -> None:
    for option, value in (("--include", what.include), ("--define", what.define)):
        if value:
            raise UsageError(f"{option} is for CUDA C++; {what.source} is Python")


def _run_file(
    target: Device,
    load: Callable[[], Module | PythonModule],
    requests: list[LaunchRequest],
    profile: bool,
    checks: CheckRequest | None,
    spread: Spread | None,
) -> RunResult:
    try:
        module = load()
    except UsageError:
        raise
    except GridstrideError as error:
        return RunResult(target.name, tuple(failed_case(request, error) for request in requests))
    if spread is not None:
        return RunResult(target.name, tuple(spread(requests)))
    with progress(len(requests)) as step:
        results = run_cases(requests, module, lambda request: step(request.name), profile=profile, checks=checks)
    return RunResult(target.name, tuple(results))


def _run_single(
    target: Device, load: Callable[[], Module | PythonModule], what: WhatToRun, profile: bool, checks: CheckRequest | None
) -> RunResult:
    name = _named(what, None)
    try:
        module = load()
        kernel = module[name := _named(what, module)]
        if what.covers:
            kernel = _covering(module, kernel, name, what.covers)
    except UsageError:
        raise
    except GridstrideError as error:
        return RunResult(target.name, (CaseResult(name, name, failure=Failure(error.code, str(error))),))
    request = _single_request(kernel, what)
    from_here = module if isinstance(kernel, PythonKernel) else kernel.module
    return RunResult(target.name, tuple(run_cases([request], from_here, profile=profile, checks=checks)))


def _covering(module: Module | PythonModule, kernel: Kernel | PythonKernel, name: str, covers: Sequence[str]) -> Kernel | PythonKernel:
    """The kernel under its contract, if it has one, and the promise that each element of these outputs is written by exactly one thread."""
    names = tuple(dict.fromkeys(word.strip() for text in covers for word in text.split(",")))
    known = kernel.contract or Contract()
    rest = tuple(other for other in known.writes_once if other not in names)
    contract = replace(known, covers=tuple(dict.fromkeys((*known.covers, *names))), writes_once=rest)
    kernel.with_contract(contract)  # which says in a sentence what the kernel has not
    if isinstance(kernel, PythonKernel):
        return module.declare({name: contract})[name]
    return kernel.module.declare({kernel.entry: contract})[kernel.entry]


def _named(what: WhatToRun, module: Module | PythonModule | None) -> str:
    """The kernel of a single launch, after a look at whether the options make one. module: None where it is not loaded yet."""
    if what.only:
        raise UsageError("--only picks cases of a case file; give it with --cases")
    reference = python_reference(what.source)
    named = reference[1] if reference is not None else None
    if named is not None and what.kernel not in (None, named):
        raise UsageError(f"{what.source} names its kernel already; leave out {what.kernel}")
    name = what.kernel or named or (module.only if isinstance(module, PythonModule) else None)
    if name is None and (module is not None or reference is None):
        raise UsageError("say which kernel of the source to launch, or give --cases FILE")
    for option, value in (("--grid", what.grid), ("--block", what.block)):
        if value is None:
            raise UsageError(f"{option} is missing; a launch needs --grid and --block")
    return name or what.source


def _single_request(kernel: Kernel | PythonKernel, what: WhatToRun) -> LaunchRequest:
    assert what.grid is not None and what.block is not None
    if isinstance(kernel, PythonKernel):
        name = what.kernel or (python_reference(what.source) or ("", None))[1] or kernel.name
        parsed = arguments.parse_arguments(what.arguments, name, [(parameter,) for parameter in kernel.function.parameters])
    else:
        name = kernel.name
        parsed = arguments.parse_arguments(what.arguments, name, [(p.name, p.ptx_name) for p in kernel.parameters])
        _require_types(kernel, parsed.arguments)
    return LaunchRequest(
        name,
        name,
        _dimensions(what.grid, parsed, "--grid"),
        _dimensions(what.block, parsed, "--block"),
        _bytes(what.shared, parsed.scalars),
        parsed.arguments,
        what.cooperative,
        None if what.cluster is None else _dimensions(what.cluster, parsed, "--cluster"),
    )


def _bytes(shared: str, scalars: Mapping[str, Number]) -> int:
    """--shared: a size as other commands take it (16384, 16KB), or an expression over the scalar arguments."""
    try:
        return options.parse_bytes(shared, "--shared")
    except UsageError:
        return evaluate_count(shared, scalars, "--shared")


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


def complain(run: RunResult, errors: Console, source: Path, *, named: bool) -> None:
    """What was found and what went wrong, on standard error; `named` says which case each line is about."""
    sources = SourceLines(source.parent, ptx_text(source))
    for case in run.cases:
        about = f"{case.name}: " if named else ""
        for found in case.findings:
            errors.print(Text(about).append_text(findings_text.finding(found, sources)))
        told = case.failure is None or any(found.message in case.failure.message for found in case.findings)
        if case.failure is not None and not told:
            errors.print(Text(f"gridstride: {about}{case.failure.message}"))


def ptx_text(source: Path) -> dict[str, str] | None:
    """The text of a source that is PTX, for findings that have no other lines."""
    if source.suffix != ".ptx":
        return None
    try:
        return {findings_text.PTX: source.read_text(encoding="utf-8", errors="replace")}
    except OSError:
        return {findings_text.PTX: ""}


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
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


def require_writable(*paths: Path | None) -> None:
    """Raise UsageError before a long run for a file that cannot be written after it."""
    for path in paths:
        if path is not None and path != STANDARD_OUTPUT:
            files.require_writable(path)


@contextmanager
def traced(file: Path | None) -> Iterator[None]:
    """Write the timeline of what runs inside to a file, where one is named."""
    if file is None:
        yield
        return
    with timeline() as recorded:
        yield
    recorded.trace(file)


def write_page(run: RunResult, source: str, html: Path | None) -> None:
    """Write what --html asks for."""
    if html is None:
        return
    from gridstride.report.html import run as run_page  # templates, which other runs need not wait for

    kernels = list(dict.fromkeys(case.kernel for case in run.cases))
    title = f"{kernels[0] if len(kernels) == 1 else f'{len(run.cases)} launches'} of {Path(source).name}"
    page = run_page.page(run, SourceLines(Path(source).parent, ptx_text(Path(source))), title).encode()
    files.write(html, lambda file: file.write(page))


def write_results(run: RunResult, json: Path | None, save: Path | None) -> None:
    """Write what --json and --save ask for."""
    if json == STANDARD_OUTPUT:
        options.print_json(json_report.json_text(run))
    elif json is not None:
        json_report.write_json(run, json)
    if save is not None:
        json_report.write_arrays(run, save)
