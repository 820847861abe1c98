"""A whole ladder in one table: every step tried on awkward sizes under all checks, then counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gridstride.gallery.columns import Value
from gridstride.gallery.model import Ladder, Size, Step
from gridstride.gallery.running import Run, Workshop


@dataclass(frozen=True)
class Climbed:
    """One step of a comparison. tried: its runs on awkward sizes; shown: the run whose counters are shown; values: these, by column."""

    step: Step
    tried: tuple[Run, ...]
    shown: Run
    values: dict[str, Value]

    @property
    def runs(self) -> tuple[Run, ...]:
        return (*self.tried, self.shown)

    @property
    def passed(self) -> bool:
        return all(run.passed for run in self.runs)

    @property
    def complaints(self) -> list[str]:
        """What is wrong, a sentence each."""
        return [f"{self.step.name} at {format_size(run.size)}: {complaint}" for run in self.runs for complaint in run.complaints]


def climb(
    ladder: Ladder, steps: Sequence[Step], workshop: Workshop, progress: Callable[[str], object] = lambda step: None
) -> list[Climbed]:
    """Every step: tried under all checks, then counted at the size that is shown."""
    climbed = []
    for step in steps:
        progress(step.name)
        # counted and checked everywhere: native code is made once for both
        tried = tuple(workshop.run(ladder, step, at, check=True, count=True) for at in ladder.sizes(step))
        shown = workshop.run(ladder, step, step.shown or ladder.shown, check=True, count=True)
        climbed.append(Climbed(step, tried, shown, shown.values(ladder.columns)))
    return climbed


def format_size(size: Size) -> str:
    return " × ".join(f"{extent:,}" for extent in size)
