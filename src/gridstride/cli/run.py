"""`gridstride run`: a numba.cuda script as it is, on the simulator or a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from gridstride.cli import running
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
from gridstride.cli.scripts import ScriptRun, is_script, run_script
from gridstride.errors import GridstrideError, UnsupportedError, UsageError
from gridstride.report import profile_text


def command(
    program: Annotated[str, typer.Argument(metavar="SCRIPT.py", help="The script.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[-- ARGS…]", help="What the script is given.", show_default=False)] = None,
    device: running.DeviceOption = "auto",
    seed: running.SeedOption = None,
    threads: running.ThreadsOption = None,
    budget: running.BudgetOption = None,
    lockstep: running.LockstepOption = False,
    profile: Annotated[bool, typer.Option("--profile", help="Count what each kernel does, and show it at the end.")] = False,
    lines: Annotated[int, typer.Option(metavar="N", min=0, help="With --profile: how many of the costliest lines to show.")] = profile_text.LINES_SHOWN,
    checks: ChecksOption = "none",
    strict: StrictOption = False,
    schedules: SchedulesOption = 0,
    suppress: SuppressOption = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    explain: ExplainOption = None,
    json: running.JsonOption = None,
    trace: running.TraceOption = None,
) -> None:
    """Run a Python script whose numba.cuda code, unchanged, launches on the simulator (or on a GPU, with numba's own driver).

    What the script prints is its own; what Gridstride says goes to standard error, also when the script fails.

    Exit status: the script's own; where that is 0: 1 findings or a kernel that was stopped. 2 bad input, 3 something unsupported, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        looking = CheckOptions.of(checks, strict, schedules, suppress, baseline, write_baseline)
        asked = ScriptRun(Path(program), arguments or (), device, seed, threads, budget, lockstep, profile, lines, json, trace)
        status = run_script(require_script(program, asked), looking, errors)
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    raise typer.Exit(status)


def require_script(program: str, asked: ScriptRun) -> ScriptRun:
    """What was asked, if it is a script. Raises UnsupportedError for other programs, UsageError for what is none."""
    if is_script(program):
        return asked
    if Path(program).suffix in (".cu", ".cpp", ".cc", ".cxx", ".c"):
        raise UnsupportedError(
            f"{program} is a CUDA C++ program, and only Python scripts can be run whole; its kernels run with `gridstride launch {program} KERNEL …`"
        )
    if ".py:" in program:
        raise UsageError(f"{program} names one kernel; `gridstride launch {program} …` launches it, `gridstride run {program.partition(':')[0]}` runs the script")
    raise UsageError(f"{program} is no Python script: its name must end in .py")


MoreArguments = Annotated[list[str] | None, typer.Argument(metavar="[-- ARGS…]", help="What a script is given.", show_default=False)]
_SHARED = frozenset(
    ("device", "seed", "threads", "budget", "lockstep", "profile", "lines", "checks", "strict", "schedules", "suppress", "baseline", "write_baseline")
    + ("explain", "json", "trace")
)
"""Options that `check` and `profile` have for scripts too."""
_OF_LAUNCHES = {
    "arg": "--arg", "shared": "--shared", "cooperative": "--cooperative", "cluster": "--cluster", "only": "--only", "include": "--include",
    "define": "--define", "save": "--save", "html": "--html", "workers": "--workers",
}  # fmt: skip


def run_instead(given: dict[str, Any], more: Sequence[str] | None) -> bool:
    """Run the script that `check` or `profile` were given in place of a kernel, if they were: a .py file without a grid, block or case file.

    given: their parameters by name; more: what stood behind SOURCE and KERNEL.
    """
    source, kernel = given["source"], given["kernel"]
    if not is_script(source) or any(given.get(name) is not None for name in ("grid", "block", "cases")):
        if more:
            _refuse(f"unexpected argument `{more[0]}`: a launch takes SOURCE and KERNEL")
        return False
    for name, option in _OF_LAUNCHES.items():
        if given.get(name) not in (None, False, "0"):
            _refuse(f"{option} is for launches of one kernel (with --grid and --block); {source} is run as a script")
    arguments = [*([kernel] if kernel is not None else []), *(more or ())]
    command(source, arguments, **{name: value for name, value in given.items() if name in _SHARED})
    return True


def _refuse(why: str) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"gridstride: {why}"))
    raise typer.Exit(UsageError.exit_status)
