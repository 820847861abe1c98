"""`gridstride prove`, and `--covers` of `launch` and `check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gridstride.cli import _application

SOURCE = """// gridstride: contract extent=n block=64 covers=y
extern "C" __global__ void copy(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" __global__ void late(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) y[i] = a * x[i];
}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    return str(path)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(_application(words), list(words))
    return result.exit_code, result.stdout, result.stderr


def test_all_kernels_with_a_contract_are_proved(source: str) -> None:
    status, out, err = run("prove", source, "--size", "1000")
    assert status == 0 and err == ""
    first, second, third, last = out.splitlines()
    assert first == "copy: proved for 17 sizes (0, 1, 2, 3, 31, 32, 33, 63, 64, 65, …, 1,000), 17 launches on sim:h200"
    assert second == "  y: 2,291 elements, each written by exactly one thread, none left out, nothing outside"
    assert third.startswith("  no error of these checks: out-of-bounds, ") and "double-write" in third
    assert last == "  This is what these runs showed; other sizes and other arguments were not run."


def test_a_counterexample_ends_with_status_1(source: str) -> None:
    status, out, err = run("prove", source, "late", "--contract", "extent=n block=64 covers=y", "--arg", "a=2", "--arg", "x=f32[n+1]:ones")
    assert status == 1
    assert out == "late: counterexample at n = 1 (grid 1, block 64): double-write: no thread writes `y`[0], its only element\n1 size (0), 1 launch before it had no error\n"
    assert err.startswith("error[GS503] double-write: no thread writes `y`[0], its only element\n  in kernel late\n  global memory, y[0] (address ")


def test_json(source: str, tmp_path: Path) -> None:
    status, out, _ = run("prove", source, "copy", "--only-sizes", "--size", "5", "--json", "-")
    [proof] = json.loads(out)["proofs"]
    assert status == 0 and proof["status"] == "proved" and proof["covered"] == {"y": 5} and proof["counterexample"] is None
    assert proof["launches"] == [{"size": [5], "grid": [1, 1, 1], "block": [64, 1, 1], "covered": {"y": 5}}]
    file = tmp_path / "proof.json"
    assert run("prove", source, "late", "--contract", "extent=n covers=y", "--json", str(file), "--only-sizes", "--size", "70")[0] == 1
    [proof] = json.loads(file.read_text())["proofs"]
    assert proof["status"] == "counterexample" and proof["counterexample"]["finding"]["kind"] == "double-write" and proof["launches"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["late"], "late has no contract to prove; give it one (docs/contracts.md)"),
        (["copy", "--arg", "n=5"], "--arg n=5: n is the extent, which goes through many sizes; more of them are given by --size"),
        (["copy", "--arg", "z=5"], "--arg z=5: write NAME=VALUE with a parameter of copy: n, x, y"),
        (["copy", "--arg", "x=f32[n]", "--arg", "p1=f32[n]"], "--arg p1=f32[n]: the parameter 'x' already has an argument"),
        (["copy", "--arg", "x=f32[m]"], "--arg x=f32[m]: 'm' uses 'm', which no earlier scalar argument defines (defined so far: width, n)"),
        (["copy", "--size", "many"], "--size many: write a whole number for each axis, as in 1000 or 640x480"),
        (["copy", "--size", "5x5"], "a size for copy has 1 whole number of at least 0, not (5, 5)"),
        (["copy", "--device", "gpu"], "a proof runs in the simulator, not on `gpu`: name a simulated device, such as sim:h200"),
        (["--contract", "extent=n"], "--contract is about one kernel: say which"),
        (["late", "--contract", "extend=n"], "a contract has no clause 'extend=n'; did you mean extent?"),
    ],
)
def test_wrong_input(source: str, words: list[str], message: str) -> None:
    status, out, err = run("prove", source, *words)
    assert (status, out, err) == (2, "", f"gridstride: {message}\n")


