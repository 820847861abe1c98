"""The command line: `gridstride COMMAND …`. Each command is a module of this package with a function `command`.

Exit status: 0 clean, 1 findings or a failed verification, 2 bad input or usage, 3 something not supported, 130 interrupted
(and 70 for an error of Gridstride's own, with its traceback).
"""

from __future__ import annotations

import errno
import functools
import importlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

from gridstride.errors import GridstrideError

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT, errno.EPIPE})
"""What writing to standard output fails with; an error with the name of a file is about that file, and not meant."""


@dataclass(frozen=True)
class Command:
    name: str
    module: str
    summary: str


# All commands there are, in the order in which the help shows them.
COMMANDS = (
    Command("pipeline", "gridstride.cli.pipeline", "Find the edges of images with CUDA kernels, each stage checked."),
    Command("check", "gridstride.cli.check", "Launch with all checks on: races, uninitialised values, barriers, …"),
    Command("profile", "gridstride.cli.profile", "Launch with all counters: what is slow, on which line, and what to do."),
    Command("run", "gridstride.cli.run", "Run a numba.cuda script as it is, on the simulator or a GPU."),
    Command("launch", "gridstride.cli.launch", "Launch one kernel, or a file of cases."),
    Command("prove", "gridstride.cli.prove", "Prove launch contracts for sizes around the borders of blocks: each output element one thread."),
    Command("compare", "gridstride.cli.compare", "The same launch on the simulator and on a GPU: outputs and counters side by side."),
    Command("compile", "gridstride.cli.compile", "Compile CUDA C++ to PTX and show what each kernel needs."),
    Command("plan", "gridstride.cli.plan", "Launch arithmetic: blocks, idle threads, occupancy, waves."),
    Command("occupancy", "gridstride.cli.occupancy", "Occupancy: all limits, the curve over block sizes, the best block size."),
    Command("roofline", "gridstride.cli.roofline", "Roofline of a device, and the laws of Amdahl and Gustafson."),
    Command("access", "gridstride.cli.access", "What a warp's accesses cost: sectors, bank passes, and where the lanes go."),
    Command("devices", "gridstride.cli.devices", "The GPUs that can be simulated, and their limits."),
    Command("gallery", "gridstride.cli.gallery", "Canonical kernels as ladders from the plain way to the fast one, and exercises."),
    Command("bench", "gridstride.cli.bench", "Measure the simulator's speed on this machine."),
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments` (the process's own by default) and end with its exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    status = _status(arguments)
    try:
        sys.stdout.flush()  # here, so that a full disk is said in a sentence and not by the interpreter's shutdown
    except OSError as error:
        status = _cannot_print(error)
    sys.exit(status)


def _status(arguments: Sequence[str]) -> int:
    """The exit status of the command that `arguments` name, after what went wrong was said."""
    try:
        _application(arguments)(args=arguments, prog_name="gridstride")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:  # before the command itself began: its module, and the engine with it, was being loaded
        return _interrupted()
    except GridstrideError as error:
        print(f"gridstride: {error}", file=sys.stderr)
        return error.exit_status
    except Exception as error:  # noqa: BLE001 - the last resort, so that a crash is not mistaken for status 1, "findings"
        if isinstance(error, OSError) and error.filename is None and error.errno in CANNOT_WRITE:
            return _cannot_print(error)
        traceback.print_exc()
        print("gridstride: this is an error in Gridstride itself; please report it with the lines above", file=sys.stderr)
        return INTERNAL_ERROR
    return 0


def _interrupted() -> int:
    """Say that somebody interrupted, and return the exit status for it."""
    print("gridstride: interrupted", file=sys.stderr)
    return INTERRUPTED


def _cannot_print(error: OSError) -> int:
    """Say that standard output takes nothing, let nothing more go there, and return the exit status."""
    print(f"gridstride: cannot write to standard output: {error.strerror or error}", file=sys.stderr)
    with suppress(OSError, ValueError):  # what is still in its buffer must not be tried again when the interpreter ends
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return GridstrideError.exit_status


def prepare_streams() -> None:
    """Give both streams somewhere to go where they were closed (`>&-`), and let none fail on a character that its encoding lacks."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def _telling_interrupts(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which says on standard error that it was interrupted: the parser around it would end the process without a word."""

    @functools.wraps(command)
    def run(*args: object, **given: object) -> None:
        try:
            with _terminated_as_interrupted():
                command(*args, **given)
        except KeyboardInterrupt:
            raise typer.Exit(_interrupted()) from None

    return run


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as an interrupt does, so that what it has begun is tidied up; where it is ignored it stays so."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _application(arguments: Sequence[str]) -> typer.Typer:
    """The application with the one command that `arguments` name; the others only by their summaries.

    A command's module may bring the whole engine with it, and `gridstride --help` should not wait for that.
    """
    application = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_root)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    completing = "_GRIDSTRIDE_COMPLETE" in os.environ
    for entry in COMMANDS:
        if completing or entry.name == wanted:
            application.command(entry.name, help=None)(_telling_interrupts(importlib.import_module(entry.module).command))
        else:
            application.command(entry.name, help=entry.summary)(_summary_only)
    return application


def _summary_only() -> None:
    """Stands in for a command that is listed but not called."""


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"gridstride {version('gridstride')}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Run, check and profile CUDA kernels on any machine."""
