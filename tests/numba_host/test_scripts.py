"""Scripts of numba.cuda in the public style run as they are, and nothing is found in them: each checks its own results against NumPy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "numba_scripts").glob("*.py"))
_ONE_AFTER_ANOTHER = """
import runpy, sys
import gridstride.numba
for script in sys.argv[1:]:
    runpy.run_path(script, run_name="__main__")
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_LAUNCH_BLOCKING"} | {"GRIDSTRIDE_DEVICE": "sim"}
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True, env=environment, timeout=280)


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 15


def test_they_know_nothing_of_gridstride() -> None:
    assert [script.name for script in SCRIPTS if "gridstride" in script.read_text()] == []


def test_all_in_one_process() -> None:
    done = python("-c", _ONE_AFTER_ANOTHER, *map(str, SCRIPTS))
    assert done.returncode == 0, done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == len(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_nothing_is_found(script: Path) -> None:
    done = python("-m", "gridstride.cli", "check", str(script), "--device", "sim", "--strict")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "no findings in" in done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_same_file_on_a_gpu(script: Path) -> None:
    from gridstride.errors import UnsupportedError
    from gridstride.runtime.opening import device

    try:
        device("gpu")
    except UnsupportedError as error:
        pytest.skip(str(error))
    done = python("-m", "gridstride.cli", "run", str(script), "--device", "gpu")
    assert done.returncode == 0, done.stderr[-4000:]
