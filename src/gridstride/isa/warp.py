"""Operations across the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.7 to 9.7.13.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.isa.registry import Effect, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter

_READS = Effect.READS_LANES


def shuffle(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.shuffle(e, op)


def vote(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.vote(e, op)


def match(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.match(e, op)


def reduce(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.reduce(e, op)


def active_mask(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.active_mask(e, op)


def elect(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.elect(e, op)


operation("shfl", types="b32", modifiers="sync? up|down|bfly|idx", operands="0 pred? = 0 u32 u32 u32?", section="9.7.9.6", effects=_READS)(shuffle)
operation("vote", types="pred", modifiers="sync? all|any|uni", operands="0 = pred u32?", section="9.7.13.7", effects=_READS)(vote)
operation("vote", types="b32", modifiers="sync? ballot", operands="0 = pred u32?", section="9.7.13.7", effects=_READS)(vote)
operation("match", types="b32 b64", modifiers="any sync", operands="b32 = 0 u32", section="9.7.13.9", effects=_READS)(match)
operation("match", types="b32 b64", modifiers="all sync", operands="b32 pred? = 0 u32", section="9.7.13.9", effects=_READS)(match)
operation("redux", types="u32 s32", modifiers="sync add|min|max", operands="0 = 0 u32", section="9.7.13.11", effects=_READS)(reduce)
operation("redux", types="b32", modifiers="sync and|or|xor", operands="0 = 0 u32", section="9.7.13.11", effects=_READS)(reduce)
operation("redux", types="f32", modifiers="sync min|max abs? NaN?", operands="0 = 0 u32", section="9.7.13.11", effects=_READS)(reduce)
operation("activemask", types="b32", operands="0 =", section="9.7.13.10", effects=_READS)(active_mask)
operation("elect", types="", modifiers="sync", operands="b32 pred? = u32", section="9.7.13.12", effects=_READS)(elect)
