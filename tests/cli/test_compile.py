"""`gridstride compile`, run as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from gridstride.cli import main
from gridstride.cli.compile import entry_text
from gridstride.errors import UnsupportedError, UsageError
from gridstride.frontends import nvrtc, sass
from gridstride.frontends.sass import find_disassembler

SOURCE = """#include <cstdio>
template <class T> __global__ void scale(T* data, T factor) { data[threadIdx.x] *= factor; }
__global__ void tile(float* out) { __shared__ float s[32]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[0]; }
int main() { tile<<<1, 32>>>(nullptr); printf("done"); }
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        nvrtc.version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "a.cu").write_text(SOURCE)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["compile", *arguments])
    return int(ended.value.code or 0)


def test_table_shows_each_kernel_with_its_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("a.cu", "--template", "scale<double>") == 0
    output = capsys.readouterr().out
    assert output.startswith("a.cu: PTX ")
    assert "resources on sm_90" in output
    tile = next(line for line in output.splitlines() if " tile " in line)
    cells = [cell.strip() for cell in tile.strip("│").split("│")]
    assert cells[0] == "tile"
    assert cells[2:] == ["128", "0", "0", "0", "1", "float* out"]
    assert "scale<double>" in output
    assert "T* data, T factor" in output


def test_a_narrow_terminal_shows_a_number_a_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridstride.cli.compile.console", lambda: Console(width=60))
    assert run("a.cu") == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert [row[0] for row in rows if row[0]] == ["kernel", "registers", "shared B", "stack B", "spill stores B", "spill loads B", "barriers", "parameters"]
    assert rows[0][1] == "tile" and rows[1][1].isdecimal()


def test_json_and_ptx_file(work: Path) -> None:
    assert run("a.cu", "--arch", "sm_80", "--kernel", "scale<float>", "-o", "a.ptx", "--json", "a.json") == 0
    report = json.loads((work / "a.json").read_text())
    assert (report["source"], report["kind"], report["arch"], report["reason"]) == ("a.cu", "cuda", "sm_80", None)
    (kernel,) = report["kernels"]
    assert (kernel["name"], kernel["entry"]) == ("scale<float>", "_Z5scaleIfEvPT_S0_")
    assert kernel["parameters"] == [{"name": "data", "type": "T*"}, {"name": "factor", "type": "T"}]
    assert kernel["resources"]["registers"] > 0
    ptx = (work / "a.ptx").read_text()
    assert ".target sm_80" in ptx
    assert ".entry _Z4tilePf" in ptx


def test_ptx_of_one_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("a.cu", "--kernel", "tile", "--ptx") == 0
    output = capsys.readouterr().out
    assert output.startswith(".visible .entry _Z4tilePf(")
    assert output.rstrip().endswith("}")
    assert "scale" not in output


def test_source_that_does_not_compile_wrong(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "bad.cu").write_text("__global__ void k(float* a) { a[0] = zz; }\n")
    assert run("bad.cu") == 2
    assert capsys.readouterr().err == (
        "gridstride: bad.cu does not compile (1 error):\n"
        'bad.cu:1:38: error: identifier "zz" is undefined\n'
        "    __global__ void k(float* a) { a[0] = zz; }\n"
        "                                         ^\n"
    )


def test_kernel_that_is_not_there_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("a.cu", "--kernel", "tiel") == 2
    assert capsys.readouterr().err == "gridstride: there is no kernel 'tiel' in a.cu (did you mean 'tile'?); it has: tile\n"


def test_include_folder_and_define(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "inc").mkdir()
    (work / "inc" / "own.h").write_text("#define PLACE 77\n")
    (work / "b.cu").write_text('#include "own.h"\n__global__ void k(int* a) { a[PLACE] = VALUE; }\n')
    assert run("b.cu", "-I", "inc", "-D", "VALUE=4242", "--ptx") == 0
    output = capsys.readouterr().out
    assert "+308]" in output
    assert "4242" in output
    assert run("b.cu", "-I", "nowhere") == 2
    assert capsys.readouterr().err == f"gridstride: the include folder {work}/nowhere does not exist\n"


def test_a_source_with_templates_only_says_how_to_name_one(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "t.cu").write_text("template <class T> __global__ void scale(T* data) { data[0] *= 2; }\n")
    assert run("t.cu") == 0
    expected = "t.cu compiles for sm_90 and has no kernels; it has templates (scale): name an instance with --template\n"
    assert capsys.readouterr().out == expected


def test_entry_text_ends_at_its_own_brace() -> None:
    ptx = ".entry ab() { ret; }\n.visible .entry a(.param .u64 x) { { // } \n } /* } */ ret; }\n.entry c() { }\n"
    assert entry_text(ptx, "a") == ".visible .entry a(.param .u64 x) { { // } \n } /* } */ ret; }\n"
    with pytest.raises(UsageError):
        entry_text(ptx, "d")


def test_machine_code_beside_source_and_ptx(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if find_disassembler() is None:
        pytest.skip("nvdisasm is not installed")
    (work / "s.cu").write_text(
        "__global__ void k(const float* x, float* y) {\n    __shared__ float s[512];\n    s[threadIdx.x] = x[threadIdx.x * 8];\n"
        "    __syncthreads();\n    y[threadIdx.x] = s[2 * threadIdx.x] + s[2 * threadIdx.x + 1];\n}\n"
    )
    assert run("s.cu", "--sass", "--json", "s.json") == 0
    output = capsys.readouterr().out
    assert output.startswith("k on sm_90: ")
    lines = output.splitlines()
    heading = next(k for k, line in enumerate(lines) if line == "s.cu:5  y[threadIdx.x] = s[2 * threadIdx.x] + s[2 * threadIdx.x + 1];")
    assert lines[heading + 1] == "  compiler changed this access: 3 memory instructions in PTX, 2 on the machine"
    load = next(line for line in lines if "ld.global.f32" in line)
    assert "LDG.E" in load
    assert any("× 32 bytes" in line for line in lines)
    (kernel,) = json.loads((work / "s.json").read_text())["sass"]
    assert (kernel["name"], kernel["entry"]) == ("k", "_Z1kPKfPf")
    assert [line["line"] for line in kernel["lines"] if line["changed"]] == [5]
    assert {change["how"] for change in kernel["changes"]} == {"merged"}
    assert {i["file"] for i in kernel["instructions"]} == {str(work / "s.cu")}


def test_machine_code_without_nvdisasm_wrong(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_disassembler", lambda: None)
    sass._disassembler.cache_clear()
    assert run("a.cu", "--sass") == 3
    sass._disassembler.cache_clear()
    assert "pip install 'gridstride[sass]'" in capsys.readouterr().err
