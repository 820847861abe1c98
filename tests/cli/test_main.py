"""The command line's frame: errors, exit statuses, version, lazy start."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from rich.text import Text
from typer.main import get_group

from gridstride import cli
from gridstride.errors import GridstrideError, KernelFault, UnsupportedError


def run(*arguments: str) -> int:
    """The exit status of one command line."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `gridstride plan` raise what it is given."""

    def install(error: BaseException) -> None:
        def command() -> None:
            raise error

        monkeypatch.setitem(sys.modules, "gridstride.cli.plan", cast(ModuleType, SimpleNamespace(command=command)))

    return install


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (GridstrideError("no such thing"), 2),
        (UnsupportedError("no such thing"), 3),
        (KernelFault("no such thing", "trap"), 1),
    ],
)
def test_an_error_is_one_line_and_its_status(command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], error: GridstrideError, status: int) -> None:
    command_that(error)
    assert run("plan") == status
    out, err = capsys.readouterr()
    assert (out, err) == ("", "gridstride: no such thing\n")


def test_an_interrupt_is_130_and_said(command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    command_that(KeyboardInterrupt())
    assert run("plan") == 130
    assert capsys.readouterr().err == "gridstride: interrupted\n"


def in_a_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`line`, in which `gridstride` is the command line, run by a shell."""
    line = line.replace("gridstride", f"{shlex.quote(sys.executable)} -m gridstride.cli", 1)
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", ["devices", "plan 1000 --json -"])
def test_a_full_disk_is_one_line_and_2(arguments: str) -> None:
    done = in_a_shell(f"gridstride {arguments} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "gridstride: cannot write to standard output: No space left on device\n")


def test_bench_says_before_measuring_that_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridstride.cli.bench.run", lambda *_: pytest.fail("it measured"))
    assert run("bench", "--json", str(tmp_path)) == 2
    assert capsys.readouterr().err == f"gridstride: cannot write {tmp_path}: it is a folder\n"
    assert run("bench", "--json", "/proc/x.json") == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_closed_standard_output_stops_nothing() -> None:
    done = in_a_shell("gridstride plan 1000 >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encoding_without_our_characters_stops_nothing() -> None:
    done = in_a_shell("gridstride roofline --matrix 64", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "H200" in done.stdout and done.stdout.isascii()


def test_an_error_of_our_own_is_not_mistaken_for_findings(command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    command_that(ZeroDivisionError("oops"))
    assert run("plan") == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in err
    assert err.endswith("gridstride: this is an error in Gridstride itself; please report it with the lines above\n")


@pytest.mark.parametrize("arguments", [("no-such-command",), ("plan",), ("plan", "10", "--no-such-option"), ("plan", "10", "--registers", "many")])
def test_bad_usage_is_2_and_says_so_on_standard_error(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: gridstride" in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    name, version = capsys.readouterr().out.split()
    assert name == "gridstride"
    assert version[0].isdigit()


def test_help_lists_every_command_without_loading_the_engine() -> None:
    code = (
        "import sys, gridstride.cli as cli\n"
        "try:\n    cli.main(['--help'])\n"
        "finally:\n    sys.exit(sum(m in sys.modules for m in ('llvmlite', 'numpy', 'cuda')) * 100)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for entry in cli.COMMANDS:
        assert f" {entry.name} " in done.stdout


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_every_listed_command_exists_and_has_help(capsys: pytest.CaptureFixture[str], entry: cli.Command) -> None:
    assert run(entry.name, "--help") == 0
    assert f"Usage: gridstride {entry.name}" in capsys.readouterr().out


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_help_shows_brackets_as_they_are_written(entry: cli.Command) -> None:
    command = get_group(cli._application([entry.name])).commands[entry.name]
    for text in (command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)):
        assert Text.from_markup(text).plain == text.replace("\\[", "[")


def test_interrupt_while_a_command_is_loaded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("gridstride.cli.importlib.import_module", load)
    with pytest.raises(SystemExit) as ended:
        cli.main(["devices"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "gridstride: interrupted\n")
