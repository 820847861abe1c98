"""Nsight Compute (`ncu`): how it is called, and what it prints, read."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_PERMISSION = "ERR_NVGPUCTRPERM"


def find_ncu() -> str | None:
    """The profiler's path; None where it is not on PATH."""
    return shutil.which("ncu")


def command(ncu: str, metrics: Sequence[str], log: Path, cache_control: str, program: Sequence[str]) -> list[str]:
    """The command line that runs `program` and leaves the counters of its launches in `log`. Clocks are left as they are."""
    return [
        *(ncu, "--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(metrics), "--cache-control", cache_control, "--clock-control", "none"),
        *("--log-file", str(log), *program),
    ]


def parse_csv(text: str) -> list[dict[str, float]]:
    """The metrics of each launch, in the order of the launches, from the raw page as CSV: a row of names, a row of units, a row a launch.

    Lines of the profiler's own and of the program may come before the table. Values that the profiler does not know are left out.
    Empty where the text holds no table.
    """
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    rows = [row for row in csv.reader(lines[start:]) if row]
    names = rows[0]
    launches = []
    for row in rows[1:]:
        if len(row) == len(names) and row[0].strip().isdigit():  # neither the units nor a message after the table
            cells = {name: _number(cell) for name, cell in zip(names, row, strict=True) if "__" in name}
            launches.append({name: value for name, value in cells.items() if value is not None})
    return launches


def _number(cell: str) -> float | None:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def complaint(output: str) -> str:
    """Why the profiler read nothing, from all that it printed, as a clause."""
    if _PERMISSION in output:
        return f"the driver lets only administrators read counters here ({_PERMISSION}); run as root, or ask for the permission"
    said = [line.removeprefix("==ERROR==").strip() for line in output.splitlines() if line.startswith("==ERROR==")]
    return f"ncu said: {' '.join(said)}" if said else "ncu read no counters and did not say why"


def by_job(launches: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, Mapping[str, float]]:
    """The counters under the names of the launches, which ran in this order. Empty where there are not as many of one as of the other."""
    return dict(zip(names, launches, strict=True)) if len(names) == len(launches) else {}
