"""What mbarrier instructions do to an object's state, as functions shared by all kernels: lane by lane, in lane order.

Nothing here is atomic: an object lies in shared memory, and all blocks that can reach it run on one thread of the host.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gridstride.isa.mbarrier import BYTES_SHIFT, COUNT_BITS, EXPECTED_SHIFT, MARK, MARK_SHIFT, MOST, PHASE_SHIFT
from gridstride.lower.native import Native, NativeFunction
from gridstride.lower.records import BARRIER_MISUSES, BLOCK, FAULT_MISUSE, RUNTIME_FUNCTIONS, WARP, WORKER

DROPS, KEEPS_OPEN = 1, 2  # `how` of an arrival: arrive_drop; .noComplete
_BYTES_BITS = COUNT_BITS + 1


def build_mbarriers(module: ir.Module) -> None:
    """`mbarrier_init`, `mbarrier_inval`, `mbarrier_arrive`, `mbarrier_bytes`, `mbarrier_wait`. Misuse is a fault of the first lane
    that does it; the lanes after it do nothing."""
    _init(module)
    _inval(module)
    _arrive(module)
    _bytes(module)
    _wait(module)


class _Lane:
    """One lane's operation on one object."""

    def __init__(self, f: NativeFunction, lane: Native, place: Native) -> None:
        self.f, self.lane, self.place = f, lane, place
        self.state = f.load("i64", place, align=8)

    def stop_if(self, wrong: Native, what: str, result: Native | None = None) -> None:
        f = self.f
        with f.if_(wrong):
            worker, block, warp, site = f.args[:4]
            f.put(WORKER, worker, "fault_code", FAULT_MISUSE)
            f.put(WORKER, worker, "fault_detail", BARRIER_MISUSES.index(what))
            f.put(WORKER, worker, "fault_site", site)
            f.put(WORKER, worker, "fault_lanes", f.const("i32", 1) << self.lane)
            f.put(WORKER, worker, "fault_warp", f.get(WARP, warp, "index"))
            f.put(WORKER, worker, "fault_block", f.get(BLOCK, block, "linear"))
            f.ret(result)
            f.b.position_at_end(f.block("dead"))

    @property
    def unmarked(self) -> Native:
        return (self.state >> MARK_SHIFT).ne(MARK)

    @property
    def pending(self) -> Native:
        return self.state & MOST

    @property
    def expected(self) -> Native:
        return (self.state >> EXPECTED_SHIFT) & MOST

    @property
    def bytes(self) -> Native:
        """Signed."""
        at_the_top = self.state << (64 - _BYTES_BITS - BYTES_SHIFT)
        return Native(self.f, self.f.b.ashr(at_the_top.v, ir.Constant(ir.IntType(64), 64 - _BYTES_BITS)))

    @property
    def parity(self) -> Native:
        return (self.state >> PHASE_SHIFT) & 1

    def put(self, pending: Native, expected: Native, waiting: Native) -> None:
        """Store the new counts; where nothing is awaited any more the phase is complete and the next begins."""
        f = self.f
        complete = (pending | waiting).eq(0)
        left = complete.select(expected, pending)
        parity = self.parity ^ complete.to("i64")
        self.store(left | (expected << EXPECTED_SHIFT) | ((waiting & ((1 << _BYTES_BITS) - 1)) << BYTES_SHIFT) | (parity << PHASE_SHIFT) | (MARK << MARK_SHIFT))
        f.add_to(WORKER, f.args[0], "changes", 1)

    def store(self, state: Native) -> None:
        self.f.store(state, self.place, align=8)


def _each(f: NativeFunction, work: Callable[[_Lane, list[Native]], None]) -> None:
    """For each lane of the mask: the lane, and its elements of the vectors that follow the mask."""
    hosts, mask = f.args[4:6]
    places = f.variable("32xi64", hosts)
    vectors = [a for a in f.args[6:] if isinstance(a.v.type, ir.VectorType)]
    given = [f.variable("32xi32", v) for v in vectors]
    with f.each_lane(mask) as lane:
        place = f.load("i64", Native(f, places.slot), lane.to("i64") * 8).to("ptr")
        work(_Lane(f, lane, place), [f.load("i32", Native(f, g.slot), lane.to("i64") * 4) for g in given])


def _function(module: ir.Module, name: str) -> NativeFunction:
    result, arguments = RUNTIME_FUNCTIONS[name]
    return NativeFunction(module, name, result, list(arguments))


