"""`gridstride roofline`: roofs, points, laws, and the refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridstride.cli import main

HALVES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry haxpy(.param .u64 x, .param .u64 y)
{
.reg .b32 %r<8>;
.reg .b64 %d<8>;
ld.param.u64 %d1, [x];
ld.param.u64 %d2, [y];
mov.u32 %r1, %tid.x;
mul.wide.u32 %d3, %r1, 4;
add.u64 %d1, %d1, %d3;
add.u64 %d2, %d2, %d3;
ld.global.b32 %r2, [%d1];
ld.global.b32 %r3, [%d2];
mov.b32 %r4, 0x40004000;
fma.rn.f16x2 %r3, %r2, %r4, %r3;
st.global.b32 [%d2], %r3;
ret;
}
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["roofline", *arguments])
    return int(ended.value.code or 0)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(*arguments, "--json", "-") == 0
    return json.loads(capsys.readouterr().out)


def test_the_ridges_of_the_books(capsys: pytest.CaptureFixture[str]) -> None:
    assert round(document(capsys, "--peak", "60", "--bandwidth", "3.35")["ridge"]) == 18
    assert document(capsys, "--peak", "40", "--bandwidth", "1")["ridge"] == 40


def test_points_under_the_roof(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys, "--peak", "40", "--bandwidth", "1", "--vector-add", "--matrix", "4096", "--intensity", "mine=1/2", "--intensity", "40",
        "--flops", "2e9", "--bytes", "1e9", "--time-us", "2000",
    )  # fmt: skip
    points = {point["name"]: point for point in found["points"]}
    assert points["vector add"]["intensity"] == pytest.approx(1 / 12)
    assert (points["vector add"]["bound"], points["vector add"]["attainable_tflops"]) == ("memory", pytest.approx(1 / 12))
    assert points["matrix product 4,096"]["intensity"] == pytest.approx(4096 / 6)
    assert (points["matrix product 4,096"]["bound"], points["matrix product 4,096"]["attainable_tflops"]) == ("compute", 40)
    assert points["mine"]["attainable_tflops"] == 0.5
    assert (points["40"]["bound"], points["40"]["attainable_tflops"]) == ("compute", 40)
    # 2 GFLOP over 1 GB in 2 ms: 1 TFLOP/s of the 2 that 1 TB/s allows.
    assert (points["kernel"]["tflops"], points["kernel"]["reached_pct"]) == (pytest.approx(1), pytest.approx(50))


def test_double_precision_has_its_own_roof(capsys: pytest.CaptureFixture[str]) -> None:
    single, double = (document(capsys, *more)["peak_tflops"] for more in ([], ["--double"]))
    assert single == 2 * double


def test_the_plot_rises_to_the_ridge_and_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--peak", "40", "--bandwidth", "1", "--vector-add", "--intensity", "400") == 0
    output = capsys.readouterr().out
    assert output.startswith("H200 SXM 141GB, as given: 40.0 TFLOP/s (single precision, outside tensor cores), 1 TB/s, ridge at 40 FLOP/byte\n")
    plot = [line for line in output.splitlines() if "┤" in line]
    places = {letter: [(y, line.index(letter)) for y, line in enumerate(plot) if letter in line] for letter in "+AB"}
    ((ridge_y, ridge_x),), ((b_y, b_x),), ((a_y, a_x),) = places["+"], places["A"], places["B"]
    assert a_x < ridge_x < b_x
    assert a_y > ridge_y == b_y
    slope = [max(y for y, line in enumerate(plot) if len(line) > x and line[x] in "╱B+") for x in range(10, ridge_x)]
    assert slope == sorted(slope, reverse=True)


def test_points_on_one_place_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--intensity", "1", "--intensity", "1", "--intensity", "1") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "┤" in line and "A" in line)
    assert {"A", "B", "C"} <= set(line)


def test_a_result_with_counters_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As of a GPU. What DRAM gave is another intensity, which hangs on the caches: it is not taken."""
    counters = {
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1000,
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 200,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 50,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 25,
    }
    cases = [
        {"name": "a", "counters": counters, "estimate_us": 1e-3},
        {"name": "dram", "counters": {**counters, "dram__bytes_read.sum": 800, "dram__bytes_write.sum": 300}},
        {"name": "copy", "counters": {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 50}},
    ]
    (tmp_path / "p.json").write_text(json.dumps({"schema": 1, "cases": cases}))
    points = document(capsys, "--profile", str(tmp_path / "p.json"))["points"]
    assert [(p["name"], p["intensity"]) for p in points] == [("a", pytest.approx(2200 / (75 * 32))), ("dram", pytest.approx(2200 / (75 * 32)))]
    assert points[0]["tflops"] == pytest.approx(2200 / 1e-9 / 1e12)
    assert points[1]["tflops"] is None


