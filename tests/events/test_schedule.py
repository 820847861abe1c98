"""The model of time on small programs whose times follow by hand."""

from __future__ import annotations

import pytest

from gridstride.events.operations import HostWait, Kind, Operation, Step
from gridstride.events.schedule import Schedule, common, schedule
from gridstride.events.timeline import Timeline
from gridstride.events.transfers import Link, copy_microseconds, link_of
from gridstride.machine.devices import DEVICES, find_device

LINK = Link(50, 50, 10, 10, start_copy=2, start_kernel=3, host_call=1, pageable_call=4, fault_to_device=10, fault_to_host=10, mapped=10, follow=1, graph_node=1)


def operation(number: int, kind: Kind, us: float, stream: int, *after: int, **more: object) -> Operation:
    return Operation(number, kind, f"{kind.value} {number}", stream, after, us, **more)  # type: ignore[arg-type]


def spans(steps: list[Step]) -> dict[int, tuple[float, float]]:
    return {p.operation.number: (p.start, p.end) for p in schedule(steps, LINK).operations}


def test_one_after_the_other_in_a_stream() -> None:
    steps: list[Step] = [operation(0, Kind.TO_DEVICE, 100, 1), operation(1, Kind.KERNEL, 50, 1, 0), operation(2, Kind.TO_HOST, 10, 1, 1)]
    # asked at 1, starts 2 later; what waits starts 1 after the end before it
    assert spans(steps) == {0: (3, 103), 1: (104, 154), 2: (155, 165)}


def test_a_copy_each_way_and_a_kernel_side_by_side() -> None:
    steps: list[Step] = [operation(0, Kind.TO_DEVICE, 100, 1), operation(1, Kind.TO_HOST, 100, 2), operation(2, Kind.KERNEL, 100, 3)]
    assert spans(steps) == {0: (3, 103), 1: (4, 104), 2: (6, 106)}


def test_one_engine_a_direction() -> None:
    steps: list[Step] = [operation(0, Kind.TO_DEVICE, 100, 1), operation(1, Kind.TO_DEVICE, 100, 2)]
    assert spans(steps) == {0: (3, 103), 1: (103, 203)}


def test_kernels_share_the_device_as_far_as_they_fit() -> None:
    steps: list[Step] = [operation(k, Kind.KERNEL, 100, k + 1, share=0.5) for k in range(3)]
    assert spans(steps) == {0: (4, 104), 1: (5, 105), 2: (104, 204)}
    steps = [operation(k, Kind.KERNEL, 100, k + 1, share=1.0) for k in range(2)]
    assert spans(steps) == {0: (4, 104), 1: (104, 204)}


def test_priority_decides_who_comes_next() -> None:
    steps: list[Step] = [
        operation(0, Kind.KERNEL, 100, 1),
        operation(1, Kind.KERNEL, 10, 2, priority=0),
        operation(2, Kind.KERNEL, 10, 3, priority=-5),
    ]
    assert spans(steps) == {0: (4, 104), 2: (104, 114), 1: (114, 124)}


def test_the_host_waits() -> None:
    steps: list[Step] = [operation(0, Kind.KERNEL, 100, 1), HostWait((0,), "stream 1"), operation(1, Kind.KERNEL, 100, 2)]
    found = schedule(steps, LINK)
    assert [(w.what, w.start, w.end) for w in found.waits] == [("stream 1", 1, 104)]
    assert spans(steps)[1] == (108, 208)  # asked at 105


def test_pageable_memory_holds_the_host() -> None:
    steps: list[Step] = [operation(0, Kind.TO_DEVICE, 100, 1, pageable=True), operation(1, Kind.KERNEL, 100, 2)]
    assert spans(steps) == {0: (6, 106), 1: (110, 210)}


def test_nodes_of_a_graph_cost_the_host_nothing() -> None:
    start = operation(0, Kind.GRAPH, 0, 1)
    steps: list[Step] = [start, *(operation(k, Kind.KERNEL, 10, 1, k - 1, in_graph=True) for k in (1, 2))]
    assert spans(steps) == {0: (4, 4), 1: (5, 15), 2: (16, 26)}


def test_common_time() -> None:
    assert common([(0, 10), (20, 30)], [(5, 25)]) == 10
    assert common([], [(0, 1)]) == 0


def timeline(steps: list[Step]) -> Timeline:
    return Timeline("x", schedule(steps, LINK))


def serial(stream: int, **more: object) -> list[Step]:
    found: list[Step] = []
    for k in range(0, 9, 3):
        before = (k - 1,) if k else ()
        found.append(operation(k, Kind.TO_DEVICE, 100, stream, *before, **more))
        found.append(operation(k + 1, Kind.KERNEL, 100, stream, k))
        found.append(operation(k + 2, Kind.TO_HOST, 100, stream, k + 1, **more))
    return found


@pytest.mark.parametrize(
    ("steps", "reason"), [(serial(0), "default stream"), (serial(1), "a missing stream"), (serial(1, pageable=True), "pageable memory")]
)
def test_why_nothing_overlaps(steps: list[Step], reason: str) -> None:
    found = timeline(steps)
    assert found.overlap_us == 0 and reason in [r.what for r in found.reasons]


def test_nothing_is_said_where_copies_hide() -> None:
    steps: list[Step] = []
    for k in range(6):
        steps += [operation(2 * k, Kind.TO_DEVICE, 100, 1), operation(2 * k + 1, Kind.KERNEL, 95, 2, 2 * k)]
    found = timeline(steps)
    assert found.overlap_share > 0.8 and found.total_us == pytest.approx(3 + 600 + 1 + 95 - 3)


def test_empty() -> None:
    assert timeline([]).total_us == 0 and timeline([]).reasons == () and isinstance(schedule([], LINK), Schedule)


def test_every_device_has_a_link() -> None:
    for device in DEVICES:
        link = link_of(device)
        assert link.pageable_to_device <= link.pinned_to_device
        assert copy_microseconds(link, 10**9, to_device=True, pageable=False) == pytest.approx(1e6 / link.pinned_to_device)
    assert link_of(find_device("h200")).measured
