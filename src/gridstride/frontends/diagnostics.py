"""The compiler's log as errors and warnings that can be shown, counted and filtered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gridstride.errors import CompileError

Severity = Literal["error", "warning", "note"]
_HEADLINE = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|note|remark)(?: #(?P<code>[\w-]+))?: (?P<message>.*)$"
)
_AT_END = re.compile(r"^At end of source: (?:catastrophic )?error: (?P<message>.*)$")
_SUMMARY = re.compile(
    r"^(\d+ errors? detected in the compilation of|\d+ catastrophic errors? detected|Compilation terminated|Remark: The warnings can be suppressed)"
)


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler. `line` and `column` count from 1 and are 0 where the compiler gives none; `context` are lines that explain it."""

    severity: Severity
    file: str
    line: int
    column: int
    message: str
    source_line: str
    context: tuple[str, ...] = ()

    def render(self) -> str:
        """The message with its place, its source line and a caret below the column it means."""
        place = ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])
        lines = [f"{place}: {self.severity}: {self.message}"]
        if self.source_line.strip():
            lines.append(f"    {self.source_line}")
            if self.column:
                # Tabs stay tabs, so that the caret stands below its column whatever a tab's width is.
                lines.append("    " + "".join("\t" if c == "\t" else " " for c in self.source_line[: self.column - 1]) + "^")
        lines.extend(f"    {line}" for line in self.context)
        return "\n".join(lines)


def parse_log(log: str) -> tuple[Diagnostic, ...]:
    """The messages of an NVRTC log, in their order. Lines that belong to no message are left out."""
    found: list[Diagnostic] = []
    block: list[str] = []
    for line in [*log.splitlines(), "end(0): note: end"]:
        if _HEADLINE.match(line) or _AT_END.match(line):
            if block:
                found.append(_diagnostic(block))
            block = [line]
        elif block and not _SUMMARY.match(line):
            block.append(line)
    return tuple(found)


def _diagnostic(block: Sequence[str]) -> Diagnostic:
    if at_end := _AT_END.match(block[0]):
        return Diagnostic("error", "at the end of the source", 0, 0, at_end["message"], "")
    match = _HEADLINE.match(block[0])
    assert match is not None
    rest = [line for line in block[1:] if line.strip()]
    source_line, column = "", 0
    caret = next((i for i, line in enumerate(rest) if line.strip() == "^"), None)
    if caret is not None and caret > 0:
        # The log indents both lines by two.
        source_line, column = rest[caret - 1][2:], rest[caret].index("^") - 1
        rest = rest[: caret - 1] + rest[caret + 1 :]
    word = match["severity"]
    severity: Severity = "error" if word.endswith("error") else "warning" if word == "warning" else "note"
    return Diagnostic(
        severity, match["file"], int(match["line"]), column, match["message"], source_line, tuple(line.strip() for line in rest)
    )


def outside(diagnostics: Iterable[Diagnostic], directories: Sequence[Path]) -> tuple[Diagnostic, ...]:
    """Without the warnings that stem from files in these folders: nobody can do anything about NVIDIA's own headers."""
    return tuple(d for d in diagnostics if d.severity == "error" or not any(Path(d.file).is_relative_to(folder) for folder in directories))


_UNMARKED_FUNCTION = "A function without execution space annotations"
_UNMARKED_VARIABLE = "A namespace scope variable without memory space annotations"
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')


def explained(diagnostic: Diagnostic, host_functions: Mapping[str, int], original_lines: Sequence[str]) -> Diagnostic:
    """The same message with what to do about it, where that can be said, and its source line as it stands in the file."""
    advice: str | None = None
    message = diagnostic.message
    if message.startswith(_UNMARKED_FUNCTION):
        message = "a function without __device__ or __global__ is host code, which this compiler does not take"
        advice = "mark it __device__ (or __host__ __device__) if kernels call it"
    elif message.startswith(_UNMARKED_VARIABLE):
        message = "a variable without __device__, __constant__ or __managed__ is a host variable, which this compiler does not take"
        advice = "mark it __device__ or __constant__ if kernels use it, or make it constexpr"
    elif (match := _UNDEFINED.search(message)) and match.group(1) in host_functions:
        line = host_functions[match.group(1)]
        advice = f'"{match.group(1)}" (line {line}) is a host function: mark it __device__ if kernels call it'
    elif match := _NO_FILE.search(message):
        advice = f"give the folder of {match.group(1)} with -I FOLDER (include_dirs=)"
    context = diagnostic.context if advice is None else (*diagnostic.context, f"help: {advice}")
    source_line = diagnostic.source_line
    if source_line and 0 < diagnostic.line <= len(original_lines):
        original = original_lines[diagnostic.line - 1]
        # Marking a constexpr function moved its line to the right; show the line as its author wrote it.
        marked = source_line.find("__host__ __device__ constexpr")
        if original != source_line and marked >= 0 and "__host__ __device__ constexpr" not in original:
            shift = len("__host__ __device__ ")
            column = diagnostic.column - shift if diagnostic.column > marked + shift else diagnostic.column
            return replace(diagnostic, message=message, context=context, source_line=original, column=column)
    return replace(diagnostic, message=message, context=context)


_MOST_ERRORS = 10
"""Errors that are shown: later ones mostly follow from the first."""


def compile_error(file_name: str, diagnostics: Sequence[Diagnostic], log: str) -> CompileError:
    """The exception for a source that did not compile: how many errors, then the first of them with its line and caret."""
    errors = [d for d in diagnostics if d.severity == "error"]
    if not errors:
        return CompileError(f"{file_name} does not compile: {log.strip()}")
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    shown = [error.render() for error in errors[:_MOST_ERRORS]]
    if len(errors) > _MOST_ERRORS:
        shown.append(f"and {len(errors) - _MOST_ERRORS:,} more")
    return CompileError("\n".join([f"{file_name} does not compile ({count}):", *shown]))
