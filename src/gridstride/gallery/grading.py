"""Laboratories: exercises with a kernel to begin with, a task, hints, and goals that are graded by results, checks and exact counters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gridstride.gallery.columns import column
from gridstride.gallery.model import Ladder, Problem, Size, Step
from gridstride.gallery.packages import load
from gridstride.gallery.running import Run, Workshop

LABS: tuple[str, ...] = ("coalesce",)
"""Each is the package of that name in `exercises/` (with _ for -), whose LAB is the laboratory."""

_RELATIONS: dict[str, Callable[[float, float], bool]] = {"=": operator.eq, "<=": operator.le, ">=": operator.ge}
_WORDS = {"=": "exactly", "<=": "at most", ">=": "at least"}


@dataclass(frozen=True)
class Goal:
    """A bound on a counter (`columns.py`) of the run at the size that is shown. relation: "=", "<=" or ">=". hint: what to think of where it is not met."""

    counter: str
    relation: str
    bound: float
    hint: str = ""

    def met(self, value: float) -> bool:
        return _RELATIONS[self.relation](value, self.bound)

    @property
    def text(self) -> str:
        return f"{column(self.counter).heading}: {_WORDS[self.relation]} {self.bound:,.10g}"


@dataclass(frozen=True)
class Lab:
    """An exercise. step: how the kernel is launched; the files `start` and `solution` in its folder have a kernel of that name.

    hints: what helps, from a nudge to nearly the answer.
    """

    name: str
    title: str
    task: str
    hints: tuple[str, ...]
    step: Step
    problem: Callable[[Size], Problem]
    goals: tuple[Goal, ...]
    awkward: tuple[Size, ...]
    shown: Size
    start: str = "start.cu"
    solution: str = "solution.cu"
    folder: Path = Path()

    @property
    def ladder(self) -> Ladder:
        """The exercise as a ladder of one step, which `Workshop` can run."""
        return Ladder(
            self.name, self.title, self.task, self.start, self.problem, (self.step,), tuple(goal.counter for goal in self.goals),
            self.awkward, self.shown, self.shown, folder=self.folder,
        )  # fmt: skip

    def grade(self, source: Path, workshop: Workshop | None = None) -> Grade:
        """Try a solution on every size under all checks, as long as nothing is wrong, and hold its counters at the last against the goals.

        Raises CompileError and UsageError.
        """
        ladder, shop = self.ladder, workshop or Workshop()
        runs: list[Run] = []
        for size in (*self.awkward, self.shown):
            runs.append(shop.run(ladder, self.step, size, check=True, count=True, source=source))
            if not runs[-1].passed:
                break
        wrong = next((run for run in runs if run.wrong is not None), None)
        found = next((run for run in runs if run.findings), None)
        judged = [Judged("outputs as NumPy's", wrong is None, "" if wrong is None else f"at {_size(wrong)}: {wrong.wrong}")]
        judged.append(Judged("no findings", found is None, "" if found is None else f"at {_size(found)}: {found.findings[0].kind}: {found.findings[0].message}"))
        values = runs[-1].values(ladder.columns) if runs[-1].launches and runs[-1].size == self.shown else {}
        for goal in self.goals:
            value = values.get(goal.counter)
            judged.append(Judged(goal.text, value is not None and goal.met(value), "not counted" if value is None else f"{value:,.10g}", goal.hint))
        return Grade(self, tuple(judged))


def _size(run: Run) -> str:
    return " × ".join(map(str, run.size))


@dataclass(frozen=True)
class Judged:
    """One thing that was asked for, whether it is met, and what was found."""

    goal: str
    met: bool
    got: str
    hint: str = ""


@dataclass(frozen=True)
class Grade:
    lab: Lab
    judged: tuple[Judged, ...]

    @property
    def passed(self) -> bool:
        return all(judged.met for judged in self.judged)

    @property
    def hint(self) -> str:
        """What to think of next: of the first goal that is not met."""
        unmet = next((judged for judged in self.judged if not judged.met), None)
        return "" if unmet is None else unmet.hint or f"`gridstride gallery hint {self.lab.name}` gives hint 1 of {len(self.lab.hints)}"


@cache
def lab(name: str) -> Lab:
    """The laboratory of that name. Raises UsageError for a name that none has."""
    found, folder = load(name, LABS, "exercises", "LAB", "there is no laboratory", "there are")
    made: Lab = replace(found, folder=folder)
    return made


def labs() -> Iterator[Lab]:
    """All of them, in order."""
    return map(lab, LABS)