def test_the_intensity_of_a_profile_is_the_one_that_profile_shows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """y = 2x + y of 1,000 halves in pairs: 500 packed fma of 4 FLOPs each, over 63 sectors read twice and written once."""
    source = tmp_path / "haxpy.ptx"
    source.write_text(HALVES)
    with pytest.raises(SystemExit) as ended:
        pairs = ["--arg", "x=u32[500]:zeros", "--arg", "y=u32[500]:zeros:out"]
        main(["profile", str(source), "haxpy", "--grid", "1", "--block", "500", *pairs, "--json", str(tmp_path / "p.json")])
    assert ended.value.code == 0
    intensity = 2000 / (3 * 63 * 32)
    assert f"the roof over {intensity:.3g} FLOP/byte" in capsys.readouterr().out
    (point,) = document(capsys, "--profile", str(tmp_path / "p.json"))["points"]
    assert point["intensity"] == pytest.approx(intensity)


def test_amdahl_and_gustafson(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--amdahl", "0.02", "--gustafson", "0.1", "-p", "49", "-p", "64")
    assert found["amdahl"]["limit"] == 50
    assert found["amdahl"]["speedup"]["49"] == pytest.approx(25)
    assert found["gustafson"]["speedup"]["64"] == pytest.approx(64 - 63 * 0.1)
    assert document(capsys, "--amdahl", "10/110")["amdahl"]["limit"] == 11
    assert run("--amdahl", "0.02", "-p", "49") == 0
    assert capsys.readouterr().out == "Amdahl, serial fraction 0.02: at most 50 times as fast\n      49 processors          25 times as fast\n"
    assert document(capsys, "--amdahl", "0")["amdahl"]["limit"] is None


def test_what_a_graph_saves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--graph", "500,2,5") == 0
    assert capsys.readouterr().out == (
        "500 launches as one graph: 2.495 ms of host time saved a replay\n"
        "one by one 2.502 ms until the last kernel ends, as a graph 1.005 ms\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flops", "1"], "--flops and --bytes go together: the intensity is their quotient"),
        (["--time-us", "1"], "--time-us says how fast --flops and --bytes were: give them too"),
        (["--flops", "1", "--bytes", "0"], "--bytes must be more than 0, not 0"),
        (["--intensity", "x=0"], "an intensity is more than 0 FLOP/byte: `x=0` is 0"),
        (["--peak", "-1"], "--peak must be more than 0, not -1"),
        (["--amdahl", "two"], "cannot read the serial fraction `two`: write 0.02 or 10/110"),
        (["--amdahl", "1.5"], "the serial fraction is between 0 and 1, not 1.5"),
        (["-p", "4"], "--processors goes with --amdahl or --gustafson"),
        (["--graph", "500"], "cannot read --graph `500`: give launches, µs a kernel and µs of host time a launch, such as 500,2,5"),
        (["--profile", "nowhere.json"], "cannot read nowhere.json: No such file or directory"),
    ],
)
def test_roofline_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"gridstride: {message}\n")


def test_what_is_no_profile_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text("{}")
    assert run("--profile", str(file)) == 2
    assert capsys.readouterr().err == f"gridstride: {file} is no result of `gridstride … --profile --json`\n"
    file.write_text(json.dumps({"cases": [{"name": "a", "counters": {}}]}))
    assert run("--profile", str(file)) == 2
    assert capsys.readouterr().err == f"gridstride: {file} has no counters of floating-point operations and bytes: was it made with --profile?\n"
