"""The order of streams against a plain search through the graph of what CUDA's rules say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridstride.events.operations import LEGACY
from gridstride.events.order import Moment, Order, Stamp

BLOCKING, FREE = (1, 2), (3, 4)
STREAMS = (LEGACY, *BLOCKING, *FREE)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("operation"), st.sampled_from(STREAMS)),
        st.tuples(st.just("record"), st.sampled_from(STREAMS)),
        st.tuples(st.just("wait"), st.sampled_from(STREAMS)),
        st.tuples(st.just("synchronize"), st.sampled_from(STREAMS)),
        st.tuples(st.just("device"), st.just(LEGACY)),
    ),
    max_size=40,
)


class Plain:
    """The rules as edges between operations, searched anew for every question."""

    def __init__(self) -> None:
        self.before: list[set[int]] = []
        self.stream: list[int] = []
        self.waits: dict[int, set[int]] = {s: set() for s in STREAMS}
        self.host: set[int] = set()

    def last(self, stream: int) -> set[int]:
        """What the stream's next operation follows by the stream's own order and the default stream's rule."""
        found = {k for k, s in enumerate(self.stream) if s == stream}
        if stream == LEGACY:
            found |= {k for k, s in enumerate(self.stream) if s in BLOCKING}
        if stream in BLOCKING:
            found |= {k for k, s in enumerate(self.stream) if s == LEGACY}
        return found

    def add(self, stream: int) -> int:
        extra = set(self.waits[stream])
        if stream == LEGACY:
            for other in BLOCKING:
                extra |= self.waits[other]
        self.before.append(self.last(stream) | extra | self.host)
        self.stream.append(stream)
        return len(self.stream) - 1

    def reach(self, start: set[int]) -> set[int]:
        seen: set[int] = set()
        waiting = list(start)
        while waiting:
            k = waiting.pop()
            if k not in seen:
                seen.add(k)
                waiting.extend(self.before[k])
        return seen


@given(STEPS)
def test_order_is_that_of_the_rules(steps: list[tuple[str, int]]) -> None:
    order, plain = Order(), Plain()
    for stream in (*BLOCKING, *FREE):
        order.open(stream, blocking=stream in BLOCKING)
    stamps: list[Stamp] = []
    event: tuple[Moment, set[int]] | None = None
    for what, stream in steps:
        if what == "operation":
            number = plain.add(stream)
            stamps.append(order.add(stream, number))
        elif what == "record":
            # an event in the legacy stream marks that stream's own place; it is asked for as an operation, as the runtime does
            number = plain.add(stream)
            stamps.append(order.add(stream, number))
            event = order.moment(stream), {number}
        elif what == "wait" and event is not None:
            order.wait(stream, event[0])
            plain.waits[stream] |= event[1]
        elif what == "synchronize":
            number = plain.add(stream)
            stamps.append(order.add(stream, number))
            order.host_waits(order.moment(stream))
            plain.host |= {number}
        elif what == "device":
            order.host_waits()
            plain.host |= set(range(len(stamps)))
    for k, later in enumerate(stamps):
        known = plain.reach(plain.before[k])
        for j in range(k):
            assert later.follows(stamps[j]) == (j in known), (steps, j, k)


def test_direct_predecessors() -> None:
    order = Order()
    order.open(1, blocking=True)
    order.open(2, blocking=False)
    assert order.add(1, 10).after == ()
    assert order.add(1, 11).after == (10,)
    assert order.add(2, 12).after == ()
    assert order.add(LEGACY, 13).after == (11,)  # waits for the blocking stream alone
    assert order.add(1, 14).after == (13,)  # which follows 11
    order.wait(2, order.moment(1))
    assert order.add(2, 15).after == (12, 14)
    assert order.everything() == (13, 14, 15)


def test_branches_of_a_graph() -> None:
    order = Order()
    order.open(1, blocking=False)
    first = order.add(1, 0)
    left, right = (order.fork(order.moment(1)) for _ in range(2))
    a, b = order.add(left, 1), order.add(right, 2)
    assert a.follows(first) and b.follows(first) and not a.follows(b) and not b.follows(a)
    for branch in (left, right):
        order.wait(1, order.moment(branch))
        order.close(branch)
    end = order.add(1, 3)
    assert end.follows(a) and end.follows(b) and end.after == (0, 1, 2)


def test_a_closed_stream_is_forgotten_once_the_host_knows() -> None:
    order = Order()
    for stream in range(1, 50):
        order.open(stream, blocking=True)
        stamp = order.add(stream, stream)
        order.close(stream)
        assert not order.host_knows(stamp)
        order.host_waits()
        assert order.host_knows(stamp)
        order.add(LEGACY, 100 + stream)
    later = order.add(LEGACY, 1000)
    assert set(later.clock) == {LEGACY}


def test_waiting_sets_do_not_grow() -> None:
    order = Order()
    order.open(1, blocking=True)
    for number in range(1000):
        order.add(LEGACY, number)
    assert order.add(1, 1000).after == (999,)
