"""`gridstride access`: the textbook's figures, totals against the truth set's counters, pictures, and the refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gridstride.cli import main

TRUTH = Path(__file__).parents[1] / "truth"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["access", *arguments])
    return int(ended.value.code or 0)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(*arguments, "--json", "-") == 0
    return json.loads(capsys.readouterr().out)


def test_the_sectors_of_the_book(capsys: pytest.CaptureFixture[str]) -> None:
    sectors = [document(capsys, "x[i * stride + offset]", "-s", f"stride={s}", "-s", "offset=0")["sectors"] for s in (1, 2, 4, 8, 32)]
    assert sectors == [4, 8, 16, 32, 32]
    assert document(capsys, "x[i + 1]")["sectors"] == 5
    assert document(capsys, "x[7]")["sectors"] == 1
    assert document(capsys, "p[i]", "--type", "float4")["sectors"] == 16
    assert document(capsys, "image[threadIdx.x][0]", "--pitch", "1024", "--type", "float4")["sectors"] == 32


@pytest.mark.parametrize(("pitch", "row", "column"), [(32, 1, 32), (33, 1, 1), (64, 1, 32), (31, 1, 1)])
def test_the_bank_passes_of_the_book(capsys: pytest.CaptureFixture[str], pitch: int, row: int, column: int) -> None:
    for text, passes in (("s[0][threadIdx.x]", row), ("s[threadIdx.x][0]", column)):
        found = document(capsys, text, "--pitch", str(pitch), "--space", "shared")
        assert found["passes"] == passes
        assert found.get("better_pitch") == ({"elements": pitch + 1, "passes": 1} if passes > 1 else None)


def test_the_layouts_of_the_book(capsys: pytest.CaptureFixture[str]) -> None:
    for addresses, number, used in (("0,32,64,96", 4, 25), ("0,4,8,12", 1, 100)):
        assert document(capsys, addresses, "--segment", "16")["transactions"] == {"segment_bytes": 16, "number": number, "efficiency_pct": used}


@pytest.mark.parametrize(
    ("case", "loads", "stores"),
    [
        ("transpose_naive", "in[(blockIdx.y * 32 + threadIdx.y + j * 8) * w + blockIdx.x * 32 + threadIdx.x]", "out[(blockIdx.x * 32 + threadIdx.x) * h + blockIdx.y * 32 + threadIdx.y + j * 8]"),
        ("transpose_tile", "in[(blockIdx.y * 32 + threadIdx.y + j * 8) * w + blockIdx.x * 32 + threadIdx.x]", "out[(blockIdx.x * 32 + threadIdx.y + j * 8) * h + blockIdx.y * 32 + threadIdx.x]"),
    ],
)
def test_totals_of_a_launch_are_the_hardwares(capsys: pytest.CaptureFixture[str], case: str, loads: str, stores: str) -> None:
    launch = next(c for c in json.loads((TRUTH / "cases.json").read_text()) if c["name"] == case)
    read = json.loads((TRUTH / "counters.json").read_text())[case]
    width, height = (argument[1] for argument in launch["args"] if argument[0] == "i32")
    for text, operation, kind in ((loads, "ld", "load"), (stores, "st", "store")):
        bound = "blockIdx.x * 32 + threadIdx.x < w && blockIdx.y * 32 + threadIdx.y + j * 8 < h"
        if case == "transpose_tile" and kind == "store":
            bound = "blockIdx.y * 32 + threadIdx.x < h && blockIdx.x * 32 + threadIdx.y + j * 8 < w"
        found = document(
            capsys, text, "--grid", "x".join(map(str, launch["grid"])), "--block", "x".join(map(str, launch["block"])),
            "-s", f"w={width}", "-s", f"h={height}", "--loop", "j=4", "--where", bound, "--kind", kind,
        )  # fmt: skip
        assert found["totals"]["requests"] == read[f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum"]
        assert found["totals"]["sectors"] == read[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum"]


def test_the_picture_of_sectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("x[i + 1]") == 0
    assert capsys.readouterr().out == (
        "global load of 4 bytes a lane by all 32 lanes: 128 bytes asked, 128 distinct\n"
        "5 sectors a request (at least 4): 160 bytes moved, 80.0 % of them needed\n"
        "  the first lane's address is 4 bytes past a sector: aligned, it would be 4\n"
        "\n"
        "   sector at  words     lanes\n"
        "           0  ░███████  0-6\n"
        "          32  ████████  7-14\n"
        "          64  ████████  15-22\n"
        "          96  ████████  23-30\n"
        "         128  █░░░░░░░  31\n"
    )


def test_the_picture_of_banks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("s[threadIdx.x % 16 * 16]", "--space", "shared") == 0
    assert capsys.readouterr().out == (
        "shared load of 4 bytes a lane by all 32 lanes: 128 bytes asked, 64 distinct\n"
        "8 passes over the banks (at least 1)\n"
        "\n"
        "bank  words  lanes of each word\n"
        "   0      8  ■■■■■■■■ 0, 16 | 2, 18 | 4, 20 | 6, 22 | 8, 24 | 10, 26 | 12, 28 | 14, 30\n"
        "  16      8  ■■■■■■■■ 1, 17 | 3, 19 | 5, 21 | 7, 23 | 9, 25 | 11, 27 | 13, 29 | 15, 31\n"
        "30 banks idle\n"
    )


def test_bytes_and_lanes_that_stay_away(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "x[i]", "--type", "u8", "--where", "i >= 4 && i < 20")
    assert (found["active_lanes"], found["sectors"], found["bytes_asked"], found["addresses"][3:5]) == (16, 1, 16, [None, 4])
    assert document(capsys, "x[i]", "--block", "40", "--warp", "1")["active_lanes"] == 8
    assert document(capsys, "0x40, 0x44", "--base", "16")["addresses"][:3] == [80, 84, None]


def test_names_may_use_names_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "x[row * n + col]", "-s", "n=64", "-s", "row=threadIdx.y", "-s", "col=threadIdx.x", "--block", "8x4")
    assert found["addresses"][:9] == [0, 4, 8, 12, 16, 20, 24, 28, 256]


def test_reads_of_a_convolution(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("in[(threadIdx.y+a)*4+threadIdx.x+b]", "--block", "2x2", "--loop", "a=3", "--loop", "b=3", "--reads", "16")
    found = document(capsys, *arguments)["reads"]
    assert found == {"per_element": [1, 2, 2, 1, 2, 4, 4, 2, 2, 4, 4, 2, 1, 2, 2, 1], "total": 36, "elements_read": 16}
    assert run(*arguments) == 0
    assert capsys.readouterr().out.endswith(
        "36 reads of 16 elements, 2.25 reads each; loaded once into shared memory: 16\n1 2 2 1\n2 4 4 2\n2 4 4 2\n1 2 2 1\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x[i*n]"], "`x[i*n]` needs a value for n: give it with --set n=…"),
        (["x[i", "--block", "32"], "cannot read `x[i`: it ends too early"),
        (["x[i]", "--type", "quad"], "there is no type `quad` here; known are "),
        (["x[i]", "--space", "local"], "--space is global or shared, not `local`"),
        (["s[i]", "--space", "shared", "--kind", "atomic"], "the passes of shared atomics depend on more than their addresses"),
        (["x[i]", "--warp", "1"], "a block of 32 threads has warps 0 to 0, not 1"),
        (["x[i - 1]"], "`x[i - 1]` is negative for a thread that takes part"),
        (["x[i]", "--set", "3=4"], "cannot read --set `3=4`: write NAME=VALUE"),
        (["x[i]", "--loop", "k=0"], "--loop k=0: the bound is a whole number of at least 1"),
        (["x[i]", "--block", "2048"], "the block's x dimension is 2,048 threads; the limit is 1,024"),
        (["x[i]", "--base", "2"], "lane 0 accesses 4 bytes at 2, which is no multiple of 4"),
        (["x[i]", "--grid", "1000000"], "1,000,000 warp accesses are too many to add up: the limit is 200,000; take a smaller grid"),
        (["x[i]", "--reads", "8"], "element 31 is outside of the buffer, which has 8"),
    ],
)
def test_access_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gridstride: {message}")
