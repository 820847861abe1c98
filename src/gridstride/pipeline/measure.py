"""Measuring an implementation on one image, for the report card: its output is verified first, then its stages are timed many times.

On the simulator the host's clock says how long the simulation takes; what a GPU would take is estimated from counts. On a GPU each kernel is
timed by events as well, and the counts are those of the simulator of the same model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import gridstride as gs
from gridstride.errors import GridstrideError
from gridstride.pipeline.frames import Frame, Kind
from gridstride.pipeline.images import Samples
from gridstride.pipeline.implementations import EdgePipeline, checked
from gridstride.pipeline.results import EdgeResult, StageRun
from gridstride.pipeline.streaming import keyed_edges
from gridstride.pipeline.verify import StageCheck, verify

WARM_UPS = 3
FEWEST_RUNS, MOST_RUNS = 10, 200
SECONDS = 3.0
"""Runs are repeated for so long, at least `FEWEST_RUNS` and at most `MOST_RUNS` times."""

LARGEST = (2160, 3840)
"""Rows and columns that are measured at most; of a larger image, the upper left."""

DEVICE_RUNS = 100
"""Measurements by events, each over all frames."""

CACHES, MOST_FRAMES = 3, 64
"""Frames that are launched in turn: together so many times the device's L2 cache, and at most so many."""

LAUNCHES = 32
"""Launches between two events at least, so that what starting them costs does not count."""

FRAMES = 4
"""Images in the timeline."""


@dataclass(frozen=True)
class MeasuredStage:
    """One launch of a frame over all runs. host_seconds: until the device was done, by the host's clock; device_us: of the kernel alone, by the
    GPU's events, empty on the simulator."""

    run: StageRun
    host_seconds: tuple[float, ...]
    device_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What was found out about one implementation on one image.

    samples: what was measured, the image or its upper left. checks, result: of the run that was verified; stages: empty where that failed, for
    the time of something wrong says nothing. counts: one run counted launch by launch, None where there was nothing to count; counted_on: the
    device that it was counted for. recording: `FRAMES` copies of the image streamed, None where nothing is streamed.
    """

    pipeline: EdgePipeline
    samples: Samples
    checks: tuple[StageCheck, ...]
    result: EdgeResult
    stages: tuple[MeasuredStage, ...] = ()
    counts: gs.Profile | None = None
    counted_on: str = ""
    recording: gs.Recording | None = None

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def simulated(self) -> bool:
        return self.pipeline.device.name.startswith("sim")


def measure(pipeline: EdgePipeline, image: Samples) -> Measured:
    """Verify, warm up, time, count, and record the streams. Raises `GridstrideError` for what stops a run."""
    samples = checked(image[: LARGEST[0], : LARGEST[1]])
    first = pipeline.run(samples)
    checks = verify(samples, first.result, pipeline.parameters)
    found = Measured(pipeline, samples, checks, first.result)
    if not found.passed:
        return found
    if not pipeline.on_device or not pipeline.frames_that_fit(Kind.of(samples)):  # NumPy, or tiles: run by run is all there is
        timed = _timed(lambda: pipeline.run(samples).stages)
        return Measured(pipeline, samples, checks, first.result, timed)
    frame = pipeline.frame(Kind.of(samples))
    try:
        stages = _timed(lambda: frame.run(samples).stages)
        if not found.simulated:
            stages = tuple(MeasuredStage(stage.run, stage.host_seconds, us) for stage, us in zip(stages, _by_events(pipeline, samples), strict=True))
    finally:
        frame.free()
    counts, counted_on = _counted(pipeline, samples, found.simulated)
    with gs.timeline() as recording:
        for _ in keyed_edges(((None, samples) for _ in range(FRAMES)), pipeline):
            pass
    return Measured(pipeline, samples, checks, first.result, stages, counts, counted_on, recording)


def _timed(run: Callable[[], Sequence[StageRun]]) -> tuple[MeasuredStage, ...]:
    """The stages of many runs."""
    for _ in range(WARM_UPS):
        run()
    runs = [run() for _ in _repeats()]
    return tuple(MeasuredStage(same[0], tuple(stage.seconds for stage in same)) for same in zip(*runs, strict=True))


def _repeats() -> Iterator[int]:
    start = time.perf_counter()
    for number in range(MOST_RUNS):
        if number >= FEWEST_RUNS and time.perf_counter() - start > SECONDS:
            return
        yield number


def _by_events(pipeline: EdgePipeline, samples: Samples) -> list[tuple[float, ...]]:
    """Microseconds of each launch, run by run: the mean over frames that are launched one after the other, so many that none is in the device's
    cache when its turn comes."""
    kind = Kind.of(samples)
    device = pipeline.device
    stream = device.stream(name="measured")
    frames = [pipeline.frame(kind)]
    try:
        wanted = min(MOST_FRAMES, -(-CACHES * device.spec.l2_bytes // frames[0].nbytes), pipeline.frames_that_fit(kind) - 1)
        frames += [pipeline.frame(kind) for _ in range(wanted - 1)]
        for frame in frames:
            frame.source.copy_from(samples.reshape(frame.source.shape))
            frame.launch(stream)
        stream.synchronize()
        return [_of_step(step, frames, stream) for step in range(len(frames[0].steps))]
    finally:
        for frame in frames:
            frame.free()


def _of_step(step: int, frames: Sequence[Frame], stream: gs.Stream) -> tuple[float, ...]:
    start, end = stream.device.event(), stream.device.event()
    rounds = -(-LAUNCHES // len(frames))
    with stream.capture() as captured:  # as a graph, for the host asks more slowly than short kernels run
        for _ in range(rounds):
            for frame in frames:
                frame.steps[step].launch(stream)
    replay = captured.instantiate()
    found = []
    for number in range(WARM_UPS + DEVICE_RUNS):
        stream.record(start)
        replay.launch(stream)
        stream.record(end)
        end.synchronize()
        if number >= WARM_UPS:
            found.append(start.elapsed_ms(end) * 1000 / (rounds * len(frames)))
    return tuple(found)


def _counted(pipeline: EdgePipeline, samples: Samples, simulated: bool) -> tuple[gs.Profile | None, str]:
    """One run with counters, on the simulator of the same device."""
    try:
        if not simulated:
            device = gs.device(f"sim:{pipeline.device.spec.key}")
            pipeline = EdgePipeline(device, pipeline.parameters, pipeline.impl)
        with gs.profiling() as profile:
            pipeline.run(samples)
    except GridstrideError:
        return None, ""  # a GPU that the device table does not have
    return profile, pipeline.device.name
