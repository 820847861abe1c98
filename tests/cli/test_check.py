"""`gridstride check` and the options about checks of `gridstride launch`: what is shown, written and ended with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gridstride import cli

SOURCE = """\
__global__ void reverse(const float* a, float* b) {
    __shared__ float s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x] = a[threadIdx.x];
    b[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
__global__ void flag(int* f) {
    if (threadIdx.x % 32 == 0) *f = 1;
}
__global__ void overrun(float* x) { x[threadIdx.x] = 1; }
"""
ARRAYS = ("--arg", "a=f32[64]:arange", "--arg", "b=f32[64]:zeros:out")
REVERSE = ("k.cu", "reverse", "--grid", "1", "--block", "64", *ARRAYS)
SCALE = ("k.cu", "scale", "--grid", "1", "--block", "64", "--arg", "x=f32[64]:ones:out", "--arg", "n=64")
FLAG = ("k.cu", "flag", "--grid", "1", "--block", "64", "--arg", "f=i32[1]:zeros:out")


class Ended:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `gridstride …` in a folder with k.cu."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)

    def call(*words: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(words))
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return call


def test_a_race_is_shown_with_both_sides(run: Any) -> None:
    ended = run("check", *REVERSE)
    assert ended.status == 1
    lines = ended.err.splitlines()
    assert re.fullmatch(
        r"error\[GS201\] race-shared: thread \(\d+,0,0\) (reads|writes) `s`\[\d+\], which thread \(\d+,0,0\) (reads|writes), and there is no barrier "
        r"between them \(block \(0,0,0\), k\.cu:[56] and k\.cu:[56]\)",
        lines[0],
    )
    assert {"    5 | s[threadIdx.x] = a[threadIdx.x];", "    6 | b[threadIdx.x] = s[63 - threadIdx.x];"} <= set(lines)
    assert "  the other side:" in lines
    assert lines[-1].startswith("  what to do: put __syncthreads() between the two accesses")
    assert "1 error in 1 launch, 64 threads, " in ended.out
    assert re.search(r"^checked: out-of-bounds, misaligned, deadlock, race-shared, race-global, uninitialised,", ended.out, re.MULTILINE)


def test_a_clean_launch_says_what_was_looked_at(run: Any) -> None:
    ended = run("check", *SCALE, "--json", "r.json")
    assert (ended.status, ended.err) == (0, "")
    assert "no findings in 1 launch, 64 threads, 4 warp accesses, 512 bytes" in ended.out
    (case,) = json.loads(Path("r.json").read_text())["cases"]
    assert case["findings"] == []
    receipt = case["receipt"]
    assert (receipt["launches"], receipt["threads"], receipt["accesses"], receipt["bytes"], receipt["skipped"]) == (1, 64, 4, 512, [])
    assert {"race-shared", "race-global", "uninitialised", "divergent-barrier", "warp-mask", "launch-shape"} <= set(receipt["checks"])


def test_the_finding_as_json(run: Any) -> None:
    ended = run("launch", *REVERSE, "--checks", "race-shared", "--json", "-")
    assert ended.status == 1
    (case,) = json.loads(ended.out)["cases"]
    (found,) = case["findings"]
    assert (case["status"], case["error"]) == ("ok", None)
    assert Path(found["file"]).name == Path(found["other"]["file"]).name == "k.cu"
    assert {key: found[key] for key in ("code", "kind", "severity", "kernel", "space", "buffer", "block")} == {
        "code": "GS201",
        "kind": "race-shared",
        "severity": "error",
        "kernel": "reverse",
        "space": "shared",
        "buffer": "s",
        "block": [0, 0, 0],
    }
    assert {found["line"], found["other"]["line"]} == {5, 6}
    assert set(found["other"]) == {"file", "line", "ptx_line", "block", "thread"}
    assert case["receipt"]["checks"] == ["out-of-bounds", "misaligned", "deadlock", "race-shared"]


def test_launch_looks_for_nothing_more_unless_it_is_asked(run: Any) -> None:
    ended = run("launch", *REVERSE)
    assert (ended.status, ended.err) == (0, "") and "checked:" not in ended.out


def test_warnings_end_with_1_only_when_strict(run: Any) -> None:
    lenient, strict = run("check", *FLAG), run("check", *FLAG, "--strict")
    assert (lenient.status, strict.status) == (0, 1)
    assert lenient.err.startswith("warning[GS202] race-global: ") and "both write the same value to `f`[0]" in lenient.err
    assert "1 warning in 1 launch" in lenient.out


def test_a_fault_is_said_once(run: Any) -> None:
    ended = run("check", "k.cu", "overrun", "--grid", "1", "--block", "64", "--arg", "x=f32[60]:zeros:out")
    assert ended.status == 1
    assert ended.err.count("outside its 60 elements") == 1
    assert "not checked: what comes after the fault in the launch" in ended.out


def test_a_launch_that_the_device_refuses(run: Any) -> None:
    ended = run("check", "k.cu", "scale", "--grid", "1", "--block", "2048", "--arg", "x=f32[64]:ones", "--arg", "n=64")
    assert ended.status == 2
    assert ended.err.startswith("error[GS501] launch-shape: the block's x dimension is 2,048 threads; the limit is 1,024")


def test_a_baseline_hides_what_is_known_and_no_more(run: Any) -> None:
    first = run("check", *REVERSE, "--write-baseline", "known.json")
    assert first.status == 1 and "known.json: a baseline of 1 finding\n" in first.err
    again = run("check", *REVERSE, "--baseline", "known.json")
    assert (again.status, again.err) == (0, "") and "not checked: 1 finding of the baseline" in again.out
    moved = SOURCE.replace("__shared__", "\n\n    __shared__")
    Path("k.cu").write_text(moved)
    assert run("check", *REVERSE, "--baseline", "known.json").status == 0
    Path("k.cu").write_text(moved.replace("s[63 - threadIdx.x];", "s[62 - threadIdx.x % 63];"))
    changed = run("check", *REVERSE, "--baseline", "known.json")
    assert changed.status == 1
    Path("k.cu").write_text(SOURCE.replace("a[threadIdx.x];\n", "a[threadIdx.x];\n    __syncthreads();\n", 1))
    repaired = run("check", *REVERSE, "--baseline", "known.json")
    assert repaired.status == 0
    assert repaired.err == "known.json: 1 finding is in the baseline and did not happen; write it anew if they are repaired\n"


def test_rules_and_comments_hide(run: Any) -> None:
    Path("rules").write_text("race-shared kernel=reverse\n")
    ended = run("check", *REVERSE, "--suppress", "rules")
    assert (ended.status, ended.err) == (0, "") and "not checked: 1 finding hidden by suppression rules" in ended.out
    Path("k.cu").write_text(SOURCE.replace("= a[threadIdx.x];", "= a[threadIdx.x];  // gridstride: ignore[race-shared]"))
    assert run("check", *REVERSE).status == 0


def test_other_schedules(run: Any) -> None:
    ended = run("check", *SCALE, "--schedules", "2")
    assert ended.status == 0 and "order-dependent" in ended.out
    source = "__global__ void last(int* w) { if (threadIdx.x == 0) *w = blockIdx.x; }\n"
    Path("k.cu").write_text(source)
    found = run("launch", "k.cu", "last", "--grid", "8", "--block", "32", "--arg", "w=i32[1]:zeros:out", "--schedules", "4")
    assert found.status == 0  # a warning
    seed = re.search(r"replay with --seed (\d+)", found.err)
    assert seed is not None and found.err.startswith("warning[GS502] order-dependent: `w` depends on the order of execution: the values of 1 of 1 elements")


def test_ptx_without_line_information_shows_the_instruction(run: Any) -> None:
    Path("k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry clash(.param .u64 p)\n{\n"
        ".reg .b64 %a; .reg .b32 %t;\nld.param.u64 %a, [p];\nmov.u32 %t, %tid.x;\nst.global.u32 [%a], %t;\nret;\n}\n"
    )
    ended = run("check", "k.ptx", "clash", "--grid", "1", "--block", "64", "--arg", "p=i32[1]:zeros:out")
    assert ended.status == 1
    assert "\n  at PTX line 9\n    9 | st.global.u32 [%a], %t;\n" in ended.err


def test_explanations(run: Any) -> None:
    for words in (("check", "--explain", "GS201"), ("launch", "--explain", "race-shared")):
        ended = run(*words)
        assert ended.status == 0 and ended.out.startswith("GS201 race-shared (error or warning)\n\nTwo threads of a block touch the same bytes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--explain", "GS999"), "there is no check 'GS999'"),
        ((*SCALE, "--checks", "races"), "there is no check 'races'; did you mean race-shared?"),
        ((*SCALE, "--checks", "order-dependent"), "order-dependent runs each launch again in other orders: say how many with --schedules N"),
        ((*SCALE, "--suppress", "none"), "cannot read none: No such file or directory"),
        ((*SCALE, "--baseline", "none"), "cannot read none: No such file or directory"),
        ((*SCALE, "--baseline", "b", "--write-baseline", "b"), "b cannot be read as the baseline and written as one at once"),
    ],
)
def test_options_wrong(run: Any, words: tuple[str, ...], message: str) -> None:
    ended = run("check", *words)
    assert ended.status == 2
    assert ended.err.startswith(f"gridstride: {message}")


def test_cases_are_checked_one_by_one(run: Any, tmp_path: Path) -> None:
    a, b = ["buf", "f32", 64, "arange", {}], ["buf", "f32", 64, "zeros", {"out": True}]
    cases = [
        {"name": "racy", "kernel": "reverse", "grid": [1], "block": [64], "args": [a, b]},
        {"name": "fine", "kernel": "scale", "grid": [1], "block": [64], "args": [b, ["i32", 64]]},
        {"name": "unwritten", "kernel": "scale", "grid": [1], "block": [64], "args": [["buf", "f32", 64, "none", {"out": True}], ["i32", 32]]},
    ]
    Path("cases.json").write_text(json.dumps(cases))
    ended = run("check", "k.cu", "--cases", "cases.json", "--json", "r.json")
    assert ended.status == 1
    found = {case["name"]: [(f["kind"], f["severity"]) for f in case["findings"]] for case in json.loads(Path("r.json").read_text())["cases"]}
    assert found["racy"] == [("race-shared", "error")] and found["fine"] == []
    assert ("uninitialised", "error") in found["unwritten"]
    assert ended.err.startswith("racy: error[GS201] race-shared: ")
