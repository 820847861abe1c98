"""`gridstride launch`: one launch of one kernel, or all launches of a case file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from gridstride.cli import options, running
from gridstride.cli.checking import (
    BaselineOption,
    CheckOptions,
    ChecksOption,
    ExplainOption,
    SchedulesOption,
    StrictOption,
    SuppressOption,
    WriteBaselineOption,
)
from gridstride.errors import GridstrideError, UsageError
from gridstride.observers.checks import double_write
from gridstride.report import findings_text
from gridstride.report import text as text_report
from gridstride.report.model import RunResult
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.opening import device as open_device


def command(
    source: running.SourceArgument,
    kernel: running.KernelArgument = None,
    grid: running.GridOption = None,
    block: running.BlockOption = None,
    arg: running.ArgOption = None,
    shared: running.SharedOption = "0",
    cooperative: running.CooperativeOption = False,
    cluster: running.ClusterOption = None,
    covers: running.CoversOption = None,
    cases: running.CasesOption = None,
    only: running.OnlyOption = None,
    include: running.IncludeOption = None,
    define: running.DefineOption = None,
    device: running.DeviceOption = "auto",
    seed: running.SeedOption = None,
    threads: running.ThreadsOption = None,
    budget: running.BudgetOption = None,
    lockstep: running.LockstepOption = False,
    profile: Annotated[bool, typer.Option("--profile", help="Count what the kernel does; `gridstride profile` shows it.")] = False,
    checks: ChecksOption = "none",
    strict: StrictOption = False,
    schedules: SchedulesOption = 0,
    suppress: SuppressOption = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    explain: ExplainOption = None,
    json: running.JsonOption = None,
    save: running.SaveOption = None,
    trace: running.TraceOption = None,
    html: running.HtmlOption = None,
    workers: running.WorkersOption = None,
) -> None:
    """Run one kernel once, or every launch of a case file, and show what came out.

    Exit status: 0 clean, 1 the kernel was stopped by a fault or has an error, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        running.require_writable(json, save, trace, html)
        looking = CheckOptions.of(checks, strict, schedules, suppress, baseline, write_baseline)
        target = open_device(device, seed=seed, threads=threads, budget=budget, lockstep=lockstep)
        what = running.WhatToRun(
            source, kernel, grid, block, arg or (), shared, cases, only or (), include or (), define or (), cooperative, cluster, covers or ()
        )
        if covers and (looking.request is None or double_write.CHECK.kind not in looking.request.kinds):
            raise UsageError(f"--covers {covers[0]} is what the check double-write looks at: add --checks double-write, or use gridstride check")
        spread = None
        if workers is not None:
            if cases is None or trace is not None:
                raise UsageError("--workers spreads the launches of a case file: give --cases" if cases is None else "--trace is for one process: leave out --workers")
            from gridstride.cli.launch_spread import Setting, run_spread  # Dask, which other runs need not wait for

            options_of_each = {"seed": seed, "threads": threads or 1, "budget": budget, "lockstep": lockstep}
            setting = Setting(what, device, options_of_each, profile, looking.request)
            spread = partial(run_spread, setting, workers=workers)
        with running.traced(trace):
            run = what.run(target, profile=profile, checks=looking.request, spread=spread)
        run = looking.settle(run, SourceLines(Path(source).parent).line, lambda said: errors.print(Text(said)))
        running.write_results(run, json, save)
        running.write_page(run, source, html)
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    if json != running.STANDARD_OUTPUT:
        _show(run, detailed=cases is None)
        if cases is None and any("[" in text or "=@" in text for text in arg or ()) and not any(case.outputs or case.failure for case in run.cases):
            options.console().print(Text("No buffer is an output: :out behind one shows it, as in --arg 'y=f32[n]:zeros:out'."))
    running.complain(run, errors, Path(source), named=cases is not None)
    if looking.request is not None and json != running.STANDARD_OUTPUT:
        options.console().print(findings_text.verdict(run.cases), highlight=False)
    raise typer.Exit(run.exit_status)


def _show(run: RunResult, *, detailed: bool) -> None:
    if not detailed or any(case.failure is None for case in run.cases):
        options.console().print(text_report.summary(run, detailed=detailed), highlight=False)
