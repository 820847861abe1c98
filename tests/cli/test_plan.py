"""`gridstride plan`: the textbook figures, as table and as JSON, and the refusals."""

import json

import pytest

from gridstride.cli import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *arguments])
    return int(ended.value.code or 0)


def test_a_million_elements(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("1000000", "--block", "256") == 0
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert dict(rows) == {
        "block": "256 threads, 8 warps",
        "grid": "3,907 blocks",
        "threads": "1,000,192",
        "idle threads": "192 (0.0192 %)",
        "last block": "3,906: covers 999,936 to 1,000,191, 64 of its threads work",
        "occupancy": "100.0 %: 8 blocks a multiprocessor, limited by warps",
        "waves": "3.70: 132 multiprocessors hold 1,056 blocks at once",
    }


def test_an_image_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("1920x1080", "--block", "16x16", "--device", "rtx3090", "--registers", "64", "--shared", "16384", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["device"] == "sim:rtx3090"
    assert (document["grid"], document["blocks"], document["idle_threads"]) == ([120, 68, 1], 8160, 15_360)
    assert document["last_block"] == {"index": [119, 67, 0], "first": [1904, 1072, 0], "last": [1919, 1087, 0], "working_threads": 128}
    assert document["occupancy"] == {
        "registers": 64,
        "theoretical_pct": 66.67,
        "limits": {"registers": 4, "shared": 5, "warps": 6, "blocks": 16},
        "limiter": "registers",
    }
    assert document["waves"] == pytest.approx(8160 / (4 * 82), abs=1e-4)


def test_the_default_block_has_the_problems_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = []
    for size in ("1000", "100x100", "40x40x40"):
        assert run(size, "--json", "-") == 0
        blocks.append(json.loads(capsys.readouterr().out)["block"])
    assert blocks == [[256, 1, 1], [32, 8, 1], [32, 4, 2]]


def test_idle_lanes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("8000", "--block", "100") == 0
    assert "100 threads, 4 warps, 28 lanes of the last one without a thread" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1000", "--block", "2048"], "the block's x dimension is 2,048 threads; the limit is 1,024"),
        (["1e6", "--shared", "1GB"], "1,073,741,824 bytes of shared memory a block are too many: H200 SXM 141GB allows 232,448, static and dynamic together"),
        (["0"], "every dimension of the problem must be at least 1, not 0 × 1 × 1"),
        (["1000", "--block", "0"], "every dimension of the block must be at least 1, not 0 × 1 × 1"),
        (["1x70000", "--block", "1x1"], "the grid's y dimension is 70,000 blocks; the limit is 65,535"),
        (["lots"], "cannot read the size `lots`: give one to three whole numbers, such as 256, 16x16 or 8,8,4"),
        (["1000", "--device", "h300"], "there is no device `h300` in the table; did you mean h200 or h100 or rtx3090? `gridstride devices` lists all"),
    ],
)
def test_plan_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"gridstride: {message}\n")
