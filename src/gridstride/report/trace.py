"""Timelines as Chrome's trace events, which Perfetto and `chrome://tracing` show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridstride.events.operations import Kind, Operation
from gridstride.events.timeline import Timeline
from gridstride.report import files

_HOST = 0


def write(path: Path, timelines: Sequence[Timeline]) -> None:
    """Write a trace; the file is complete or not there. Raises UsageError where it cannot be written."""
    text = json.dumps(events(timelines), ensure_ascii=False)
    files.write(path, lambda file: file.write(text.encode()))


def events(timelines: Sequence[Timeline]) -> dict[str, Any]:
    """The trace: a process for each device, in it a row for the host's waits and one for each stream. Times in microseconds."""
    found: list[dict[str, Any]] = []
    for process, timeline in enumerate(timelines):
        found.append(_name("process_name", process, 0, f"{timeline.device} ({'measured' if timeline.measured else 'modelled'})"))
        found.append(_name("thread_name", process, _HOST, "host"))
        found += [_span(process, _HOST, f"wait: {w.what}", "host", w.start, w.end, {}) for w in timeline.host_waits]
        for thread, (name, row) in enumerate(timeline.rows(), _HOST + 1):
            found.append(_name("thread_name", process, thread, name.removeprefix("the ").replace("`", "")))
            found += [_span(process, thread, p.operation.name, p.operation.kind.value, p.start, p.end, _facts(p.operation)) for p in row]
    return {"traceEvents": found, "displayTimeUnit": "ns"}


def _facts(operation: Operation) -> dict[str, Any]:
    facts: dict[str, Any] = {"stream": operation.where.replace("`", "")}
    if operation.nbytes:
        facts["bytes"] = operation.nbytes
        if operation.microseconds:
            facts["GB/s"] = round(operation.nbytes / operation.microseconds / 1e3, 2)
    if operation.kind is Kind.KERNEL:
        facts["share of the device"] = round(operation.share, 4)
    if operation.pageable:
        facts["memory"] = "pageable"
    if operation.buffers:
        facts["buffers"] = ", ".join(operation.buffers)
    return facts


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(process: int, thread: int, name: str, category: str, start: float, end: float, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": round(start, 3),
        "dur": round(end - start, 3),
        "args": facts,
    }
