"""A Python script run as `python script.py` would run it, with numba.cuda on the chosen device; and what is said about it at the end."""

from __future__ import annotations

import io
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gridstride import numba_host
from gridstride.cli import options, running
from gridstride.cli.checking import CheckOptions
from gridstride.errors import GridstrideError, KernelFault, UsageError
from gridstride.observers.metrics.nsight import nsight_counters
from gridstride.report import findings_text, profile_text
from gridstride.report.model import CaseResult, Failure, Receipt, RunResult
from gridstride.report.source_lines import SourceLines
from gridstride.runtime import checking, profiling
from gridstride.runtime.device import Device
from gridstride.runtime.opening import DEVICE_VARIABLE
from gridstride.runtime.opening import device as open_device
from gridstride.runtime.simulator import Simulator

if TYPE_CHECKING:
    from gridstride.runtime.checking import Findings
    from gridstride.runtime.profiling import Profile

INTERRUPTED = 130
_ON_A_GPU = "numba.cuda, which runs on the GPU with its own driver, where Gridstride sees nothing of it"


@dataclass(frozen=True)
class ScriptRun:
    """What `run`, `check` and `profile` were told about a script."""

    path: Path
    arguments: Sequence[str]
    device: str
    seed: int | None = None
    threads: int | None = None
    budget: int | None = None
    lockstep: bool = False
    profile: bool = False
    lines: int = profile_text.LINES_SHOWN
    json: Path | None = None
    trace: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a script ended: the status that Python would give the process, and the exception that nobody caught."""

    status: int
    failure: Failure | None = None


def _numba_is_here() -> bool:
    """Whether numba-cuda is installed; scripts that only use Gridstride do without."""
    return find_spec("numba_cuda") is not None


def is_script(source: str) -> bool:
    """Whether a source is a Python script, as against `module.py:function`, which names a kernel."""
    return source.endswith((".py", ".pyw"))


def run_script(asked: ScriptRun, looking: CheckOptions, errors: Console) -> int:
    """Run a script, tell on standard error what was found, write what --json and --trace ask for, and give the exit status: the script's
    own, or where that is 0, 1 for findings and faults. Raises GridstrideError for what keeps the script from starting."""
    if asked.json == running.STANDARD_OUTPUT:
        raise UsageError("what the script prints goes to standard output; give --json the name of a file")
    running.require_writable(asked.json, asked.trace)
    code = _compiled(asked.path)
    device = open_device(asked.device, seed=asked.seed, threads=asked.threads, budget=asked.budget, lockstep=asked.lockstep)
    if _numba_is_here() or "numba" in sys.modules:
        numba_host.use(device)
    on_gpu = not isinstance(device, Simulator)
    with ExitStack() as session:
        session.enter_context(running.traced(asked.trace))
        request = looking.request
        found = session.enter_context(checking.session(request.kinds, schedules=request.schedules, rules=request.rules)) if request else None
        counted = session.enter_context(profiling.profiling()) if asked.profile else None
        if on_gpu:
            checking.skip(_ON_A_GPU)
            profiling.skip(_ON_A_GPU)
        with _as_main(asked, device.name) as main:
            ended = _execute(code, asked.path, main)
        ended = _waited_for(ended, numba_host.current(), errors)
    run = looking.settle(_result(asked, device, ended, found, counted), SourceLines(asked.path.parent).line, lambda said: errors.print(Text(said)))
    running.write_results(run, asked.json, None)
    _tell(run, asked, looking, counted, errors)
    return ended.status or run.exit_status


# ---- running ---------------------------------------------------------------------------------------------------------


def _compiled(path: Path) -> object:
    """The script's code. Raises UsageError where there is no such file, SyntaxError as Python does."""
    try:
        with io.open_code(str(path.resolve(strict=True))) as file:
            source = file.read()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return error


@contextmanager
def _as_main(asked: ScriptRun, device: str) -> Iterator[ModuleType]:
    """A module `__main__` for the script, with its arguments and its folder first on the search path; `gs.device()` means `device` in it."""
    import os

    main = ModuleType("__main__")
    main.__file__ = str(asked.path.resolve())
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    kept = sys.modules["__main__"], sys.argv, sys.path[:], os.environ.get(DEVICE_VARIABLE)
    sys.modules["__main__"] = main
    sys.argv = [str(asked.path), *asked.arguments]
    sys.path.insert(0, str(asked.path.resolve().parent))
    os.environ[DEVICE_VARIABLE] = device
    try:
        yield main
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = kept[0], kept[1], kept[2]
        os.environ.pop(DEVICE_VARIABLE)
        if kept[3] is not None:
            os.environ[DEVICE_VARIABLE] = kept[3]


