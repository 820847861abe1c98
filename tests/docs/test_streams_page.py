"""The examples of docs/streams.md run, and print what the page says they print.

After a change that is meant: `python tests/docs/test_streams_page.py --write` puts what is printed now into the page, whole where lines were left out (`…`); read the difference.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import gridstride as gs

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"
_FENCE = re.compile(r"^```(\w+)( continued| setup)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LEFT_OUT = "…"
"""A line of an output that stands for any number of lines."""


@dataclass(frozen=True)
class Block:
    """Code, the line of the page above it, and what it prints."""

    code: str
    line: int
    shown: str = ""


@dataclass(frozen=True)
class Example:
    """Blocks of the page that share a namespace, in order."""

    title: str
    blocks: list[Block]


def examples(page: str) -> list[Example]:
    """The examples of a page. A block is `python setup` (begins every example), python, `python continued` (goes on from the one before), or
    text (what the python block directly above prints)."""
    found: list[Example] = []
    setup: list[Block] = []
    behind = -1
    for fence in _FENCE.finditer(page):
        language, mark, body = fence.groups()
        block = Block(body, page.count("\n", 0, fence.start()) + 1)
        if language == "python" and mark == " setup":
            setup = [block]
        elif language == "python":
            if mark is None:
                titles = re.findall(r"^## (.*)$", page[: fence.start()], re.MULTILINE)
                found.append(Example(titles[-1], list(setup)))
            found[-1].blocks.append(block)
            behind = fence.end() + 1
        elif language == "text" and fence.start() == behind:
            found[-1].blocks[-1] = replace(found[-1].blocks[-1], shown=body)
    return found


def kernels(page: str) -> str:
    """The content of `streams.cu`."""
    found = re.search(r"^```cuda\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def outputs(example: Example) -> Iterator[str]:
    """What each block prints, run in the current folder."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in example.blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("\n" * block.line + block.code, str(PAGE), "exec", dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the page's own code
        yield "".join(text.rstrip() + "\n" for text in printed.getvalue().splitlines())


def agrees(printed: str, shown: str) -> bool:
    """Whether an output is what the page shows, where a line `…` stands for any lines."""
    lines = (r"(?:.*\n)*?" if line == _LEFT_OUT else re.escape(line) + r"\n" for line in shown.splitlines())
    return re.fullmatch("".join(lines), printed) is not None


def rewritten(page: str) -> str:
    """The page with what its examples print now. Outputs that still agree stay as they are."""
    for example in examples(page):
        for block, printed in zip(example.blocks, outputs(example), strict=True):
            before = f"{block.code}```\n```text\n{block.shown}```\n"
            if not agrees(printed, block.shown):
                assert before in page, f"no ```text block for what this prints:\n{block.code}\n{printed}"
                page = page.replace(before, f"{block.code}```\n```text\n{printed}```\n")
    return page


TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples(TEXT)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.title}:{example.blocks[1].line}")
def test_the_example_prints_what_the_page_says(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streams.cu").write_text(kernels(TEXT), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    for block, printed in zip(example.blocks, outputs(example), strict=True):
        assert agrees(printed, block.shown), f"line {block.line} of the page prints\n{printed}\nand the page says\n{block.shown}"


def test_no_block_is_forgotten() -> None:
    assert len(EXAMPLES) > 12
    blocks = [block for example in EXAMPLES for block in example.blocks[1:]]
    assert len(blocks) == TEXT.count("\n```python") - 1
    assert sum(bool(block.shown) for block in blocks) == TEXT.count("\n```text")


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


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("streams.cu").write_text(kernels(TEXT), encoding="utf-8")
        PAGE.write_text(rewritten(TEXT), encoding="utf-8")
