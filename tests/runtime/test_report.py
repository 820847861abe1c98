"""Results as JSON, NPZ and text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gridstride.errors import UsageError
from gridstride.findings import Finding, Site
from gridstride.machine.devices import find_device
from gridstride.machine.occupancy import occupancy
from gridstride.report import files, findings_text
from gridstride.report import json as json_report
from gridstride.report import text as text_report
from gridstride.report.model import CaseResult, Failure, Receipt, RunResult
from gridstride.report.source_lines import SourceLines

FAULT = Finding(
    code="GS001",
    kind="out-of-bounds",
    severity="error",
    message="a write of 4 bytes past the end of y",
    advice="guard it with if (i < n)",
    kernel="saxpy",
    site=Site("saxpy.cu", 3, 61, (3, 0, 0), (232, 0, 0)),
    space="global",
    buffer="y",
    index=1000,
    address=0x7F0000000FA0,
    count=24,
)
OK = CaseResult(
    "one",
    "saxpy",
    seconds=0.0125,
    receipt=Receipt(1, 1024),
    outputs={3: np.arange(8, dtype=np.float32).reshape(2, 4)},
    output_names={3: "y"},
)
FAULTY = CaseResult("two", "saxpy", failure=Failure("out-of-bounds", FAULT.message), findings=(FAULT,), receipt=Receipt(1, 1024))


def rendered(item: Any) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(item)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_a_run_that_was_interrupted_is_not_called_clean() -> None:
    interrupted = CaseResult("a", "a", failure=Failure("interrupted", "interrupted"))
    assert rendered(findings_text.verdict([interrupted])).startswith("no findings before it ended early, in 0 launches, 0 threads\n")


def test_json_is_the_published_schema() -> None:
    document = json_report.as_json(RunResult("sim:h200", (OK, FAULTY)))
    assert json.loads(json.dumps(document)) == {
        "schema": 1,
        "device": "sim:h200",
        "cases": [
            {
                "name": "one",
                "kernel": "saxpy",
                "status": "ok",
                "error": None,
                "seconds": 0.0125,
                "counters": {},
                "occupancy": None,
                "estimate_us": None,
                "findings": [],
                "receipt": {
                    "launches": 1,
                    "threads": 1024,
                    "accesses": None,
                    "bytes": None,
                    "checks": ["out-of-bounds", "misaligned", "deadlock"],
                    "skipped": [],
                },
            },
            {
                "name": "two",
                "kernel": "saxpy",
                "status": "error",
                "error": {"code": "out-of-bounds", "message": "a write of 4 bytes past the end of y"},
                "seconds": None,
                "counters": {},
                "occupancy": None,
                "estimate_us": None,
                "findings": [
                    {
                        "code": "GS001",
                        "kind": "out-of-bounds",
                        "severity": "error",
                        "message": "a write of 4 bytes past the end of y",
                        "advice": "guard it with if (i < n)",
                        "kernel": "saxpy",
                        "file": "saxpy.cu",
                        "line": 3,
                        "ptx_line": 61,
                        "block": [3, 0, 0],
                        "thread": [232, 0, 0],
                        "other": None,
                        "space": "global",
                        "buffer": "y",
                        "index": 1000,
                        "address": 0x7F0000000FA0,
                        "count": 24,
                    }
                ],
                "receipt": {
                    "launches": 1,
                    "threads": 1024,
                    "accesses": None,
                    "bytes": None,
                    "checks": ["out-of-bounds", "misaligned", "deadlock"],
                    "skipped": [],
                },
            },
        ],
    }


def test_occupancy_in_json() -> None:
    case = CaseResult("one", "k", occupancy=occupancy(find_device("h200"), 256, 64))
    assert json_report.as_json(RunResult("sim:h200", (case,)))["cases"][0]["occupancy"] == {
        "registers": 64,
        "theoretical_pct": 50.0,
        "limits": {"registers": 4, "shared": 228, "warps": 8, "blocks": 32},
        "limiter": "registers",
    }


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ([None], 0),
        ([], 0),
        (["launch"], 2),
        (["compile"], 2),
        (["parse"], 2),
        (["unsupported"], 3),
        (["misaligned"], 1),
        (["deadlock", "launch", "unsupported"], 1),
        (["unsupported", "launch"], 2),
        (["interrupted", "trap"], 130),
    ],
)
def test_exit_status(codes: list[str | None], status: int) -> None:
    cases = tuple(CaseResult(str(i), "k", failure=Failure(code, "") if code else None) for i, code in enumerate(codes))
    assert RunResult("sim", cases).exit_status == status


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunResult("sim:h200", (OK,))
    json_report.write_json(run, tmp_path / "r.json")
    json_report.write_arrays(run, tmp_path / "r.npz")
    assert json.loads((tmp_path / "r.json").read_text())["device"] == "sim:h200"
    with np.load(tmp_path / "r.npz") as saved:
        assert list(saved) == ["one.3"]
        assert np.array_equal(saved["one.3"], np.arange(8, dtype=np.float32).reshape(2, 4))
    before = (tmp_path / "r.npz").read_bytes()

    def fails(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(UsageError, match=re.escape(f"cannot write {tmp_path}/r.npz: No space left on device")):
        json_report.write_arrays(run, tmp_path / "r.npz")
    assert (tmp_path / "r.npz").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.npz"]


def test_unwritable_places_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(f"cannot write {tmp_path}: it is a folder")):
        files.require_writable(tmp_path)
    with pytest.raises(UsageError, match=re.escape(f"cannot write {tmp_path}/no/r.json: No such file or directory")):
        files.require_writable(tmp_path / "no" / "r.json")
    files.require_writable(tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == []


def test_a_finding_for_people(tmp_path: Path) -> None:
    (tmp_path / "saxpy.cu").write_text("// saxpy\nint i = 0;\n    y[i] = a * x[i];\n")
    assert rendered(findings_text.finding(FAULT, SourceLines(tmp_path))) == (
        "error[GS001] out-of-bounds: a write of 4 bytes past the end of y\n"
        "  at saxpy.cu:3\n"
        "    3 | y[i] = a * x[i];\n"
        "  in kernel saxpy, block (3, 0, 0), thread (232, 0, 0)\n"
        "  global memory, y[1000] (address 0x7f0000000fa0)\n"
        "  24 times\n"
        "  what to do: guard it with if (i < n)"
    )


def test_source_lines_are_found_by_bare_name_and_in_texts(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("first\n  second [bold]\n")
    lines = SourceLines(tmp_path, {"source.cu": "a\nb\n"})
    assert lines.line("/elsewhere/src/k.cu", 2) == "second [bold]"
    assert lines.line("source.cu", 2) == "b"
    for missing in (lines.line("k.cu", 3), lines.line("k.cu", 0), lines.line("other.cu", 1), lines.line(None, 1), lines.line("k.cu", None)):
        assert missing is None


def test_a_source_that_was_edited_is_read_again(tmp_path: Path) -> None:
    lines = SourceLines(tmp_path)
    (tmp_path / "k.cu").write_text("old\n")
    assert lines.line("k.cu", 1) == "old"
    (tmp_path / "k.cu").write_text("newer\n")
    assert lines.line("k.cu", 1) == "newer"


def test_summary_of_one_launch() -> None:
    assert rendered(text_report.summary(RunResult("sim:h200", (OK,)), detailed=True)) == (
        "saxpy on sim:h200: 1,024 threads in 12.5 ms on this machine's processor\n"
        "output  type          first elements  min  mean  max\n"
        "y       float32[2,4]  0 1 2 3 4 5 …   0    3.5   7"
    )


def test_summary_of_cases() -> None:
    assert rendered(text_report.summary(RunResult("sim:h200", (OK, FAULTY)), detailed=False)) == (
        "case  kernel  status            time  outputs\n"
        "one   saxpy   ok             12.5 ms        1\n"
        "two   saxpy   out-of-bounds        -        0\n"
        "2 cases on sim:h200: 1 ok, 1 failed; kernels ran 12.5 ms"
    )


@pytest.mark.parametrize(("seconds", "text"), [(None, "-"), (0.0, "0 µs"), (1.5e-6, "1.5 µs"), (0.0123456, "12.3 ms"), (75.0, "75 s")])
def test_durations(seconds: float | None, text: str) -> None:
    assert text_report.duration(seconds) == text


def test_outputs_with_odd_values() -> None:
    assert text_report.first_elements(np.array([np.nan, np.inf, 1e-30], np.float32)) == "nan inf 1e-30"
    assert text_report.first_elements(np.array([], np.int32)) == ""
    assert text_report.first_elements(np.array([2**64 - 1], np.uint64)) == "18446744073709551615"
    empty = CaseResult("e", "k", seconds=0.0, outputs={0: np.array([], np.int32)})
    assert "-" in rendered(text_report.summary(RunResult("sim", (empty,)), detailed=True))
