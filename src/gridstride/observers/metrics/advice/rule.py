"""What a piece of advice is, and what each file of this package gives: a rule that looks at a launch."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.profile import InstructionCounts


@dataclass(frozen=True)
class Advice:
    """One thing that costs time, with its number.

    metric: the plain name of the counter; now: its value; then: what it would be when fixed (`at_best`: what it cannot go below).
    how: what to do. weight: rough share of the launch's cost of this kind, 0 to 1, by which advice is sorted.
    file, line, ptx_line: where; all None for the launch as a whole.
    """

    code: str
    name: str
    message: str
    how: str
    metric: str
    now: float
    then: float
    weight: float
    file: str | None = None
    line: int | None = None
    ptx_line: int | None = None
    at_best: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Rule(ABC):
    """A rule of its own file. Its docstring is its documentation: what it is about, a bad example and a good one.

    code is stable, name in kebab case.
    """

    code: ClassVar[str]
    name: ClassVar[str]

    @abstractmethod
    def look(self, launch: LaunchMetrics) -> Iterator[Advice]:
        """The advice that the launch's counters call for."""

    def advice(self, metric: str, now: float, then: float, weight: float, message: str, how: str, where: Place | None = None, *, at_best: bool = False) -> Advice:
        place = where or Place()
        return Advice(self.code, self.name, message, how, metric, now, then, min(weight, 1.0), place.file, place.line, place.ptx_line, at_best)

    @classmethod
    def explanation(cls) -> str:
        """The rule's documentation, its name first."""
        return f"{cls.code} {cls.name}\n\n{inspect.getdoc(cls)}"


@dataclass(frozen=True)
class Place:
    """A source line, or a line of PTX where there is no line information."""

    file: str | None = None
    line: int | None = None
    ptx_line: int | None = None


def by_place(
    instructions: Iterable[InstructionCounts], wanted: Callable[[InstructionCounts], bool]
) -> Iterator[tuple[Place, tuple[InstructionCounts, ...]]]:
    """The instructions that are wanted and ran, gathered by source line (by PTX line where the source is not known)."""
    groups: dict[tuple[str | None, int], list[InstructionCounts]] = {}
    for instruction in instructions:
        if instruction.executions and wanted(instruction):
            line = instruction.line if instruction.line is not None else instruction.ptx_line
            groups.setdefault((instruction.file, line), []).append(instruction)
    for (file, _), members in groups.items():
        yield Place(file, members[0].line, min(m.ptx_line for m in members)), tuple(members)


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def plural(count: float, what: str) -> str:
    """`1 warp`, `2 warps`, `1,500 warps`."""
    return f"{count:,.6g} {what}" if count == 1 else f"{count:,.6g} {what}s" if count < 1e6 else f"{count:,.0f} {what}s"
