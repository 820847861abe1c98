"""`gridstride launch`: what it prints, writes and ends with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridstride import cli

SOURCE = r"""
#include <cstdio>
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void overrun(float* y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
}
__global__ void hello(int n) { printf("n is %d\n", n); }
__global__ void forever(volatile int* count) { while (true) *count = *count + 1; }
#include <cooperative_groups.h>
__global__ void exchange(int* out) {
    cooperative_groups::this_grid().sync();
    out[blockIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    out[gridDim.x + blockIdx.x] = out[gridDim.x - 1 - blockIdx.x];
}
__global__ void dynamic(int* out) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = 5;
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void lane_lock(int* lock) {
    while (atomicCAS(lock, 0, 1) != 0);
    atomicExch(lock, 0);
}
template <typename T> __global__ void fill(T* out, T value) { out[threadIdx.x] = value; }
"""
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 twice_param_0, .param .u64 twice_param_1)
{
    .reg .b32 %t, %v; .reg .b64 %a, %i, %k;
    ld.param.u64 %a, [twice_param_0];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %i, %t, 4;
    add.u64 %a, %a, %i;
    ld.global.u32 %v, [%a];
    add.u32 %v, %v, %v;
    st.global.u32 [%a], %v;
    ret;
}
"""


class Ended:
    """What one command line left: exit status, standard output and standard error."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `gridstride launch …` in a folder with k.cu and k.ptx."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.ptx").write_text(PTX)

    def call(*words: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            cli.main(["launch", *words])
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return call


SAXPY = ("k.cu", "saxpy", "--grid", "cdiv(n,256)", "--block", "256", "--arg", "n=1000", "--arg", "a=2.0", "--arg", "x=f32[n]:uniform:0:1:1")


def test_one_launch(run: Any, tmp_path: Path) -> None:
    ended = run(*SAXPY, "--arg", "y=f32[n]:const=3:out", "--json", "r.json", "--save", "r.npz")
    assert (ended.status, ended.err) == (0, "")
    x = np.random.default_rng(1).uniform(0, 1, 1000).astype(np.float32)
    # 2x is exact, so that fused and separate rounding agree.
    expected = np.float32(2) * x + np.float32(3)
    with np.load(tmp_path / "r.npz") as saved:
        assert list(saved) == ["saxpy.3"]
        assert np.array_equal(saved["saxpy.3"], expected)
    head, titles, row = ended.out.splitlines()
    assert re.fullmatch(r"saxpy on sim:h200: 1,024 threads in \S+ (µs|ms|s) on this machine's processor", head)
    assert titles.split() == ["output", "type", "first", "elements", "min", "mean", "max"]
    assert row.split()[:2] == ["y", "float32[1000]"]
    assert float(row.split()[2]) == pytest.approx(float(expected[0]), rel=1e-5)
    document = json.loads((tmp_path / "r.json").read_text())
    (case,) = document["cases"]
    assert (document["schema"], document["device"]) == (1, "sim:h200")
    assert (case["name"], case["kernel"], case["status"], case["error"]) == ("saxpy", "saxpy", "ok", None)
    assert case["seconds"] > 0
    assert case["receipt"] == {
        "launches": 1,
        "threads": 1024,
        "accesses": None,
        "bytes": None,
        "checks": ["out-of-bounds", "misaligned", "deadlock"],
        "skipped": [],
    }
    # 256 threads at so few registers: eight blocks of eight warps fill an H200's 64 (WORKED figures of the occupancy calculator).
    assert case["occupancy"]["theoretical_pct"] == 100.0
    assert case["occupancy"]["limits"]["warps"] == 8


def test_arrays_from_files(run: Any, tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.uint32)
    np.save(tmp_path / "in.npy", values)
    ended = run("k.ptx", "twice", "--grid", "1", "--block", "8", "--arg", "p0=@in.npy:out", "--arg", "p1=u64:5", "--save", "out.npz")
    assert ended.status == 0, ended.err
    with np.load(tmp_path / "out.npz") as saved:
        assert np.array_equal(saved["twice.0"], values * 2)


def test_printf_and_json_on_standard_output(run: Any) -> None:
    ended = run("k.cu", "hello", "--grid", "1", "--block", "2", "--arg", "n=7")
    assert ended.out.startswith("n is 7\nn is 7\nhello on sim:h200: 2 threads in ")
    ended = run(
        "k.cu",
        "saxpy",
        "--grid",
        "1",
        "--block",
        "1",
        "--arg",
        "n=0",
        "--arg",
        "a=1",
        "--arg",
        "x=ptr:0",
        "--arg",
        "y=ptr:0",
        "--json",
        "-",
    )
    assert json.loads(ended.out)["cases"][0]["status"] == "ok"


def test_template_instances(run: Any) -> None:
    ended = run("k.cu", "fill<int>", "--grid", "1", "--block", "4", "--arg", "out=i32[4]:none:out", "--arg", "value=7")
    assert ended.status == 0, ended.err
    assert "7 7 7 7" in ended.out


def test_a_grid_synchronises_in_a_cooperative_launch(run: Any) -> None:
    launch = ("k.cu", "exchange", "--grid", "4", "--block", "32", "--arg", "out=i32[8]:zeros:out")
    ended = run(*launch, "--cooperative")
    assert ended.status == 0 and "1 1 1 1 1 1 …" in ended.out, ended.err
    ended = run(*launch)
    assert ended.status == 1
    assert "what to do: a grid synchronises in a cooperative launch only: --cooperative, or cooperative=True in Python" in ended.err


def test_clusters_are_asked_for(run: Any, tmp_path: Any) -> None:
    text = (
        ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry ranks(.param .u64 out)\n{ .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %cluster_ctarank; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;\n"
        "st.global.u32 [%d0], %r1; ret; }\n"
    )
    source = tmp_path / "ranks.ptx"
    source.write_text(text)
    launch = (str(source), "ranks", "--grid", "6", "--block", "1", "--arg", "out=u32[6]:poison:out")
    assert "0 0 0 0 0 0" in run(*launch).out
    assert "0 1 2 0 1 2" in run(*launch, "--cluster", "3").out
    ended = run(*launch, "--cluster", "4,1,1")
    assert ended.status == 2 and "gridstride: the grid's x dimension is 6 blocks, which is no multiple of the cluster's 4" in ended.err
    cases = tmp_path / "cases.json"
    case = {"name": "c", "kernel": "ranks", "grid": [4], "block": [1], "cluster": [2, 1, 1], "args": [["buf", "u32", 4, "zeros", {"out": True}]]}
    cases.write_text(json.dumps([case]))
    ended = run(str(source), "--cases", str(cases), "--json", "-")
    assert json.loads(ended.out)["cases"][0]["status"] == "ok"
    ended = run(str(source), "--cases", str(cases), "--cluster", "2")
    assert ended.status == 2 and "leave out --cluster" in ended.err


def test_dynamic_shared_memory_that_was_not_given(run: Any) -> None:
    launch = ("k.cu", "dynamic", "--grid", "1", "--block", "4", "--arg", "out=i32[4]:zeros:out")
    ended = run(*launch)
    assert ended.status == 1
    assert "what to do: give the launch the dynamic shared memory that the kernel uses: --shared BYTES" in ended.err
    assert "5 5 5 5" in run(*launch, "--shared", "4*4").out


def test_strict_lockstep(run: Any) -> None:
    launch = ("k.cu", "lane_lock", "--grid", "1", "--block", "32", "--arg", "lock=i32[1]")
    assert run(*launch).status == 0
    ended = run(*launch, "--lockstep")
    assert ended.status == 1 and "deadlock" in ended.err


def test_names_of_files_beyond_ascii(run: Any, tmp_path: Path) -> None:
    (tmp_path / "größe").mkdir()
    (tmp_path / "größe" / "é.cu").write_text("__global__ void k(int* p) { p[9] = 1; }\n")
    ended = run("größe/é.cu", "k", "--grid", "1", "--block", "1", "--arg", "p=i32[8]:zeros")
    assert ended.status == 1
    assert re.search(r"\n  at \S*größe/é\.cu:1\n    1 \| ", ended.err)


def test_a_fault_says_where_and_what_to_do(run: Any, tmp_path: Path) -> None:
    ended = run("k.cu", "overrun", "--grid", "2", "--block", "32", "--arg", "y=f32[40]:zeros:out", "--json", "r.json", "--save", "r.npz")
    assert ended.status == 1
    assert ended.out == ""
    assert "out-of-bounds" in ended.err
    assert re.search(r"\n  at \S*k\.cu:8\n    8 \| y\[blockIdx\.x \* blockDim\.x \+ threadIdx\.x\] = 1\.0f;\n", ended.err)
    assert re.search(r"\n  in kernel overrun, block \(1, 0, 0\), thread \(8, 0, 0\)\n", ended.err)
    assert "y[40]" in ended.err
    assert "what to do: " in ended.err
    (case,) = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert (case["status"], case["error"]["code"]) == ("error", "out-of-bounds")
    (finding,) = case["findings"]
    assert (finding["kind"], finding["severity"], finding["line"], finding["buffer"], finding["index"]) == (
        "out-of-bounds",
        "error",
        8,
        "y",
        40,
    )
    with np.load(tmp_path / "r.npz") as saved:
        assert list(saved) == []


def test_an_endless_loop_ends_with_its_budget(run: Any) -> None:
    ended = run("k.cu", "forever", "--grid", "1", "--block", "32", "--arg", "count=i32[1]:zeros", "--budget", "100000")
    assert ended.status == 1
    assert ended.err.startswith("error[GS106] budget: the launch ran more than 100,000 loop iterations, its budget\n")
    assert "in kernel forever" in ended.err


def cases(tmp_path: Path, *entries: dict[str, Any]) -> None:
    (tmp_path / "cases.json").write_text(json.dumps(list(entries)))


def case(name: str, kernel: str, *args: Any, block: int = 32) -> dict[str, Any]:
    return {"name": name, "kernel": kernel, "grid": [1, 1, 1], "block": [block, 1, 1], "smem": 0, "args": list(args)}


Y = ["buf", "f32", 32, "zeros", {"out": True}]


def test_one_failing_case_does_not_stop_the_others(run: Any, tmp_path: Path) -> None:
    cases(
        tmp_path,
        case("fault", "overrun", ["buf", "f32", 31, "zeros", {"out": True}]),
        case("missing", "nothing"),
        case("count", "overrun"),
        case("large", "overrun", Y, block=2048),
        case("good", "overrun", Y),
    )
    ended = run("k.cu", "--cases", "cases.json", "--json", "r.json", "--save", "r.npz")
    assert ended.status == 1
    results = json.loads((tmp_path / "r.json").read_text())["cases"]
    assert [(r["name"], r["error"] and r["error"]["code"]) for r in results] == [
        ("fault", "out-of-bounds"),
        ("missing", "launch"),
        ("count", "launch"),
        ("large", "launch"),
        ("good", None),
    ]
    with np.load(tmp_path / "r.npz") as saved:
        assert {key: values.tolist() for key, values in saved.items()} == {"good.0": [1.0] * 32}
    assert "5 cases on sim:h200: 1 ok, 4 failed" in ended.out
    assert "gridstride: count: overrun takes 1 argument (y: `float*`), but 0 were given" in ended.err


def test_only_some_cases(run: Any, tmp_path: Path) -> None:
    cases(tmp_path, case("a", "overrun", Y), case("b", "nothing"), case("c", "overrun", Y))
    ended = run("k.cu", "--cases", "cases.json", "--only", "c", "--only", "a", "--json", "r.json")
    assert ended.status == 0, ended.err
    assert [r["name"] for r in json.loads((tmp_path / "r.json").read_text())["cases"]] == ["a", "c"]


def test_a_source_that_does_not_compile_fails_every_case(run: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.cu").write_text("__global__ void k() { nonsense; }")
    cases(tmp_path, case("a", "k"), case("b", "k"))
    ended = run("bad.cu", "--cases", "cases.json", "--json", "r.json")
    assert ended.status == 2
    assert [r["error"]["code"] for r in json.loads((tmp_path / "r.json").read_text())["cases"]] == ["compile", "compile"]
    ended = run("bad.cu", "k", "--grid", "1", "--block", "1", "--json", "r.json")
    assert ended.status == 2
    assert "nonsense" in ended.err
    assert json.loads((tmp_path / "r.json").read_text())["cases"][0]["error"]["code"] == "compile"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("k.cu",), "say which kernel of the source to launch, or give --cases FILE"),
        (("k.cu", "hello", "--block", "1"), "--grid is missing; a launch needs --grid and --block"),
        (("k.cu", "hello", "--grid", "1"), "--block is missing; a launch needs --grid and --block"),
        (("k.cu", "hello", "--grid", "1", "--block", "1", "--only", "a"), "--only picks cases of a case file; give it with --cases"),
        (("k.cu", "hello", "--cases", "c.json", "--grid", "1"), "with --cases the file says what to launch; leave out KERNEL and --grid"),
        (("k.cu", "--cases", "c.json"), "there is no case file c.json"),
        (("none.cu", "hello", "--grid", "1", "--block", "1"), "none.cu does not exist"),
        (("k.cu", "hello", "--grid", "1", "--block", "1"), "hello has 1 parameter; no --arg for n"),
        (("k.cu", "hello", "--grid", "m", "--block", "1", "--arg", "n=1"), "--grid m: 'm' uses 'm', which no earlier scalar argument defines (defined so far: n)"),
        (("k.cu", "overrun", "--grid", "1", "--block", "1", "--arg", "y=5"), "overrun: y is a pointer; give it a buffer, as in y=f32[1000], or an address, as in y=ptr:5"),
        (
            ("k.ptx", "twice", "--grid", "1", "--block", "1", "--arg", "p0=u32[8]", "--arg", "p1=5"),
            "twice: PTX does not say what twice_param_1 is; write twice_param_1=u64:5 for a number, twice_param_1=ptr:5 for an address",
        ),
        (("k.cu", "hello", "--grid", "1", "--block", "1", "--arg", "n=1.5"), "hello, argument 1 (n: `int`): 1.5 is no whole number"),
        (("k.cu", "hello", "--grid", "1", "--block", "1", "--arg", "n=1", "--json", "no/r.json"), "cannot write no/r.json: No such file or directory"),
    ],
)  # fmt: skip
def test_usage_wrong(run: Any, words: tuple[str, ...], message: str) -> None:
    ended = run(*words)
    assert (ended.status, ended.out, ended.err) == (2, "", f"gridstride: {message}\n")


def test_help_shows_how_arguments_are_written(run: Any) -> None:
    assert "x=f32[n]:uniform" in " ".join(run("--help").out.replace("│", " ").split())


def test_a_gpu_that_is_not_there(run: Any) -> None:
    ended = run("k.cu", "hello", "--grid", "1", "--block", "1", "--arg", "n=1", "--device", "gpu:99")
    assert ended.status == 3
    assert re.match("gridstride: (this needs an NVIDIA GPU|there is no GPU 99)", ended.err)


def test_an_interrupt_ends_a_kernel_within_seconds(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    program = (
        "import _thread, threading, sys; from gridstride import cli\n"
        "threading.Timer(8.0, _thread.interrupt_main).start()\n"
        f"cli.main(['launch', {str(tmp_path / 'k.cu')!r}, 'forever', '--grid', '1', '--block', '32', '--arg', 'count=i32[1]:zeros'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 130, ended.stderr


def test_a_launch_without_outputs_says_how_to_get_them(run: Any) -> None:
    ended = run("k.cu", "fill<int>", "--grid", "1", "--block", "32", "--shared", "1KB", "--arg", "out=i32[32]", "--arg", "value=7")
    assert ended.status == 0 and ended.out.endswith("No buffer is an output: :out behind one shows it, as in --arg 'y=f32[n]:zeros:out'.\n")
    assert "No buffer" not in run("k.cu", "hello", "--grid", "1", "--block", "1", "--arg", "n=3").out