def _execute(code: object, path: Path, main: ModuleType) -> Ended:
    """Run the script to its end, threads of its own too; what it raises is shown as Python shows it."""
    try:
        if isinstance(code, Exception):
            raise code
        exec(code, main.__dict__)  # type: ignore[arg-type]  # noqa: S102 - it is what was asked for
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and thread is not threading.main_thread() and not thread.daemon:
                thread.join()
        return Ended(0)
    except SystemExit as ended:
        return _exited(ended)
    except KeyboardInterrupt as stopped:
        _show(stopped, path)
        return Ended(INTERRUPTED, Failure("interrupted", "interrupted"))
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is the script's
        _show(error, path)
        code_of = getattr(error, "fault_code", None) or (error.code if isinstance(error, GridstrideError) else "script")
        status = error.exit_status if isinstance(error, GridstrideError) else 1
        return Ended(status, Failure(code_of, "".join(traceback.format_exception_only(error)).strip()))
    finally:
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()


def _exited(ended: SystemExit) -> Ended:
    """`sys.exit(…)`: a number is the status, nothing is 0, anything else is printed and means 1."""
    if ended.code is None:
        return Ended(0)
    if isinstance(ended.code, int):
        return Ended(ended.code)
    print(ended.code, file=sys.stderr)
    return Ended(1, Failure("script", str(ended.code)))


def _show(error: BaseException, path: Path) -> None:
    """The traceback that Python would show: from the script's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    error.__traceback__ = _without_ours(trace)
    sys.excepthook(type(error), error, error.__traceback__)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without what stands at its end in Gridstride: the script's own and its libraries' calls say where it went wrong."""
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    ours = [str(frame.tb_frame.f_globals.get("__name__", "")).startswith(("gridstride.", "contextlib")) for frame in frames]
    while ours and ours[-1]:
        ours.pop()
    rebuilt: TracebackType | None = None
    for frame in reversed(frames[: len(ours)]):
        rebuilt = TracebackType(rebuilt, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rebuilt


def _waited_for(ended: Ended, device: Device | None, errors: Console) -> Ended:
    """A kernel that was stopped and that the script did not wait for is told, and the script has failed."""
    if not isinstance(device, Simulator) or device.unobserved is None:
        return ended
    told = device.unobserved
    try:
        device.synchronize()
    except KernelFault as fault:
        failure = Failure(fault.code, str(fault))
    except GridstrideError as error:
        failure = Failure(error.code, str(error))
    else:
        return ended
    errors.print(Text(f"gridstride: {told}"))
    return Ended(ended.status or 1, ended.failure or failure)


# ---- telling ---------------------------------------------------------------------------------------------------------


def _result(asked: ScriptRun, device: Device, ended: Ended, found: Findings | None, counted: Profile | None) -> RunResult:
    """The script as one case with everything that was found, and each kernel that was counted as one more."""
    simulation = numba_host.serving()
    receipt = found.receipt if found is not None else Receipt(launches=simulation.launches if simulation else 0)
    case = CaseResult(asked.path.name, "", failure=ended.failure, findings=tuple(found or ()), receipt=receipt)
    kernels = []
    for name, kernel in (counted or {}).items():
        longest = max(kernel.launches, key=lambda launch: launch.estimate_us)
        threads = sum(launch.profile.blocks * launch.profile.threads_per_block for launch in kernel.launches)
        kernels.append(
            CaseResult(
                name,
                name,
                counters=nsight_counters(longest),
                occupancy=longest.occupancy,
                estimate_us=longest.estimate_us,
                receipt=Receipt(launches=len(kernel.launches), threads=threads),
                metrics=longest,
            )
        )
    return RunResult(device.name, (case, *kernels))


def _tell(run: RunResult, asked: ScriptRun, looking: CheckOptions, counted: Profile | None, errors: Console) -> None:
    """Everything goes to standard error: standard output is the script's."""
    wide = Console(stderr=True, width=None if sys.stderr.isatty() else options.WIDTH_IN_A_PIPE)
    sources = SourceLines(asked.path.parent)
    for case in run.cases:
        if case.metrics is not None:
            launches = case.receipt.launches
            if launches > 1:
                wide.print(Text(f"{case.name}: {launches:,} launches; the one that takes longest:"))
            wide.print(profile_text.profile(case.metrics, sources, lines=asked.lines), highlight=False)
            wide.print()
    if counted is not None and not counted:
        errors.print(Text("; ".join(counted.skipped) or "nothing was launched, so there is no profile"))
    for finding in run.cases[0].findings:
        errors.print(findings_text.finding(finding, sources))
    if looking.request is not None:
        errors.print(findings_text.verdict(run.cases[:1]), highlight=False)
    if run.cases[0].failure is not None and not _numba_is_here() and "numba" in run.cases[0].failure.message:
        errors.print(Text("gridstride: scripts of numba.cuda need numba-cuda: pip install 'gridstride[python]'"))
    simulation = numba_host.serving()
    if simulation is not None and simulation.timed:
        errors.print(Text(f"gridstride: times between events are those of the modelled {simulation.device.spec.name}, not of this machine"))


