"""`gridstride compare`: the same launches on the simulator and on a GPU, side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from gridstride.cases import run_cases
from gridstride.cli import options, running
from gridstride.errors import GridstrideError, UnsupportedError
from gridstride.machine.devices import DEFAULT_DEVICE, DEVICES
from gridstride.observers.metrics.nsight import COUNTERS, nsight_marks
from gridstride.report import comparison_text
from gridstride.report.comparison import CaseComparison, Comparison, as_json, compare_outputs, pair_counters
from gridstride.report.model import CaseResult
from gridstride.runtime import gpu_session
from gridstride.runtime.gpu_driver import Gpu, find_gpu
from gridstride.runtime.gpu_jobs import Job, JobResult, outputs_of, prepare
from gridstride.runtime.module import Module
from gridstride.runtime.opening import device as open_device
from gridstride.runtime.python_module import PythonModule
from gridstride.runtime.request import LaunchRequest

CacheControl = Literal["none", "all"]


def command(
    source: running.SourceArgument,
    kernel: running.KernelArgument = None,
    grid: running.GridOption = None,
    block: running.BlockOption = None,
    arg: running.ArgOption = None,
    shared: running.SharedOption = "0",
    cases: running.CasesOption = None,
    only: running.OnlyOption = None,
    include: running.IncludeOption = None,
    define: running.DefineOption = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="What to simulate: auto (the GPU's entry in the table), sim:NAME.")] = "auto",
    gpu: Annotated[int, typer.Option(metavar="N", min=0, help="Which GPU of this machine.")] = 0,
    tolerance: Annotated[float, typer.Option(metavar="REL", min=0, help="Relative difference up to which outputs count as the same.")] = 0.0,
    counters: Annotated[bool, typer.Option(help="Read the GPU's counters with ncu, if it is on PATH.")] = True,
    cache_control: Annotated[CacheControl, typer.Option(help="What ncu does before each replay of a launch: empty all caches, as the simulator's do, or nothing.")] = "all",
    threads: running.ThreadsOption = None,
    json: running.JsonOption = None,
) -> None:
    """Run the same launches on the simulator and on a GPU: are the outputs the same bits, and what do both sides count?

    Needs a GPU and NVIDIA's driver; the GPU's counters need Nsight Compute (`ncu`) on PATH and the right to read them.

    Exit status: 0 the same, 1 an output, or a counter marked exact, differs or a launch failed, 2 bad input, 3 no GPU or something
    unsupported, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        running.require_writable(json)
        what = running.WhatToRun(source, kernel, grid, block, arg or (), shared, cases, only or (), include or (), define or ())
        real = _require_gpu(gpu)
        name, notes = _simulated(device, real)
        target = open_device(name, threads=threads)
        module, requests = what.launches(target)
        found, missing = _compare(module, requests, real, counters, cache_control)
        compared = Comparison(target.name, real.name, real.arch, real.cuda, tuple(found), tolerance, missing, cache_control, tuple(notes))
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    if json is not None:
        options.write_json(str(json), as_json(compared))
    if json != running.STANDARD_OUTPUT:
        options.console().print(comparison_text.comparison(compared), highlight=False)
    raise typer.Exit(int(any(case.verdict(tolerance) != "same" for case in compared.cases)))


def _require_gpu(index: int) -> Gpu:
    try:
        return find_gpu(index)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; `gridstride profile` shows the simulator's side alone") from error.__cause__


def _simulated(option: str, gpu: Gpu) -> tuple[str, list[str]]:
    """The simulator's name for `--device`, and what is to be said about the choice."""
    if option not in ("auto", "sim"):
        return option, []
    name = "".join(gpu.name.lower().split())
    known = [spec.key for spec in DEVICES if spec.key in name]
    if known:
        return f"sim:{max(known, key=len)}", []
    return f"sim:{DEFAULT_DEVICE}", [
        f"{gpu.name} is not in the device table: the simulator's occupancy, waves, DRAM, L2 and time are those of {DEFAULT_DEVICE}"
    ]


def _compare(
    module: Module | PythonModule, requests: Sequence[LaunchRequest], gpu: Gpu, counters: bool, cache_control: str
) -> tuple[list[CaseComparison], str | None]:
    """Both sides of each launch, and why the GPU's counters are missing, if they are."""
    with running.progress(len(requests)) as step:
        simulated = run_cases(requests, module, lambda request: step(request.name), profile=True)
    if simulated[-1].failure is not None and simulated[-1].failure.code == "interrupted":
        raise KeyboardInterrupt
    with tempfile.TemporaryDirectory(prefix="gridstride-compare-") as temporary:
        folder = Path(temporary)
        jobs: list[Job] = []
        refused: dict[str, str] = {}
        for request, result in zip(requests, simulated, strict=True):
            if result.failure is None:
                try:
                    jobs.append(prepare(folder, request, module.kernel_for(request), gpu.arch))
                except GridstrideError as error:
                    refused[request.name] = str(error)
        real = gpu_session.launch_all(folder, jobs, gpu)
        if counters:
            readings = gpu_session.read_counters(
                folder, [job for job in jobs if real[job.name].error is None], gpu, [counter.nsight for counter in COUNTERS], cache_control
            )
        else:
            readings = gpu_session.Readings(missing="--no-counters was given")
        by_name = {**{name: JobResult(name, why) for name, why in refused.items()}, **real}
        found = [
            _both(request, result, by_name.get(request.name), readings.counters.get(request.name, {}), folder)
            for request, result in zip(requests, simulated, strict=True)
        ]
    return found, readings.missing


def _both(request: LaunchRequest, simulated: CaseResult, real: JobResult | None, read: Mapping[str, float], folder: Path) -> CaseComparison:
    if simulated.failure is not None or real is None:
        return CaseComparison(request.name, request.kernel, simulated.failure.message if simulated.failure else "it was not run")
    if real.error is not None:
        return CaseComparison(request.name, request.kernel, None, real.error, estimate_us=simulated.estimate_us)
    theirs = outputs_of(folder, real, request)
    return CaseComparison(
        request.name,
        request.kernel,
        counters=pair_counters(simulated.counters, nsight_marks(simulated.metrics) if simulated.metrics else {}, read),
        outputs=tuple(
            compare_outputs(position, simulated.output_names[position], values, theirs[position]) for position, values in simulated.outputs.items()
        ),
        estimate_us=simulated.estimate_us,
        gpu_us=real.microseconds,
    )
