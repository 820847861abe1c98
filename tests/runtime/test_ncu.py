"""Nsight Compute's output, read: what version 2025.3.1 wrote on an H200 for two launches of the truth set (`--page raw --csv`, without the
columns about the machine), held against what the truth set says of the same launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridstride.observers.metrics.nsight import COUNTERS
from gridstride.runtime import ncu

RECORDED = (Path(__file__).parent / "data" / "ncu_raw.csv").read_text(encoding="utf-8")
TRUTH = json.loads((Path(__file__).parent.parent / "truth" / "counters.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("launch", "case"), [(0, "vec_add"), (1, "transpose_tile")])
def test_what_ncu_wrote_is_what_the_truth_set_says(launch: int, case: str) -> None:
    read = ncu.parse_csv(RECORDED)[launch]
    # Times and the traffic behind L1 vary from run to run.
    stable = [name for name in TRUTH[case] if name in read and not name.startswith(("gpu__", "dram__", "lts__"))]
    assert len(stable) > 40
    assert {name: read[name] for name in stable} == {name: TRUTH[case][name] for name in stable}


def test_all_counters_of_the_table_are_read() -> None:
    for read in ncu.parse_csv(RECORDED):
        assert {counter.nsight for counter in COUNTERS} - set(read) == set()


def test_units_and_thousands() -> None:
    first, second = ncu.parse_csv(RECORDED)
    assert (first["launch__thread_count"], second["launch__thread_count"]) == (100_096, 17_920)
    assert 1_000 < first["gpu__time_duration.sum"] < 10_000  # nanoseconds
    assert "Process ID" not in first and "Block Size" not in first


def test_no_table() -> None:
    assert ncu.parse_csv("==PROF== Connected\n==WARNING== No kernels were profiled.\n") == []
    assert ncu.parse_csv("") == []


def test_what_ncu_does_not_know_is_left_out_and_rows_after_the_table_are_none() -> None:
    text = '"ID","Kernel Name","a__b.sum","c__d.pct"\n"","","","%"\n"0","k(int, float)","n/a","12.50"\n==PROF== Disconnected\n'
    assert ncu.parse_csv(text) == [{"c__d.pct": 12.5}]


def test_complaints() -> None:
    assert ncu.complaint("==ERROR== The application returned an error code (1).\n") == "ncu said: The application returned an error code (1)."
    assert ncu.complaint("==PROF== Connected") == "ncu read no counters and did not say why"


def test_the_command(tmp_path: Path) -> None:
    command = ncu.command("/opt/ncu", ["a__b", "c__d"], tmp_path / "log", "none", ["python", "-m", "x"])
    assert command[0] == "/opt/ncu" and command[-3:] == ["python", "-m", "x"]
    for option, value in (("--metrics", "a__b,c__d"), ("--page", "raw"), ("--print-units", "base"), ("--cache-control", "none")):
        assert command[command.index(option) + 1] == value