def test_nothing_to_prove(tmp_path: Path) -> None:
    path = tmp_path / "plain.cu"
    path.write_text('extern "C" __global__ void k(int n) {}\n')
    status, _, err = run("prove", str(path))
    assert status == 2 and err.startswith("gridstride: no kernel of the source has a contract; write one above it, as in `// gridstride: contract ")


def test_python_kernels(tmp_path: Path) -> None:
    path = tmp_path / "own_kernels.py"
    path.write_text(
        "import gridstride as gs\nfrom numba import cuda\n"
        "@gs.contract(extent='y.size', block=64, covers='y')\n@cuda.jit\n"
        "def fill(y):\n    i = cuda.grid(1)\n    if i < y.size: y[i] = i\n"
        "@gs.contract(extent=('out.shape[1]', 'out.shape[0]'), block=(8, 4), covers='out')\n@cuda.jit\n"
        "def swapped(out):\n    x, y = cuda.grid(2)\n    if x < out.shape[0] and y < out.shape[1]: out[x, y] = 1\n"
    )
    status, out, err = run("prove", f"{path}:fill", "--arg", "y=i32[n]:none")
    assert status == 0 and out.startswith("fill: proved for 16 sizes") and err == ""
    status, out, err = run("prove", str(path), "swapped", "--arg", "out=f32[height,width]:none")
    assert status == 1 and out.startswith("swapped: counterexample at out.shape[1] = ") and "no thread writes `out`[" in out and "own_kernels.py" not in out
    status, _, err = run("prove", f"{path}:fill")
    assert (status, err) == (2, "gridstride: fill is Python, whose parameters have any type: give --arg y=…, as in --arg 'y=f32[n]:uniform'\n")
    words = ["--grid", "2", "--block", "64", "--arg", "y=i32[150]:none:out"]
    status, _, err = run("check", f"{path}:fill", *words)
    assert status == 2 and "fill breaks its contract (extent): 2 blocks of 64 elements reach 128 of y.size = 150; launch 3 blocks" in err


# ---- --covers ---------------------------------------------------------------------------------------------------------

LAUNCH = ("late", "--grid", "2", "--block", "64", "--arg", "n=100", "--arg", "a=1", "--arg", "x=f32[n]", "--arg", "y=f32[n]:zeros:out")


def test_covers(source: str) -> None:
    status, out, err = run("check", source, *LAUNCH, "--covers", "y")
    assert status == 1 and err.startswith("error[GS503] double-write: no thread writes `y`[99] of 100 elements\n")
    assert "double-write" in out.partition("checked: ")[2]
    status, out, err = run("launch", source, *LAUNCH, "--checks", "double-write")
    assert status == 0 and out.endswith("not checked: double-write: no contract speaks of a launch\n")
    status, out, err = run("check", source, "copy", *LAUNCH[1:7], *LAUNCH[9:], "--covers", "y")
    assert status == 0 and err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--covers", "y"], "--covers y is what the check double-write looks at: add --checks double-write, or use gridstride check"),
        (["--covers", "z", "--checks", "all"], "the contract of late names 'z', which is no parameter of it; it has n, a, x, y"),
        (["--covers", "n", "--checks", "all"], "the contract of late takes n for a buffer, and it is `int`"),
    ],
)
def test_wrong_covers(source: str, words: list[str], message: str) -> None:
    status, _, err = run("launch", source, *LAUNCH, *words)
    assert (status, err) == (2, f"gridstride: {message}\n")


def test_a_launch_that_breaks_its_contract(source: str) -> None:
    status, _, err = run("launch", source, "copy", "--grid", "1", "--block", "32", "--arg", "n=5", "--arg", "x=f32[n]", "--arg", "y=f32[n]")
    assert status == 2 and err == (
        "gridstride: copy breaks its contract (block): it is launched with blocks of 32 threads, and the contract says 64; launch it with blocks of 64, or by "
        "copy.for_each(n)\n"
    )
