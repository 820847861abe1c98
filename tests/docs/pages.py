"""Pages of docs/ whose examples run, and print what the page says they print.

A page's blocks are `python setup` (begins every example), `python`, `python continued` (goes on from the one before), `text` (what the python block directly above
prints; a line `…` stands for any lines) and one `cuda`, the file that lies beside the examples.

After a change that is meant: `python tests/docs/pages.py streams.cu docs/streams.md` (or `… pages.py docs/python_kernels.md`) puts what is printed now into the page, whole where lines were left out; read the difference.
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
from functools import cached_property
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
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
    """The content of the file with the kernels."""
    found = re.search(r"^```cuda\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def outputs(example: Example, file: Path) -> Iterator[str]:
    """What each block prints, run in the current folder, as code of the page's `file`: compilers of Python look there for their source."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in example.blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("\n" * block.line + block.code, str(file), "exec", dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the page's own code
        yield "".join(text.rstrip() + "\n" for text in printed.getvalue().splitlines())


def agrees(printed: str, shown: str) -> bool:
    """Whether an output is what the page shows, where a line `…` stands for any lines."""
    lines = (r"(?:.*\n)*?" if line == _LEFT_OUT else re.escape(line) + r"\n" for line in shown.splitlines())
    return re.fullmatch("".join(lines), printed) is not None


def rewritten(page: str, file: Path) -> str:
    """The page with what its examples print now. Outputs that still agree stay as they are."""
    for example in examples(page):
        for block, printed in zip(example.blocks, outputs(example, file), strict=True):
            before = f"{block.code}```\n```text\n{block.shown}```\n"
            if not agrees(printed, block.shown):
                assert before in page, f"no ```text block for what this prints:\n{block.code}\n{printed}"
                page = page.replace(before, f"{block.code}```\n```text\n{printed}```\n")
    return page



@dataclass(frozen=True)
class Page:
    """A page, and the name of the file with its kernels, if it has them in one."""

    path: Path
    source: str = ""

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def examples(self) -> list[Example]:
        return examples(self.text)

    def require_printed(self, example: Example) -> None:
        """Run an example in the current folder, which gets the file with the kernels."""
        if self.source:
            Path(self.source).write_text(kernels(self.text), encoding="utf-8")
        for block, printed in zip(example.blocks, outputs(example, self.path), strict=True):
            assert agrees(printed, block.shown), f"line {block.line} of the page prints\n{printed}\nand the page says\n{block.shown}"

    def require_whole(self, least: int) -> None:
        """No block is forgotten, and there are as many examples at least."""
        assert len(self.examples) >= least
        blocks = [block for example in self.examples for block in example.blocks[1:]]
        assert len(blocks) == self.text.count("\n```python") - 1
        assert sum(bool(block.shown) for block in blocks) == self.text.count("\n```text")


if __name__ == "__main__":
    page = Page(Path(sys.argv[-1]).absolute(), *sys.argv[1:-1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if page.source:
            Path(page.source).write_text(kernels(page.text), encoding="utf-8")
        page.path.write_text(rewritten(page.text, page.path), encoding="utf-8")
