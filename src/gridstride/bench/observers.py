"""What observing costs: the truth set's kernels profiled and checked, against the same launch with nothing on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from gridstride.bench import environment
from gridstride.bench.cases import buffer_bytes, contents, read_first, scaled_cases, threads
from gridstride.bench.measure import SHORTEST
from gridstride.bench.results import Goal, Options
from gridstride.bench.simulated import Simulator, Staged
from gridstride.bench.stats import Sample, geometric_mean
from gridstride.errors import GridstrideError, UsageError
from gridstride.runtime.request import LaunchRequest

KERNELS = Path(__file__).parent / "data" / "kernels.ptx"
PLAIN = "plain"
_DIVIDE, _DIVIDE_QUICKLY = 4, 32  # of the sizes that plain runs are measured at: there are five runs, and checked ones take longer
_MOST_LAUNCHES = 50


@dataclass(frozen=True)
class Mode:
    """A way to run a launch: what is open around it, and how many times as long as the plain run it may take in the mean."""

    name: str
    bound: float
    open: Callable[[], AbstractContextManager[object]]


def _profiling() -> AbstractContextManager[object]:
    import gridstride as gs  # here, so that reading the command line's help does not load the engine

    return gs.profiling()


def _checking(kinds: str) -> Callable[[], AbstractContextManager[object]]:
    def session() -> AbstractContextManager[object]:
        import gridstride as gs

        return gs.checking(kinds)

    return session


MODES = (
    Mode("profile", 1.5, _profiling),
    Mode("uninitialised", 3.0, _checking("uninitialised")),
    Mode("races", 8.0, _checking("race-shared,race-global")),
    Mode("all checks", 10.0, _checking("all")),
)


@dataclass(frozen=True)
class ObservedKernel:
    """One kernel: processor seconds of a launch under each mode's name and `PLAIN`. `error` replaces the figures."""

    kernel: str
    threads: int
    bytes: int
    seconds: dict[str, Sample] = field(default_factory=dict)
    error: str | None = None

    def ratio(self, mode: str) -> float:
        """How many times as long as the plain run it takes: least against least, since whatever else a machine does only adds."""
        return self.seconds[mode].best / self.seconds[PLAIN].best


@dataclass
class ObserverResults:
    """Everything one run found."""

    environment: dict[str, str]
    options: Options
    kernels: list[ObservedKernel] = field(default_factory=list)

    @property
    def measured(self) -> list[ObservedKernel]:
        return [kernel for kernel in self.kernels if not kernel.error]

    @property
    def failed(self) -> bool:
        return any(kernel.error for kernel in self.kernels)

    def mean(self, mode: str) -> float:
        return geometric_mean(kernel.ratio(mode) for kernel in self.measured)

    def goals(self) -> list[Goal]:
        """The bounds with what this run measured. Some kernels alone say nothing about the mean of all."""
        found = []
        for mode in MODES if self.measured else ():
            text = f"{mode.name}: at most {mode.bound:g} times the plain run, geometric mean of {len(self.measured)} kernels"
            mean = self.mean(mode.name)
            found.append(Goal(text, f"{mean:.2f}", None if self.options.only else mean <= mode.bound and not self.failed))
        return found


def run(options: Options, progress: Callable[[str], None] = lambda _: None) -> ObserverResults:
    """Measure every kernel. `progress` is told what happens next. Raises UsageError for a kernel that is not there."""
    cases = scaled_cases(_DIVIDE_QUICKLY if options.quick else _DIVIDE)
    known = {case.kernel for case in cases}
    if unknown := set(options.only) - known:
        raise UsageError(f"The benchmark has no kernel called {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}.")
    results = ObserverResults(environment.describe(), options)
    with environment.one_core():
        progress("loading the kernels")
        simulator = Simulator([KERNELS])
        for case in cases:
            if not options.only or case.kernel in options.only:
                progress(case.kernel)
                results.kernels.append(measure(case, simulator, options.rounds))
    results.environment["load after"] = environment.load()
    return results


def measure(case: LaunchRequest, simulator: Simulator, rounds: int) -> ObservedKernel:
    """Time one launch in every mode, a round of each in turn. Every launch starts from the first contents of what it reads and writes."""
    try:
        first = [contents(argument) for argument in case.arguments]
        staged = simulator.stage(case, first)
        fresh = {k: array for k, (argument, array) in enumerate(zip(case.arguments, first, strict=True)) if array is not None and read_first(argument)}

        def launch(mode: Mode) -> float:
            for index, array in fresh.items():
                staged.reset(index, array)
            with mode.open():
                begin = time.process_time()
                staged.launch()
                return time.process_time() - begin

        try:
            return _timed(case, staged, launch, rounds)
        finally:
            staged.free()
    except GridstrideError as error:
        return ObservedKernel(case.kernel, threads(case), buffer_bytes(case), error=str(error))


def _timed(case: LaunchRequest, staged: Staged, launch: Callable[[Mode], float], rounds: int) -> ObservedKernel:
    plain = Mode(PLAIN, 1.0, nullcontext)
    launches: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}
    want = None
    for mode in (plain, *MODES):
        launch(mode)  # makes native code, or reads it from the cache
        got = {index: array.tobytes() for index, array in staged.outputs().items()}
        want = got if want is None else want
        if wrong := [index for index in got if got[index] != want[index]]:
            return ObservedKernel(case.kernel, threads(case), buffer_bytes(case), error=f"argument {wrong[0]} is another under {mode.name}")
        launches[mode.name] = min(_MOST_LAUNCHES, max(1, math.ceil(SHORTEST / max(launch(mode), 1e-6))))
    for _ in range(rounds):
        for mode in (plain, *MODES):
            times = launches[mode.name]
            seconds.setdefault(mode.name, []).append(sum(launch(mode) for _ in range(times)) / times)
    return ObservedKernel(case.kernel, threads(case), buffer_bytes(case), {name: Sample.of(found) for name, found in seconds.items()})
