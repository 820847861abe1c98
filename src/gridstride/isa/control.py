"""Control flow, calls and barriers (PTX ISA 9.7.12, 9.7.13). Branches are the selector's and the flow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridstride.isa.registry import Effect, operation

if TYPE_CHECKING:
    from gridstride.ir.nodes import Op
    from gridstride.lower.emitter import Emitter


def _selected(e: Emitter, op: Op) -> None:
    raise AssertionError("the selector turns these into other operations")


operation("bra", modifiers="uni?", operands="= addr", section="9.7.12.2", effects=Effect.CONTROL)(_selected)
operation("brx", modifiers="idx uni?", operands="= u32 addr", section="9.7.12.3", effects=Effect.CONTROL)(_selected)
operation("call", modifiers="uni?", operands="=", section="9.7.12.5", effects=Effect.CONTROL)(_selected)
operation("ret", modifiers="uni?", operands="=", section="9.7.12.6", effects=Effect.CONTROL)(_selected)
operation("exit", operands="=", section="9.7.12.7", effects=Effect.CONTROL)(_selected)


def trap(e: Emitter, op: Op) -> None:
    from gridstride.lower import host_calls

    host_calls.trap(e, op)


operation("trap", operands="=", section="9.7.19.3", effects=Effect.CONTROL)(trap)
operation("brkpt", operands="=", section="9.7.19.2", effects=Effect.CONTROL)(trap)


def _host(e: Emitter, op: Op) -> None:
    from gridstride.lower import host_calls

    host_calls.lower(e, op)


operation("call", modifiers="vprintf", operands="b32 = b64 b64", section="9.7.12.5", effects=Effect.SYNCHRONISES)(_host)
operation("call", modifiers="__assertfail", operands="= b64 b64 b32 b64 b64", section="9.7.12.5", effects=Effect.CONTROL)(_host)
operation("call", modifiers="malloc", operands="b64 = b64", section="9.7.12.5", effects=Effect.SYNCHRONISES)(_host)
operation("call", modifiers="free", operands="= b64", section="9.7.12.5", effects=Effect.SYNCHRONISES)(_host)


def _same_target(e: Emitter, op: Op) -> None:
    from gridstride.lower import lanes_across

    lanes_across.same_target(e, op)


operation("call", modifiers="function", operands="= b64", section="9.7.12.5", effects=Effect.SYNCHRONISES)(_selected)
operation("call", modifiers="same_target", operands="pred = b64", section="9.7.12.5", effects=Effect.READS_LANES)(_same_target)


def barrier(e: Emitter, op: Op) -> None:
    from gridstride.lower import barriers

    barriers.lower(e, op)


_ALIGNED = "cta? aligned?"
operation("bar", modifiers="sync cta?", operands="= u32 u32?", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)
operation("bar", modifiers="arrive cta?", operands="= u32 u32", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)
operation("bar", modifiers="warp sync", operands="= u32", section="9.7.13.2", effects=Effect.SYNCHRONISES)(barrier)
# put before exchanges by passes/find_waiting.py; no PTX text can spell it
operation("bar", modifiers="warp sync gather'", operands="= u32 b64?", section="9.7.13.2", effects=Effect.SYNCHRONISES)(barrier)
operation("barrier", modifiers=f"sync {_ALIGNED}", operands="= u32 u32?", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)
operation("barrier", modifiers=f"arrive {_ALIGNED}", operands="= u32 u32", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)
for _name, _more in (("bar", "cta?"), ("barrier", _ALIGNED)):
    operation(_name, types="pred", modifiers=f"red and|or {_more}", operands="0 = u32 u32? pred", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)
    operation(_name, types="u32", modifiers=f"red popc {_more}", operands="0 = u32 u32? pred", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier)


def cluster_barrier(e: Emitter, op: Op) -> None:
    from gridstride.lower import cluster_barriers

    cluster_barriers.lower(e, op)


operation("barrier", modifiers="cluster arrive release|relaxed? aligned?", operands="=", section="9.7.13.3", effects=Effect.SYNCHRONISES)(cluster_barrier)
operation("barrier", modifiers="cluster wait acquire? aligned?", operands="=", section="9.7.13.3", effects=Effect.SYNCHRONISES)(cluster_barrier)


def _cluster_synced(e: Emitter, op: Op) -> None:
    from gridstride.lower import checking

    checking.cluster_synced(e, op)


operation("cluster_synced", operands="=", section="9.7.13.3", effects=Effect.SYNCHRONISES)(_cluster_synced)


def _warp_synced(e: Emitter, op: Op) -> None:
    from gridstride.lower import checking

    checking.warp_synced(e, op)


operation("warp_synced", operands="= u32", section="9.7.13.2", effects=Effect.SYNCHRONISES)(_warp_synced)


def barrier_result(e: Emitter, op: Op) -> None:
    from gridstride.lower import barriers

    barriers.result(e, op)


operation("barrier_result", types="pred u32", operands="0 =", section="9.7.13.1", effects=Effect.SYNCHRONISES)(barrier_result)
