"""The examples of docs/contracts.md run, and print what the page says they print; its table names every clause."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import gridstride as gs

from .pages import DOCS, Example, Page

PAGE = Page(DOCS / "contracts.md", "k.cu")


@pytest.mark.parametrize("example", PAGE.examples, ids=lambda example: f"{example.title}:{example.blocks[1].line}")
def test_the_example_prints_what_the_page_says(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PAGE.require_printed(example)


def test_no_block_is_forgotten() -> None:
    PAGE.require_whole(6)


def test_the_table_has_every_clause() -> None:
    named = re.findall(r"^\| `(\w+)`", PAGE.text, re.MULTILINE)
    assert named == [field.name for field in fields(gs.Contract)]
