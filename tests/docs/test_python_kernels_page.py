"""The examples of docs/python_kernels.md run, and print what the page says they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import DOCS, Example, Page

pytest.importorskip("numba.cuda")
PAGE = Page(DOCS / "python_kernels.md")


@pytest.mark.parametrize("example", PAGE.examples, ids=lambda example: f"{example.title}:{example.blocks[1].line}")
def test_the_example_prints_what_the_page_says(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PAGE.require_printed(example)


def test_no_block_is_forgotten() -> None:
    PAGE.require_whole(6)
