"""Many images at once: the same results as one by one, in bounded memory, overlapped, with no finding; and the threads beside the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.pipeline import EdgePipeline, Parameters, reference, stream_edges
from gridstride.pipeline.conveyor import AHEAD, conveyed
from pipeline import cases


def frames(count: int) -> list[np.ndarray]:
    return [np.roll(cases.image(60, 90, 3, 8), 5 * number, 0) for number in range(count)]


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("impl", ["cuda", "fused"])
def test_streamed_results_are_those_of_the_reference_without_a_finding(impl: str, graph: bool) -> None:
    chosen = Parameters(output="blurred", depth="float")
    pipeline = EdgePipeline(gs.device("sim"), chosen, impl)
    given = [*frames(5), cases.image(7, 5, 1, 16), cases.image(7, 5, 1, 16), *frames(2)]  # another kind in between
    with gs.checking() as findings:
        results = list(stream_edges(iter(given), pipeline, graph=graph))
    assert not findings, str(findings)
    assert len(results) == len(given)
    for image, result in zip(given, results, strict=True):
        expected = reference.run(image, np.float32, chosen)
        np.testing.assert_array_equal(result.edges, expected.edges)
        np.testing.assert_array_equal(result.output, expected.blurred)
        np.testing.assert_array_equal(result.histogram, expected.histogram)


@pytest.mark.parametrize("graph", [False, True])
def test_timeline_shows_the_overlap(graph: bool) -> None:
    pipeline = EdgePipeline(gs.device("sim"), impl="fused")
    images = [np.tile(image, (4, 4, 1)) for image in frames(8)]
    with gs.timeline({"fused_u8_3": 15.0}) as together:
        list(stream_edges(images, pipeline, graph=graph))
    with gs.timeline({"fused_u8_3": 15.0}) as alone:
        list(stream_edges(images, pipeline, slots=1))
    assert alone.overlap_us == 0
    assert together.overlap_us > 0.3 * together.kernel_us and together.total_us < 0.8 * alone.total_us


def test_images_in_flight_are_bounded_and_memory_is_given_back() -> None:
    pipeline = EdgePipeline(gs.device("sim"), impl="fused")
    taken, seen = 0, 0

    def source() -> Iterator[np.ndarray]:
        nonlocal taken
        for image in frames(12):
            taken += 1
            assert taken - seen <= 4  # three in flight, and the one that is about to come in
            yield image

    with gs.checking() as findings:
        for _ in stream_edges(source(), pipeline, slots=3):
            seen += 1
    assert seen == 12 and not findings


def test_leaving_early_gives_the_memory_back() -> None:
    pipeline = EdgePipeline(gs.device("sim"), impl="fused")
    results = stream_edges(frames(6), pipeline)
    next(results)
    results.close()
    assert len(list(stream_edges(frames(2), pipeline))) == 2


def test_slots_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        list(stream_edges(frames(1), EdgePipeline(gs.device("sim")), slots=0))
    assert str(caught.value) == "slots is the number of images in flight, at least 1, not 0"


def test_decoding_computing_and_encoding_run_at_once() -> None:
    """Ten items of 20 ms in each of three places: 600 ms one after the other, 240 ms overlapped."""
    threads: dict[str, set[int]] = {"decode": set(), "compute": set(), "encode": set()}

    def work(place: str) -> None:
        threads[place].add(threading.get_ident())
        time.sleep(0.02)

    def decode(item: int) -> int:
        work("decode")
        return item * 10

    def compute(decoded: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        for item, value in decoded:
            work("compute")
            yield item, value + 1

    written = []

    def encode(item: int, value: int) -> None:
        work("encode")
        written.append((item, value))

    start = time.perf_counter()
    assert list(conveyed(range(10), decode, compute, encode)) == [(item, None) for item in range(10)]
    assert time.perf_counter() - start < 0.5
    assert written == [(item, 10 * item + 1) for item in range(10)]
    assert len({*threads["decode"], *threads["compute"], *threads["encode"]}) == 3


def test_items_that_fail_are_told_and_the_others_are_done() -> None:
    def decode(item: int) -> int:
        if item in (0, 3):
            raise UsageError(f"{item} is broken")
        return item

    def encode(item: int, value: int) -> None:
        if item == 4:
            raise UsageError("the disk is full")

    outcomes = dict(conveyed(range(6), decode, lambda decoded: iter(decoded), encode))
    assert {item: None if error is None else str(error) for item, error in outcomes.items()} == {
        0: "0 is broken", 1: None, 2: None, 3: "3 is broken",
        4: "the disk is full", 5: None,
    }


def test_little_is_decoded_ahead() -> None:
    decoded_so_far = 0

    def decode(item: int) -> int:
        nonlocal decoded_so_far
        decoded_so_far += 1
        return item

    for number, _ in enumerate(conveyed(range(50), decode, lambda decoded: iter(decoded), lambda item, value: None)):
        assert decoded_so_far <= number + 2 * AHEAD + 2


def test_errors_of_the_device_end_everything() -> None:
    def compute(decoded: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        yield next(iter(decoded))
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        list(conveyed(range(9), lambda item: item, compute, lambda item, value: None))
