"""`gridstride profile`: launches with all counters, and what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from gridstride.cli import options, running
from gridstride.cli.run import MoreArguments, run_instead
from gridstride.errors import GridstrideError, UsageError
from gridstride.observers.metrics.advice import RULES, find_rule
from gridstride.report import profile_text
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.opening import device as open_device


def _explain(word: str | None) -> None:
    if word is None:
        return
    rule = find_rule(word)
    if rule is None:
        raise UsageError(f"there is no advice {word!r}; there are {', '.join(f'{r.code} {r.name}' for r in RULES)}")
    print(type(rule).explanation())
    raise typer.Exit


def command(
    source: running.SourceArgument,
    kernel: running.KernelArgument = None,
    grid: running.GridOption = None,
    block: running.BlockOption = None,
    arg: running.ArgOption = None,
    shared: running.SharedOption = "0",
    cooperative: running.CooperativeOption = False,
    cluster: running.ClusterOption = None,
    cases: running.CasesOption = None,
    only: running.OnlyOption = None,
    include: running.IncludeOption = None,
    define: running.DefineOption = None,
    device: running.DeviceOption = "auto",
    seed: running.SeedOption = None,
    threads: running.ThreadsOption = None,
    budget: running.BudgetOption = None,
    lines: Annotated[int, typer.Option(metavar="N", min=0, help="How many of the costliest lines to show.")] = profile_text.LINES_SHOWN,
    explain: Annotated[
        str | None,
        typer.Option(metavar="CODE", callback=_explain, is_eager=True, help="Explain a piece of advice, such as GA02 or bank-conflict, and exit."),
    ] = None,
    json: running.JsonOption = None,
    save: running.SaveOption = None,
    trace: running.TraceOption = None,
    html: running.HtmlOption = None,
    more: MoreArguments = None,
) -> None:
    """Run one kernel once, every launch of a case file, or a numba.cuda script, and show what is slow: counters, the costliest lines, roofline,
    occupancy, advice.

    Exit status: 0 clean, 1 the kernel was stopped by a fault, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    if run_instead({**locals(), "profile": True}, more):
        return
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        running.require_writable(json, save, trace, html)
        target = open_device(device, seed=seed, threads=threads, budget=budget)
        what = running.WhatToRun(source, kernel, grid, block, arg or (), shared, cases, only or (), include or (), define or (), cooperative, cluster)
        with running.traced(trace):
            run = what.run(target, profile=True)
        running.write_results(run, json, save)
        running.write_page(run, source, html)
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    if json != running.STANDARD_OUTPUT:
        console = options.console()
        sources = SourceLines(Path(source).parent)
        for case in run.cases:
            if cases is not None:
                console.rule(Text(case.name))
            if case.metrics is not None:
                console.print(profile_text.profile(case.metrics, sources, lines=lines), highlight=False)
    running.complain(run, errors, Path(source), named=cases is not None)
    raise typer.Exit(run.exit_status)
