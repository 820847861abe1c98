"""`gridstride occupancy`: the textbook figures, launches of the truth set, and the refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridstride.cli import main
from gridstride.cli.options import parse_bytes
from gridstride.errors import UnsupportedError
from gridstride.frontends import nvrtc

TRUTH = Path(__file__).parents[1] / "truth"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["occupancy", *arguments])
    return int(ended.value.code or 0)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    assert run(*arguments, "--json", "-") == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks", "percent"),
    [
        ("h200", 256, 32, "0", 8, 100),
        ("h200", 256, 64, "0", 4, 50),
        ("h200", 256, 128, "0", 2, 25),
        ("rtx3090", 256, 32, "0", 6, 100),
        ("rtx3090", 256, 64, "16KB", 4, 66.67),
        ("rtx3090", 128, 32, "48K", 2, 16.67),
    ],
)
def test_textbook_figures(
    capsys: pytest.CaptureFixture[str], device: str, threads: int, registers: int, shared: str, blocks: int, percent: float
) -> None:
    found = document(capsys, "--device", device, "--threads", str(threads), "--registers", str(registers), "--shared", shared)
    assert (found["blocks_per_multiprocessor"], found["occupancy"]["theoretical_pct"]) == (blocks, percent)
    (here,) = (point for point in found["curve"] if point["threads"] == threads)
    assert (here["blocks"], here["theoretical_pct"]) == (blocks, percent)


def test_what_one_more_block_needs_is_enough_and_no_less_is(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--threads", "128")
    found = document(capsys, *arguments, "--registers", "72", "--shared", "0")
    assert found["limiters"] == ["registers"]
    most = found["one_more_block"]["registers"]
    blocks = [document(capsys, *arguments, "--registers", str(r))["blocks_per_multiprocessor"] for r in (72, most, most + 1)]
    assert blocks == [7, 8, 7]
    found = document(capsys, *arguments, "--registers", "32", "--shared", "40000")
    assert found["limiters"] == ["shared"]
    most = found["one_more_block"]["shared"]
    blocks = [
        document(capsys, *arguments, "--registers", "32", "--shared", str(s))["blocks_per_multiprocessor"] for s in (40000, most, most + 1)
    ]
    assert blocks == [5, 6, 5]
    assert document(capsys, *arguments, "--registers", "16")["one_more_block"] == {}


def test_carveout_binds_shared_memory(capsys: pytest.CaptureFixture[str]) -> None:
    # As Nsight read it for reduce_tree: 32 KB set, 1,024 bytes a block and as many for the system.
    case = {c["name"]: c for c in json.loads((TRUTH / "cases.json").read_text())}["reduce_tree"]
    read = json.loads((TRUTH / "counters.json").read_text())["reduce_tree"]
    found = document(capsys, "--threads", str(case["block"][0]), "--registers", str(read["launch__registers_per_thread"]), "--shared", "1024", "--carveout", "32KB")
    assert found["occupancy"]["limits"]["shared"] == read["launch__occupancy_limit_shared_mem"]
    assert found["shared_bytes_allocated"] == read["launch__shared_mem_per_block_allocated"]


def test_waves_and_tail(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--registers", "32", "--grid", "3907")
    assert found["waves"] == {
        "blocks": 3907,
        "capacity": 1056,
        "waves": round(3907 / 1056, 4),
        "last_wave_blocks": 3907 - 3 * 1056,
        "last_wave_pct": round(100 * 739 / 1056, 2),
        "tail_waste_pct": round(100 * (4 * 1056 - 3907) / (4 * 1056), 2),
    }
    assert document(capsys, "--registers", "32", "--grid", "2112")["waves"]["tail_waste_pct"] == 0


def test_the_table_names_what_binds_and_the_best_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--threads", "256", "--registers", "40", "--shared", "16384", "--grid", "3907") == 0
    output = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line.startswith("│")]
    assert rows == [
        ["warps", "8", "8 warps of 64", ""],
        ["registers", "6", "1,280 a warp × 8 warps = 10,240 of 65,536", "binds"],
        ["shared", "13", "17,408 bytes of 233,472, 1,024 of them the system's", ""],
        ["blocks", "32", "as many as a multiprocessor has slots", ""],
    ]
    assert "occupancy 75.0 %: 6 blocks × 8 warps = 48 of 64 warps a multiprocessor, limited by registers\n" in output
    assert "one more block needs at most 32 registers a thread\n" in output
    assert "waves 4.93: 3,907 blocks, 792 at once on 132 multiprocessors; the last wave has 739 (93.3 %), tail 1.3 %\n" in output
    assert "best block: 768 threads (75.0 %), grid of at least 264 blocks" in output
    curve = [line for line in output.splitlines() if "%" in line and "█" in line]
    assert len(curve) == 32
    assert [line.split()[0] for line in curve if line.endswith("◀ this block")] == ["256"]
    assert [line.split()[0] for line in curve if line.endswith("◀ best")] == ["768"]


def test_a_kernel_that_cannot_be_launched_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--threads", "1024", "--registers", "128") == 0
    output = capsys.readouterr().out
    assert "cannot be launched: a block of 1,024 threads needs too many registers" in output
    assert "occupancy 0.0 %" in output


def test_a_kernels_needs_come_from_the_compiler(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        nvrtc.version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("GRIDSTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ void __launch_bounds__(128) tile(float* out) { __shared__ float s[1000]; s[threadIdx.x] = 1; __syncthreads(); out[0] = s[0]; }\n"
    )
    found = document(capsys, "--kernel", f"{source}:tile", "--threads", "64", "--shared", "96")
    assert (found["kernel"], found["shared_bytes"], found["curve"][-1]["threads"], found["best"]["threads"]) == ("tile", 4096, 128, 128)
    assert found["registers"] > 0
    assert run("--kernel", f"{source}:tile", "--threads", "256") == 2
    assert "the kernel was compiled for at most 128 threads a block" in capsys.readouterr().err


def test_registers_that_are_not_known_bind_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "--threads", "32")["limiters"] == ["blocks"]
    assert run("--threads", "32") == 0
    shown = capsys.readouterr().out
    (row,) = (line for line in shown.splitlines() if line.startswith("│ registers"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["registers", "?", "not known", ""]
    assert "limited by blocks\n" in shown.replace(" \n", "\n")


@pytest.mark.parametrize(("text", "number"), [("16384", 16384), ("16_384", 16384), ("16K", 16384), ("16 KiB", 16384), ("48kb", 49152), ("7B", 7), ("2MB", 2 << 20), ("1GB", 1 << 30), ("1e3", 1000)])
def test_bytes(text: str, number: int) -> None:
    assert parse_bytes(text, "--shared") == number


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "2048"], "the block's x dimension is 2,048 threads; the limit is 1,024"),
        (["--shared", "lots"], "cannot read --shared `lots`: give bytes, such as 16384 or 16KB"),
        (["--registers", "300"], "300 registers a thread are impossible: H200 SXM 141GB has 1 to 255"),
        (["--kernel", "saxpy"], "cannot read --kernel `saxpy`: write SOURCE:KERNEL, such as saxpy.cu:saxpy"),
        (["--carveout", "300KB"], "307,200 bytes is no shared-memory size of H200 SXM 141GB, which has up to 233,472"),
    ],
)
def test_occupancy_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"gridstride: {message}\n")
