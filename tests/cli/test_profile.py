"""`gridstride profile`: what it prints, writes and ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridstride import cli
from gridstride.observers.metrics.advice import RULES

SOURCE = """extern "C" __global__ void column(const float *x, float *y) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y] * 2.5f + 1.0f;
}
extern "C" __global__ void overrun(float *y) { y[threadIdx.x] = 1.0f; }
"""
COLUMN = ["k.cu", "column", "--grid", "1", "--block", "32,32", "--arg", "x=f32[1024]:uniform", "--arg", "y=f32[1024]:zeros:out"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)

    def ended(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            cli.main(["profile", *arguments])
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return ended


def test_the_summary(run: Any) -> None:
    status, out, err = run(*COLUMN)
    assert (status, err) == (0, "")
    lines = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "32 requests, 128 sectors: 4 each, 100 % of the bytes used" in lines["global loads"]
    assert "32 instructions, 1,024 wavefronts: 32 each" in lines["shared loads"]
    assert "992 wavefronts more than needed" in lines["bank conflicts"]
    assert "2,048: 1,024 fma" in lines["FLOPs"]
    assert "100 %: 2 blocks a multiprocessor, limited by warps" in lines["occupancy"]
    assert "Roofline: memory-bound; the roof over 0.25 FLOP/byte is 1.2 TFLOP/s" in out  # 4,800 GB/s
    assert out.index("The lines that cost most") < out.index("Advice")


def test_the_costliest_line_with_its_source(run: Any) -> None:
    _, out, _ = run(*COLUMN)
    after = out.split("The lines that cost most")[1].splitlines()
    assert "y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y] * 2.5f + 1.0f;" in after[2]
    assert after[2].split()[3:6] == ["5", "4", "32"]  # after cost and its bar: line, sectors a request, passes
    _, out, _ = run(*COLUMN, "--lines", "0")
    assert "The lines that cost most" not in out


def test_advice_with_its_line_number_and_remedy(run: Any) -> None:
    _, out, _ = run(*COLUMN)
    assert "GA02 bank-conflict at k.cu:5" in out
    assert "each access takes 32 passes over the banks of shared memory where 1 would do." in out
    assert "bank conflicts: 992 → 0" in out
    assert "tile[HEIGHT][WIDTH + 1]" in out


def test_json_has_counters_marks_lines_and_advice(run: Any, tmp_path: Path) -> None:
    status, out, _ = run(*COLUMN, "--json", "-")
    document = json.loads(out)
    assert status == 0
    (case,) = document["cases"]
    assert case["counters"]["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 1024
    assert case["occupancy"]["theoretical_pct"] == 100
    assert case["estimate_us"] > 0
    profile = case["profile"]
    assert set(profile["marks"]) == set(case["counters"])
    assert set(profile["marks"].values()) == {"exact", "modelled", "estimated"}
    (line,) = [line for line in profile["lines"] if line.get("bank_conflicts")]
    assert (Path(line["file"]).name, line["line"], line["bank_conflicts"]) == ("k.cu", 5, 992)
    assert [entry["opcode"] for entry in profile["ptx_lines"] if entry.get("shared_loads")] == ["ld.shared.f32"]
    (advice,) = [advice for advice in profile["advice"] if advice["code"] == "GA02"]
    assert (advice["line"], advice["now"], advice["then"]) == (5, 992, 0)
    assert profile["metrics"]["constant_words_per_load"] is None


def test_launch_profiles_too(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["launch", *COLUMN, "--profile", "--json", "-"])
    profiled = json.loads(capsys.readouterr().out)["cases"][0]
    with pytest.raises(SystemExit):
        cli.main(["launch", *COLUMN, "--json", "-"])
    plain = json.loads(capsys.readouterr().out)["cases"][0]
    assert profiled["counters"] and "profile" in profiled
    assert plain["counters"] == {} and "profile" not in plain and plain["estimate_us"] is None


def test_case_files(run: Any, tmp_path: Path) -> None:
    buffers = [["buf", "f32", 1024, "arange", {}], ["buf", "f32", 1024, "zeros", {"out": True}]]
    case = {"kernel": "column", "grid": [1, 1, 1], "block": [32, 32, 1], "args": buffers}
    (tmp_path / "c.json").write_text(json.dumps([{"name": "one", **case}, {"name": "two", **case}]))
    status, out, _ = run("k.cu", "--cases", "c.json")
    assert status == 0
    assert out.count("Advice") == 2 and " one " in out and " two " in out


def test_a_fault_wrong(run: Any) -> None:
    status, out, err = run("k.cu", "overrun", "--grid", "1", "--block", "64", "--arg", "y=f32[32]:zeros")
    assert status == 1
    assert "out-of-bounds" in err
    assert "Advice" not in out


def test_explanations(run: Any) -> None:
    for rule in RULES:
        status, out, _ = run("--explain", rule.code)
        assert status == 0
        assert out.startswith(f"{rule.code} {rule.name}\n")
        assert "Bad:" in out and "Good:" in out


def test_no_such_advice_wrong(run: Any) -> None:
    status, _, err = run("--explain", "GA99")
    assert status == 2
    assert err.startswith("gridstride: there is no advice 'GA99'; there are GA01 uncoalesced-access, GA02 bank-conflict, ")
