"""numba.cuda on the simulator does what it promises: `api_cases.py`, in a process of its own, for numba's driver is replaced in all of it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("api_cases.py")


def run(*names: str) -> dict[str, str | None]:
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_LAUNCH_BLOCKING"} | {"GRIDSTRIDE_DEVICE": "sim"}
    done = subprocess.run([sys.executable, str(CASES), *names], check=False, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    answers: dict[str, str | None] = json.loads(done.stdout)
    return answers


def test_numba_keeps_its_promises() -> None:
    answers = run()
    defined = [node.name for node in ast.parse(CASES.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert [f"case_{name}" for name in answers] == [name for name in defined if name.startswith("case_")]
    assert not {name: told for name, told in answers.items() if told}
