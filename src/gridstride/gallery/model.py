"""What the gallery is made of: ladders of steps, and problems that steps are tried on. All of it is data; `running.py` runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.runtime.initial import DTYPES, Initial

Size = tuple[int, ...]
"""What a problem is measured by, each ladder's own way: (n,), (height, width), (m, n, k)."""
Arrays = Mapping[str, npt.NDArray[Any]]
Dim = int | tuple[int, ...]
NEVER_WRITTEN = Initial("none")


@dataclass(frozen=True)
class Data:
    """An array of a problem: its element type (a name of case files, such as "f32"), its shape, and what it holds at first."""

    dtype: str
    shape: tuple[int, ...]
    initial: Initial | npt.NDArray[Any] = NEVER_WRITTEN

    @property
    def numpy_type(self) -> np.dtype[Any]:
        return DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.numpy_type.itemsize

    def host(self) -> npt.NDArray[Any] | None:
        """The first content; None for an array that nobody has written."""
        if not isinstance(self.initial, Initial):
            return np.ascontiguousarray(self.initial, self.numpy_type).reshape(self.shape)
        values = _built(self.initial, self.dtype, math.prod(self.shape))
        return None if values is None else values.reshape(self.shape)


@lru_cache(maxsize=3)
def _built(initial: Initial, dtype: str, count: int) -> npt.NDArray[Any] | None:
    """The steps of a ladder take the same arrays one after the other, and drawing millions of numbers takes seconds. Not to be written to."""
    values = initial.build(DTYPES[dtype], count)
    if values is not None:
        values.flags.writeable = False
    return values


def empty(*shape: int, dtype: str = "f32") -> Data:
    """An array without values: what a kernel must write."""
    return Data(dtype, shape)


def uniform(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 1, dtype: str = "f32") -> Data:
    return Data(dtype, shape, Initial("uniform", (low, high, seed)))


def randint(*shape: int, low: int = 0, high: int = 10, seed: int = 1, dtype: str = "i32") -> Data:
    """Whole numbers from `low` to `high` - 1."""
    return Data(dtype, shape, Initial("randint", (low, high, seed)))


def given(values: npt.ArrayLike, dtype: str = "f32") -> Data:
    """An array with these values."""
    array = np.asarray(values, DTYPES[dtype])
    return Data(dtype, array.shape, array)


@dataclass(frozen=True)
class Launch:
    """One launch. An argument that is text names an array of the problem or of the step; anything else is passed as it is."""

    kernel: str
    grid: Dim
    block: Dim
    arguments: tuple[Any, ...]
    shared: int = 0
    cooperative: bool = False
    cluster: Dim | None = None


@dataclass(frozen=True)
class Fill:
    """An array set to one value, as cudaMemsetAsync does: counters and sums that a kernel adds to."""

    array: str
    value: float = 0


Action = Launch | Fill


@dataclass(frozen=True)
class Problem:
    """Arrays to work on, and what must come out, by NumPy.

    reference: inputs → what each output must be. tolerance: the largest difference allowed, of all outputs or by name; 0 means equal.
    unordered: outputs whose elements may stand in any order (sorted before they are compared).
    """

    arrays: Mapping[str, Data]
    reference: Callable[[Arrays], Arrays]
    tolerance: float | Mapping[str, float] | Callable[[Arrays], float] = 0.0
    unordered: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """One rung of a ladder.

    claim: in one sentence, what is better than on the rung before, and why. launches: what is launched for a size, in order.
    moves: the columns (`columns.py`) that show it. scratch: arrays that this step needs beside the problem's.
    source: its file in the ladder's folder, where it is not the ladder's own; section: its part of the file, `name` unless given.
    problem: where the step solves another problem than its ladder. awkward, shown, large, covers: of its own, where the ladder's do not suit it.
    finds: of a trap, a step that is wrong on purpose: the kinds of finding that it must give at every size, and no others.
    """

    name: str
    claim: str
    launches: Callable[[Size], Sequence[Action]]
    moves: tuple[str, ...] = ()
    scratch: Callable[[Size], Mapping[str, Data]] = lambda size: {}
    source: str | None = None
    section: str | None = None
    problem: Callable[[Size], Problem] | None = None
    awkward: tuple[Size, ...] | None = None
    shown: Size | None = None
    large: Size | None = None
    covers: tuple[str, ...] | None = None
    finds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ladder:
    """Steps from the plain way to the fast one, all solving `problem`.

    about: what it teaches, in Markdown. columns: what the comparison shows, by the names of `columns.py`.
    awkward: sizes at which every step is tried: 1, around warps and blocks, primes. shown: the size that the tables are of.
    covers: outputs of which a step with one launch must write every element exactly once; checked with everything else.
    large: the size to be timed on a GPU; modelled: the one for which its time is predicted, where a simulation of `large` takes too long; bytes, flops: what the problem must move and compute at least, for a share of the GPU's peak.
    """

    name: str
    title: str
    about: str
    source: str
    problem: Callable[[Size], Problem]
    steps: tuple[Step, ...]
    columns: tuple[str, ...]
    awkward: tuple[Size, ...]
    shown: Size
    large: Size
    bytes: Callable[[Size], int] = lambda size: 0
    flops: Callable[[Size], int] = lambda size: 0
    modelled: Size | None = None
    covers: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def sizes(self, step: Step) -> tuple[Size, ...]:
        return self.awkward if step.awkward is None else step.awkward

    def problem_of(self, step: Step, size: Size) -> Problem:
        """What the step must solve, with its own arrays added."""
        problem = (step.problem or self.problem)(size)
        return replace(problem, arrays={**problem.arrays, **step.scratch(size)})

    def covered(self, step: Step, actions: Sequence[Action]) -> tuple[str, ...]:
        """The outputs that the step's one launch covers; none where several launches share the work, or where the step is wrong on purpose."""
        covers = self.covers if step.covers is None else step.covers
        return covers if len([action for action in actions if isinstance(action, Launch)]) == 1 and not step.finds else ()

    def source_of(self, step: Step) -> Path:
        return self.folder / (step.source or self.source)


def cdiv(a: int, b: int) -> int:
    """a ÷ b rounded up."""
    return -(-a // b)
