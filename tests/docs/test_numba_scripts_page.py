"""The examples of docs/numba_scripts.md run as the page says they do: files as its Python blocks begin (`# NAME.py`), commands behind `$`, what they print under them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, agrees

PAGE = (DOCS / "numba_scripts.md").read_text(encoding="utf-8")
FILES = {name: code for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)}
COMMANDS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_command_prints_what_the_page_says(command: str, shown: str, tmp_path: Path) -> None:
    for name, code in FILES.items():
        (tmp_path / name).write_text(f"# {name}\n{code}", encoding="utf-8")
    words = shlex.split(command)
    given = {name: value for name, value in os.environ.items() if name not in ("CUDA_LAUNCH_BLOCKING", "GRIDSTRIDE_DEVICE")}
    given |= {"NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1", "GRIDSTRIDE_DEVICE": "sim"}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        given[name] = value
    start = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "gridstride.cli"]
    done = subprocess.run(
        [*start, *words[1:]], check=False, cwd=tmp_path, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200
    )
    printed = done.stdout.replace(f"{tmp_path}{os.sep}", "")
    assert agrees(printed, shown), f"{command} prints\n{printed}\nand the page says\n{shown}"


def test_no_block_is_forgotten() -> None:
    assert len(FILES) == PAGE.count("\n```python") == 3
    assert len(COMMANDS) == PAGE.count("\n```console") == 4
