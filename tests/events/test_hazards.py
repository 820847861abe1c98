"""Ranges of addresses, and which accesses are told as hazards."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gridstride.events.hazards import NOTHING, Access, Hazards, first_common, ranges, runs
from gridstride.events.order import Order

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


@given(SPANS, SPANS)
def test_common_bytes_are_those_of_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    first, second = ({k for low, high in spans for k in range(low, high)} for spans in (a, b))
    found = first_common(ranges(a), ranges(b))
    assert (found is None) == (not first & second)
    if found is not None:
        assert found[0] == min(first & second) and set(range(found[0], found[0] + found[1])) <= first & second


@given(st.lists(st.booleans(), max_size=40))
def test_runs_of_a_mask(mask: list[bool]) -> None:
    found = {w for low, high in runs(np.array(mask, bool), 1000) for w in range(low, high, 4)}
    assert found == {1000 + 4 * k for k, set_ in enumerate(mask) if set_}


def test_two_streams_on_one_buffer() -> None:
    order = Order()
    hazards = Hazards(order)
    for stream in (1, 2):
        order.open(stream, blocking=False)
    buffer = ranges([(100, 200)])

    def access(number: int, stream: int, *, writes: bool) -> Access:
        return Access(order.add(stream, number), f"operation {number}", "", f"stream {stream}", NOTHING if writes else buffer, buffer if writes else NOTHING)

    assert hazards.add(access(0, 1, writes=False)) == []
    assert hazards.add(access(1, 2, writes=False)) == []  # both only read
    (found,) = hazards.add(access(2, 1, writes=True))  # its own read is past, that of stream 2 is not
    assert found.earlier.what == "operation 1" and found.how == ("reads", "writes") and found.address == 100
    order.wait(2, order.moment(1))
    assert hazards.add(access(3, 2, writes=True)) == []  # stream 2 has waited for stream 1
    (host,) = hazards.host(ranges([(150, 151)]), NOTHING)
    assert host.later is None and host.earlier.what in ("operation 2", "operation 3") and host.address == 150
    order.host_waits()
    assert hazards.host(buffer, buffer) == []
