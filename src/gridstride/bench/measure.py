"""One kernel's measurement: verify, warm up, then time the simulator and the C++ loops in turn."""

from __future__ import annotations

import math

from gridstride.bench.cases import Array, buffer_bytes, contents, read_first, threads
from gridstride.bench.loops import Loops
from gridstride.bench.results import KernelResult
from gridstride.bench.simulated import Simulator, Staged
from gridstride.bench.stats import Sample
from gridstride.bench.verify import difference
from gridstride.errors import GridstrideError
from gridstride.runtime.request import Buffer, LaunchRequest

SHORTEST = 0.05  # seconds a measurement must last; shorter launches are taken several at a time
_MOST_LAUNCHES = 50
_WARM_UPS = 3  # the quickest of them says how many launches a measurement needs
_MARGIN = 1.3  # later launches tend to be quicker than those


def measure(case: LaunchRequest, simulator: Simulator, loops: Loops | None, rounds: int) -> KernelResult:
    """Verify one launch against the C++ loops, then time both, a round of one after a round of the other.

    On both sides every launch starts from the first contents of the buffers that it reads as well as writes; putting those back
    is not timed. The first launch, with nothing compiled, gives the time of compilation: what it took beyond the later ones.
    """
    first = [contents(argument) for argument in case.arguments]
    pair = _Pair(case, first, loops)
    try:
        staged = simulator.stage(case, first)
        try:
            return _timed(case, staged, pair, rounds)
        finally:
            staged.free()
    except GridstrideError as error:
        return KernelResult(case.kernel, threads(case), buffer_bytes(case), error=str(error))


def _timed(case: LaunchRequest, staged: Staged, pair: _Pair, rounds: int) -> KernelResult:
    cold = staged.launch()
    pair.native_launch()
    if wrong := pair.difference(staged):
        return KernelResult(case.kernel, threads(case), buffer_bytes(case), error=wrong)
    warm = min(pair.simulated_launch(staged) for _ in range(_WARM_UPS))
    launches = min(_MOST_LAUNCHES, max(1, math.ceil(_MARGIN * SHORTEST / warm)))
    simulated: list[float] = []
    native: list[float] = []
    for _ in range(rounds):
        native.append(sum(pair.native_launch() for _ in range(launches)) / launches)
        simulated.append(sum(pair.simulated_launch(staged) for _ in range(launches)) / launches)
    sample = Sample.of(simulated)
    compile_seconds = max(0.0, cold - sample.median)
    return KernelResult(
        case.kernel, threads(case), buffer_bytes(case), launches, compile_seconds, sample, Sample.of(native) if pair.loops else None
    )


class _Pair:
    """A launch on both sides, and the contents that its buffers start from."""

    def __init__(self, case: LaunchRequest, first: list[Array | None], loops: Loops | None) -> None:
        self.case, self.loops = case, loops
        pairs = list(zip(case.arguments, first, strict=True))
        # What is only read is shared by both sides; what is written, each has for itself.
        self.host = [
            array.copy() if array is not None and isinstance(argument, Buffer) and argument.out else array for argument, array in pairs
        ]
        self.fresh = {i: array for i, (argument, array) in enumerate(pairs) if array is not None and read_first(argument)}

    def native_launch(self) -> float:
        """Seconds of the C++ loops; 0 where there are none."""
        if self.loops is None:
            return 0.0
        for index, array in self.fresh.items():
            target = self.host[index]
            assert target is not None
            target[...] = array
        return self.loops.call(self.case, self.host)

    def simulated_launch(self, staged: Staged) -> float:
        for index, array in self.fresh.items():
            staged.reset(index, array)
        return staged.launch()

    def difference(self, staged: Staged) -> str | None:
        return difference(self.case, staged.outputs(), self.host) if self.loops else None
