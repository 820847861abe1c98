"""`gridstride launch`, `check`, `profile` and `compile` of `module.py:function`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gridstride.cli import main

pytest.importorskip("numba.cuda")

MODULE = '''"""Kernels."""
from numba import cuda, float32

from beside import FACTOR

@cuda.jit(device=True)
def scaled(a, v):
    return FACTOR * a * v

@cuda.jit
def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = scaled(a, x[i]) + y[i]

@cuda.jit
def shifted(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 1]

@cuda.jit("void(float32[:,:], float32[:,:])")
def transpose(a, out):
    x, y = cuda.grid(2)
    out[x, y] = a[y, x]

def plain(out):
    out[cuda.grid(1)] = 3

class Room:
    @cuda.jit
    def fill(out):
        out[cuda.grid(1)] = 5

if __name__ == "__main__":
    raise SystemExit("not to be run")
'''
SAXPY = ["--grid", "cdiv(n,128)", "--block", "128", "--arg", "n=1000", "--arg", "a=f32:2", "--arg", "x=f32[n]:arange", "--arg", "y=f32[n]:ones:out"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kern.py").write_text(MODULE)
    (tmp_path / "beside.py").write_text("FACTOR = 1\n")

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return command


def test_launch(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, out, err = run("launch", "kern.py:saxpy", *SAXPY, "--save", "out.npz")
    assert (status, err) == (0, "")
    assert re.search(r"^y +float32\[1000\] +1 3 5 7 9 11 …", out, re.MULTILINE)
    assert np.array_equal(np.load(tmp_path / "out.npz")["saxpy.3"], 2 * np.arange(1000, dtype=np.float32) + 1)
    assert run("launch", "kern.py", "saxpy", *SAXPY)[0] == 0
    assert run("launch", "kern.py:plain", "--grid", "1", "--block", "32", "--arg", "out=i32[32]:zeros:out")[0] == 0
    assert run("launch", "kern.py:Room.fill", "--grid", "1", "--block", "32", "--arg", "out=i32[32]:zeros:out")[0] == 0


def test_check(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, _, err = run("check", "kern.py:shifted", "--grid", "4", "--block", "32", "--arg", "x=f32[128]:arange", "--arg", "y=f32[128]:ones:out")
    assert status == 1
    where = f"{tmp_path / 'kern.py'}:19"
    assert err.startswith(
        "error[GS101] out-of-bounds: reads 4 bytes at `x`[128], outside its 128 elements of 4 bytes (kern.py:19, block (3,0,0), thread (31,0,0))\n"
        f"  at {where}\n    19 | y[i] = x[i + 1]\n"
    )
    assert run("check", "kern.py:saxpy", *SAXPY)[0] == 0


def test_profile_has_the_lines_of_python(run: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = run("profile", "kern.py:saxpy", *SAXPY)
    assert (status, err) == (0, "")
    assert re.search(r"^ *\d+ % .* 14 +3\.91 ", out, re.MULTILINE)  # four sectors a request, fewer in the last warp
    assert "times each element is read: x 1, y 1" in out


def test_cases(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    square = ["buf", "f32", 100, "arange"]
    cases = [
        {"name": "one", "kernel": "saxpy", "grid": [4, 1, 1], "block": [32, 1, 1], "args": [["i32", 100], ["f32", 2.0], square, [*square, {"out": True}]]},
        {"name": "two", "kernel": "shifted", "grid": [4, 1, 1], "block": [32, 1, 1], "args": [["buf", "f64", 128, "arange"], ["buf", "f64", 128, "ones"]]},
        {"name": "three", "kernel": "saxpy", "grid": [4, 1, 1], "block": [32, 1, 1], "args": [["i32", 100]]},
    ]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    status, out, _ = run("launch", "kern.py", "--cases", "cases.json", "--json", "-", "--save", "out.npz")
    assert status == 1
    found = {case["name"]: case for case in json.loads(out)["cases"]}
    assert {name: (case["status"], (case["error"] or {}).get("code")) for name, case in found.items()} == {
        "one": ("ok", None),
        "two": ("error", "out-of-bounds"),
        "three": ("error", "launch"),
    }
    assert found["three"]["error"]["message"] == "saxpy takes 4 arguments (n, a, x, y), but 1 was given"
    assert np.array_equal(np.load(tmp_path / "out.npz")["one.3"], 3 * np.arange(100, dtype=np.float32))


def test_compile(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, out, _ = run("compile", "kern.py:saxpy", "--arg", "n=1", "--arg", "a=f32:2", "--arg", "x=f32[9]", "--arg", "y=f32[9]", "--json", "-")
    assert status == 0
    report = json.loads(out)
    assert report["kind"] == "python" and report["kernels"][0]["parameters"] == [
        {"name": "n", "type": "int64"},
        {"name": "a", "type": "float32"},
        {"name": "x", "type": "float32[:]"},
        {"name": "y", "type": "float32[:]"},
    ]
    status, out, _ = run("compile", "kern.py:transpose", "--ptx", "-o", "t.ptx", "--arch", "sm_80")
    assert status == 0 and ".target sm_80" in out and ".visible .entry transpose(" in out
    assert (tmp_path / "t.ptx").read_text() == out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["launch", "kern.py:nothing", "--grid", "1", "--block", "1"], "kern.py has no function 'nothing'; its kernels are saxpy, shifted, transpose"),
        (["launch", "kern.py:sxpy", "--grid", "1", "--block", "1"], "kern.py has no function 'sxpy'; did you mean 'saxpy'?"),
        (["launch", "kern.py:FACTOR", "--grid", "1", "--block", "1"], "FACTOR in kern.py is a int, no function (kernels: saxpy, shifted, transpose)"),
        (["launch", "kern.py:scaled", "--grid", "1", "--block", "1"], "scaled is a device function (device=True): kernels call it, the host cannot launch it"),
        (["launch", "kern.py", "--grid", "1", "--block", "1"], "say which kernel of the source to launch, or give --cases FILE"),
        (["launch", "none.py:f", "--grid", "1", "--block", "1"], "none.py does not exist"),
        (["launch", "bad.py:f", "--grid", "1", "--block", "1"], "bad.py cannot be imported: line 2: ZeroDivisionError: division by zero"),
        (["launch", "wrong.py:f", "--grid", "1", "--block", "1"], "wrong.py cannot be imported: line 1: invalid syntax"),
        (["launch", "kern.py:saxpy", "plain", "--grid", "1", "--block", "1"], "kern.py:saxpy names its kernel already; leave out plain"),
        (["launch", "kern.py:saxpy", "--grid", "1", "--block", "1", "-D", "N=1"], "--define is for CUDA C++; kern.py:saxpy is Python"),
        (["launch", "kern.py:saxpy", "--grid", "1", "--block", "1", "--arg", "n=1"], "saxpy has 4 parameters; no --arg for a, x, y"),
        (["compile", "kern.py"], "say which kernel of kern.py to compile, as in kern.py:saxpy"),
        (["compile", "kern.py:saxpy"], "saxpy has 4 parameters; no --arg for n, a, x, y"),
        (["occupancy", "--kernel", "kern.py:saxpy"], "kern.py is Python, whose kernels have types only with their arguments: launch, check, profile and compile take kern.py:FUNCTION"),
    ],
)  # fmt: skip
def test_wrong_input(run: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "bad.py").write_text("x = 0\ny = 1 / x\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    status, _, err = run(*arguments)
    assert (status, err.strip()) == (2, f"gridstride: {sentence}")


def test_what_numba_refuses_is_one_sentence(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "refused.py").write_text("from numba import cuda\n@cuda.jit\ndef f(x):\n    x[0] = missing\n")
    status, _, err = run("launch", "refused.py:f", "--grid", "1", "--block", "1", "--arg", "x=f32[4]")
    assert (status, err) == (2, f"gridstride: {tmp_path / 'refused.py'}:4: f: NameError: name 'missing' is not defined\n")
