"""mbarrier objects in shared memory (PTX ISA 9.7.13.15), and what of an object's state anybody may look at.

The state is 64 bits that only these instructions understand:

    0..19 arrivals still awaited in this phase, 20..39 arrivals awaited in each, 40..60 bytes still awaited (signed),
    61 the phase's parity, 62..63 MARK
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Effect, Form, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter

COUNT_BITS = 20
MOST = (1 << COUNT_BITS) - 1  # arrivals of a phase, and bytes either way (PTX ISA 9.7.13.15.2)
EXPECTED_SHIFT, BYTES_SHIFT, PHASE_SHIFT, MARK_SHIFT = 20, 40, 61, 62
MARK = 2  # of a state that `init` made


def mbarrier(e: Emitter, op: Op) -> None:
    from gridstride.lower import mbarriers

    mbarriers.lower(e, op)


_HERE = "shared|shared::cta?"
_ANYWHERE = "shared|shared::cta|shared::cluster?"
_SCOPE = "cta|cluster?"
_BOTH = Effect.READS_MEMORY | Effect.WRITES_MEMORY
_S = "9.7.13.15"
operation("mbarrier", types="b64", modifiers=f"init {_HERE}", operands="= addr u32", section=f"{_S}.9", effects=_BOTH)(mbarrier)
operation("mbarrier", types="b64", modifiers=f"inval {_HERE}", operands="= addr", section=f"{_S}.10", effects=_BOTH)(mbarrier)
for _number, _name in ((11, "expect_tx"), (12, "complete_tx")):
    operation("mbarrier", types="b64", modifiers=f"{_name} relaxed? {_SCOPE} {_ANYWHERE}", operands="= addr u32", section=f"{_S}.{_number}", effects=_BOTH)(mbarrier)
for _number, _name in ((13, "arrive"), (14, "arrive_drop")):
    operation("mbarrier", types="b64", modifiers=f"{_name} release|relaxed? {_SCOPE} {_ANYWHERE}", operands="0 = addr u32?", section=f"{_S}.{_number}", effects=_BOTH)(mbarrier)
    operation("mbarrier", types="b64", modifiers=f"{_name} expect_tx release|relaxed? {_SCOPE} {_ANYWHERE}", operands="0 = addr u32", section=f"{_S}.{_number}", effects=_BOTH)(mbarrier)
    operation("mbarrier", types="b64", modifiers=f"{_name} noComplete release|relaxed? {_SCOPE} {_HERE}", operands="0 = addr u32", section=f"{_S}.{_number}", effects=_BOTH)(mbarrier)
for _name, _hint in (("test_wait", ""), ("try_wait", " u32?")):
    for _parity, _operand in (("", "b64"), ("parity ", "u32")):
        operation("mbarrier", types="b64", modifiers=f"{_name} {_parity}acquire|relaxed? {_SCOPE} {_HERE}", operands=f"pred = addr {_operand}{_hint}", section=f"{_S}.16", effects=_BOTH)(mbarrier)


def _pending_count(form: Form, state: int) -> int:
    return state & MOST


@operation("mbarrier", types="b64", modifiers="pending_count", operands="u32 = 0", section=f"{_S}.17", meaning=_pending_count)
def pending_count(cx: Lanes, form: Form, state: ir.Value) -> ir.Value:
    """The arrivals that were awaited when `state` was taken."""
    return cx.b.trunc(cx.b.and_(state, cx.const("i64", MOST)), cx.type("i32"))
