"""Many images through a device: while one is computed, the next comes in and the last goes out.

Each image in flight has a slot: a frame on the device, and pinned memory of the host for its samples and its results. Slots are used in
turn, so that memory does not grow with the number of images.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import gridstride as gs
from gridstride.errors import GridstrideError, LaunchError, UsageError
from gridstride.pipeline.frames import Frame, Kind
from gridstride.pipeline.images import Samples
from gridstride.pipeline.implementations import EdgePipeline, checked
from gridstride.pipeline.results import BINS, EdgeResult

K = TypeVar("K")
R = TypeVar("R")

SLOTS = 3
"""Images in flight: one comes in, one is computed, one goes out."""


def stream_edges(images: Iterable[npt.NDArray[Any]], pipeline: EdgePipeline, *, graph: bool = False, slots: int = SLOTS) -> Iterator[EdgeResult]:
    """The edges of each image, in their order; at most `slots` images are in flight. See `keyed_edges`."""
    for _, result in keyed_edges(((None, image) for image in images), pipeline, graph=graph, slots=slots):
        yield result


def keyed_edges(
    images: Iterable[tuple[K, npt.NDArray[Any]]], pipeline: EdgePipeline, *, graph: bool = False, slots: int = SLOTS
) -> Iterator[tuple[K, EdgeResult]]:
    """The edges of each image beside what came with it, in their order. Results hold edges, histogram and output, not the stages.

    graph: what is done for an image is captured once for each slot and asked for as one. Images of another size or type than the one before
    wait until the device is empty, and get memory of their own. What does not fit the memory is done in tiles, one image at a time.
    Raises `UsageError` for an image that the pipeline cannot take.
    """
    for key, outcome in keyed_outcomes(images, pipeline, graph=graph, slots=slots):
        if isinstance(outcome, GridstrideError):
            raise outcome
        yield key, outcome


def keyed_outcomes(
    images: Iterable[tuple[K, npt.NDArray[Any]]], pipeline: EdgePipeline, *, graph: bool = False, slots: int = SLOTS
) -> Generator[tuple[K, EdgeResult | GridstrideError], None, None]:
    """As `keyed_edges`, but with the error in place of the result of an image that could not be done; the others go on.

    A kernel that is stopped costs its own image alone where the device tells of it at once (`gs.device(…, blocking=True)`). Otherwise the
    device is dead, as CUDA has it, and all images from then on end with its fault.
    """
    if slots < 1:
        raise UsageError(f"slots is the number of images in flight, at least 1, not {slots}")
    streams = _Streams(pipeline.device)
    kind: Kind | None = None
    free: deque[_Slot] = deque()
    in_flight: deque[tuple[K, _Slot | GridstrideError]] = deque()

    def finish_oldest() -> tuple[K, EdgeResult | GridstrideError]:
        key, slot = in_flight.popleft()
        if isinstance(slot, GridstrideError):
            return key, slot
        free.append(slot)
        return key, _attempt(slot.result)

    def begin(samples: Samples) -> _Slot | GridstrideError:
        slot = free.popleft()
        error = _attempt(lambda: slot.begin(samples))
        if error is None:
            return slot
        free.appendleft(slot)
        return error

    try:
        for key, image in images:
            samples = _attempt(lambda image=image: checked(image))  # type: ignore[misc]
            if isinstance(samples, GridstrideError):
                in_flight.append((key, samples))
                continue
            if Kind.of(samples) != kind:
                while in_flight:
                    yield finish_oldest()
                while free:
                    _free(free.popleft())
                kind = Kind.of(samples)
                made = _attempt(lambda kind=kind: _slots(pipeline, kind, streams, graph, slots))  # type: ignore[misc]
                if isinstance(made, GridstrideError):
                    kind = None
                    yield key, made
                    continue
                free.extend(made)
            if not free and not any(isinstance(slot, _Slot) for _, slot in in_flight):  # not even one fits
                yield key, _attempt(lambda samples=samples: pipeline.run(samples).result)  # type: ignore[misc]
                continue
            while not free:
                yield finish_oldest()
            in_flight.append((key, begin(samples)))
        while in_flight:
            yield finish_oldest()
    finally:
        for slot in (*free, *(slot for _, slot in in_flight if isinstance(slot, _Slot))):
            _free(slot)


def _attempt(action: Callable[[], R]) -> R | GridstrideError:
    """What an action gives, or the error that it raises."""
    try:
        return action()
    except GridstrideError as error:
        return error


def _slots(pipeline: EdgePipeline, kind: Kind, streams: _Streams, graph: bool, most: int) -> list[_Slot]:
    """As many slots as fit the memory, at most `most`; none where images of this kind are done in tiles."""
    made: list[_Slot] = []
    with suppress(LaunchError):  # no room after all: somebody else uses the device, too
        for _ in range(min(most, pipeline.frames_that_fit(kind))):
            made.append(_Slot(pipeline, kind, streams, graph))
    return made


def _free(slot: _Slot) -> None:
    with suppress(GridstrideError):  # of a device that was stopped there is nothing to give back
        slot.free()


class _Streams:
    """One stream for each direction of copies, and one for kernels: these three can run at once."""

    def __init__(self, device: gs.Device) -> None:
        self.into = device.stream(name="into")
        self.work = device.stream(name="work")
        self.out = device.stream(name="out")


class _Slot:
    """The memory for one image in flight, on both sides."""

    def __init__(self, pipeline: EdgePipeline, kind: Kind, streams: _Streams, graph: bool) -> None:
        device = pipeline.device
        size = (kind.height, kind.width)
        self.frame: Frame = pipeline.frame(kind)
        self.samples = device.pinned(kind.rows, kind.dtype, name="samples")
        self.edges = device.pinned(size, np.uint8, name="edges of the host")
        self.histogram = device.pinned(BINS, np.uint32, name="histogram of the host")
        self.output = None if self.frame.output is None else device.pinned(size, self.frame.output.dtype, name="output of the host")
        self._copied, self._computed, self._emptied = device.event(), device.event(), device.event()
        self._streams = streams
        self._replay: gs.Replay | None = None
        self._own: gs.Stream | None = None
        if graph:  # a stream for each slot: within an image everything follows in order, and images run beside each other
            self._own = device.stream(name="images")
            with self._own.capture() as captured:
                self._ask(self._own, self._own, self._own)
            self._replay = captured.instantiate()

    def begin(self, samples: Samples) -> None:
        """Ask for everything for one image. The slot must be free: its last result was taken."""
        self.samples[:] = samples.reshape(self.samples.shape)
        if self._replay is not None and self._own is not None:
            self._replay.launch(self._own)
            self._own.record(self._emptied)
            return
        streams = self._streams
        self._ask(streams.into, streams.work, streams.out)
        streams.out.record(self._emptied)

    def _ask(self, into: gs.Stream, work: gs.Stream, out: gs.Stream) -> None:
        self.frame.source.copy_from(self.samples, stream=into)
        if work is not into:
            work.wait(into.record(self._copied))  # the kernels read what is copied in
        self.frame.launch(work)
        if out is not work:
            out.wait(work.record(self._computed))  # and the copies out what the kernels write
        self.frame.edges.copy_to(self.edges, stream=out)
        self.frame.histogram.copy_to(self.histogram, stream=out)
        if self.output is not None and self.frame.output is not None:
            self.frame.output.copy_to(self.output, stream=out)

    def result(self) -> EdgeResult:
        """Wait for the image, and copy its results, for the slot is used again."""
        self._emptied.synchronize()
        edges = np.array(self.edges)
        output = edges if self.output is None else np.array(self.output)
        return EdgeResult(edges, np.array(self.histogram), output, {}, self.frame.impl)

    def free(self) -> None:
        """Give the memory of both sides back; what is still asked for must end first."""
        self._emptied.synchronize()
        self.frame.free()
        for array in (self.samples, self.edges, self.histogram, *(() if self.output is None else (self.output,))):
            array.free()