def _outside(f: NativeFunction, count: Native) -> Native:
    """Whether a count of arrivals is none (PTX ISA 9.7.13.15.2)."""
    return (count - 1) >= MOST


def _init(module: ir.Module) -> None:
    """mbarrier_init(worker, block, warp, site, host addresses, mask, counts)"""
    f = _function(module, "mbarrier_init")

    def work(lane: _Lane, values: list[Native]) -> None:
        lane.stop_if(_outside(f, values[0]), "bad-count")
        count = values[0].to("i64")
        lane.store(count | (count << EXPECTED_SHIFT) | (MARK << MARK_SHIFT))
        f.add_to(WORKER, f.args[0], "changes", 1)

    _each(f, work)
    f.ret()


def _inval(module: ir.Module) -> None:
    """mbarrier_inval(worker, block, warp, site, host addresses, mask): the place is free for other use."""
    f = _function(module, "mbarrier_inval")

    def work(lane: _Lane, values: list[Native]) -> None:
        lane.stop_if(lane.unmarked, "not-initialised")
        lane.store(f.const("i64", 0))

    _each(f, work)
    f.ret()


def _arrive(module: ir.Module) -> None:
    """mbarrier_arrive(worker, block, warp, site, host addresses, mask, counts, bytes to expect, how) -> the states before."""
    f = _function(module, "mbarrier_arrive")
    how = f.args[8]
    result = f.variable("32xi64", f.const("32xi64", 0))
    nothing = f.const("32xi64", 0)

    def work(lane: _Lane, values: list[Native]) -> None:
        lane.stop_if(lane.unmarked, "not-initialised", nothing)
        lane.stop_if(_outside(f, values[0]), "bad-count", nothing)
        count, size = values[0].to("i64"), values[1].to("i64")
        waiting = lane.bytes + size
        lane.stop_if((size > MOST) | _too_many(f, waiting), "too-many-bytes", nothing)
        lane.stop_if(count > lane.pending, "too-many-arrivals", nothing)
        drops = (how & DROPS).ne(0)
        lane.stop_if(drops & (count > lane.expected), "too-many-arrivals", nothing)
        pending = lane.pending - count
        lane.stop_if((how & KEEPS_OPEN).ne(0) & (pending | waiting).eq(0), "completes", nothing)
        f.store(lane.state, Native(f, result.slot), lane.lane.to("i64") * 8)
        lane.put(pending, lane.expected - drops.select(count, f.const("i64", 0)), waiting)

    _each(f, work)
    f.ret(result.get())


def _too_many(f: NativeFunction, waiting: Native) -> Native:
    """Whether a (signed) number of bytes is beyond what an object can await, or owe."""
    return (waiting + MOST) > 2 * MOST


def _bytes(module: ir.Module) -> None:
    """mbarrier_bytes(worker, block, warp, site, host addresses, mask, bytes): so many more (signed) are awaited."""
    f = _function(module, "mbarrier_bytes")

    def work(lane: _Lane, values: list[Native]) -> None:
        lane.stop_if(lane.unmarked, "not-initialised")
        more = Native(f, f.b.sext(values[0].v, ir.IntType(64)))
        waiting = lane.bytes + more
        lane.stop_if(_too_many(f, more) | _too_many(f, waiting), "too-many-bytes")
        lane.put(lane.pending, lane.expected, waiting)

    _each(f, work)
    f.ret()


def _wait(module: ir.Module) -> None:
    """mbarrier_wait(worker, block, warp, site, host addresses, mask, parities) -> lanes whose phase is complete: the object
    is in a phase of the other parity. Who waits in vain looks again after others have run: the next back edge of a loop yields."""
    f = _function(module, "mbarrier_wait")
    worker, mask = f.args[0], f.args[5]
    complete = f.variable("i32", 0)
    complete.set(0)

    def work(lane: _Lane, values: list[Native]) -> None:
        lane.stop_if(lane.unmarked, "not-initialised", f.const("i32", 0))
        over = lane.parity.ne((values[0] & 1).to("i64")).to("i32")
        complete.set(complete.get() | (over << lane.lane))

    _each(f, work)
    with f.if_(complete.get().ne(mask)):
        f.add_to(WORKER, worker, "executed", f.const("i64", 0) - f.get(WORKER, worker, "polls"))
        f.put(WORKER, worker, "polls", 0)
    f.ret(complete.get())
