"""What a run of the benchmark found, and which of the engine's bounds it shows to be kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gridstride.bench.rivals import Rival
from gridstride.bench.stats import Sample, geometric_mean

FEWEST_KERNELS = 20  # for the mean to count
_RIVAL_BOUNDS = {"Numba simulator": 20_000, "Oclgrind": 200}


@dataclass(frozen=True)
class Options:
    """What to run. `only` names kernels (all, when empty); `quick` takes an eighth of the work and three repetitions."""

    only: tuple[str, ...] = ()
    quick: bool = False
    repetitions: int = 7

    @property
    def rounds(self) -> int:
        return 3 if self.quick else self.repetitions


@dataclass(frozen=True)
class KernelResult:
    """One kernel. Times are of one launch; `launches` make one measurement. `error` replaces the figures."""

    kernel: str
    threads: int
    bytes: int
    launches: int = 1
    compile_seconds: float = math.nan
    simulated: Sample | None = None
    native: Sample | None = None
    error: str | None = None

    @property
    def ratio(self) -> float | None:
        """The simulator's time over the C++ loops': 1 is as fast, 2 takes twice as long."""
        return self.simulated.median / self.native.median if self.simulated and self.native else None

    @property
    def rate(self) -> float | None:
        """Simulated threads per second."""
        return self.threads / self.simulated.median if self.simulated else None


@dataclass(frozen=True)
class Goal:
    """Something the benchmark measures against a bound. `met` is None where too little was measured to say."""

    text: str
    measured: str
    met: bool | None


@dataclass
class Results:
    """Everything one run found."""

    environment: dict[str, str]
    options: Options
    load_seconds: float = math.nan
    start_seconds: float = math.nan
    kernels: list[KernelResult] = field(default_factory=list)
    saxpy: KernelResult | None = None
    numpy: dict[str, Sample] = field(default_factory=dict)
    rivals: list[Rival] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any kernel failed or gave a wrong result."""
        return any(result.error for result in (*self.kernels, self.saxpy) if result)

    @property
    def ratios(self) -> dict[str, float]:
        return {result.kernel: result.ratio for result in self.kernels if result.ratio is not None}

    def goals(self) -> list[Goal]:
        """The bounds that were set for the engine, with what this run measured. A kernel that failed keeps a bound from being met."""
        return [*self._saxpy_goals(), *self._kernel_goals()]

    def _saxpy_goals(self) -> list[Goal]:
        goals: list[Goal] = []
        if self.saxpy is None or self.saxpy.simulated is None or self.saxpy.rate is None:
            return goals
        if self.numpy:
            best = min(sample.median for sample in self.numpy.values())
            share = best / self.saxpy.simulated.median
            goals.append(Goal("saxpy at half of NumPy's speed or more (the faster of its two forms)", f"{share:.2f}", share >= 0.5))
        for rival in self.rivals:
            bound, times = _RIVAL_BOUNDS[rival.name], self.saxpy.rate / rival.rate
            goals.append(Goal(f"saxpy {bound:,} times as fast as {rival.name} or more", f"{times:,.0f}", times >= bound))
        return goals

    def _kernel_goals(self) -> list[Goal]:
        goals: list[Goal] = []
        whole = not any(result.error for result in self.kernels)
        if ratios := self.ratios:
            mean, worst = geometric_mean(ratios.values()), max(ratios, key=lambda kernel: ratios[kernel])
            text = f"geometric mean of {len(ratios)} kernels at most 2 times the time of the C++ loops"
            if len(ratios) < FEWEST_KERNELS:
                goals.append(Goal(f"{text} (counts from {FEWEST_KERNELS} kernels on)", f"{mean:.2f}", None))
            else:
                goals.append(Goal(text, f"{mean:.2f}", mean <= 2 and whole))
            goals.append(Goal("no kernel above 10 times the C++ loops", f"{ratios[worst]:.1f} ({worst})", ratios[worst] <= 10 and whole))
        if compiled := [result for result in self.kernels if result.simulated]:
            slowest = max(compiled, key=lambda result: result.compile_seconds)
            measured = f"{slowest.compile_seconds:.2f} s ({slowest.kernel})"
            goals.append(Goal("native code of every kernel in under 1 s", measured, slowest.compile_seconds < 1 and whole))
        return goals
