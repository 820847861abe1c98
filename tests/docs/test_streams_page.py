"""The examples of docs/streams.md run, and print what the page says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gridstride as gs

from .pages import DOCS, Example, Page, agrees, kernels

PAGE = Page(DOCS / "streams.md", "streams.cu")
TEXT = PAGE.text


@pytest.mark.parametrize("example", PAGE.examples, ids=lambda example: f"{example.title}:{example.blocks[1].line}")
def test_the_example_prints_what_the_page_says(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    PAGE.require_printed(example)


def test_no_block_is_forgotten() -> None:
    PAGE.require_whole(13)


def test_the_names_of_the_table_are_there() -> None:
    """Methods and attributes after `device.`, `stream.`, `graph.`, … in the table exist."""
    device = gs.device("sim")
    stream, graph = device.stream(), device.graph()
    owners = {
        "device": device, "stream": stream, "graph": graph, "event": device.event(), "start": device.event(),
        "replay": graph.instantiate(), "x": device.zeros(1), "module": device.compile(kernels(TEXT)),
    }  # fmt: skip
    table = "".join(line.split("|")[2] for line in TEXT.splitlines() if line.startswith("| `cuda"))
    named = re.findall(r"`(?:with )?(\w+)\.(\w+)", table)
    assert len(named) > 25
    assert [f"{owner}.{name}" for owner, name in named if owner in owners and not hasattr(owners[owner], name)] == []
    assert {owner for owner, _ in named} <= {*owners, "gs"}


def test_outputs_may_leave_lines_out() -> None:
    assert agrees("a\nb\nc\n", "a\n…\nc\n") and agrees("a\nc\n", "a\n…\nc\n") and agrees("", "")
    assert not agrees("a\nb\n", "a\n") and not agrees("a\n", "")
