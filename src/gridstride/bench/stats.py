"""The few statistics a benchmark needs, and what they are called."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one thing, in seconds."""

    seconds: tuple[float, ...]

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        if not seconds:
            raise ValueError("A sample needs at least one measurement.")
        return cls(tuple(seconds))

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a fraction of the median; 0 for a single measurement."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def geometric_mean(ratios: Iterable[float]) -> float:
    """The mean for ratios: twice as fast and half as fast cancel out. Raises ValueError for none, or for one that is not positive."""
    values = list(ratios)
    if not values or min(values) <= 0:
        raise ValueError("A geometric mean needs at least one ratio, and positive ones only.")
    return math.exp(math.fsum(map(math.log, values)) / len(values))
