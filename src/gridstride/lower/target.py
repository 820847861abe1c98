"""Where a memory access goes: its address, whether it is allowed, and the slow way for whatever is not clear at once.

Global, constant and generic addresses are host addresses: the fast way is taken when the lowest and the highest
byte of the warp's access lie in the allocation that this instruction hit last. Shared addresses are offsets into
the block's shared memory; those that lead into another block's of the cluster (see `isa/windows.py`) are outside of it
and so never take the fast way. Whatever the fast way cannot decide goes to `resolve`, which looks at every lane, finds
the allocation or the fault, and returns host addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from gridstride.ir.nodes import AddressOf, Op, Reg
from gridstride.isa.lanes import vector_type
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.records import BLOCK, SPACES, WORKER
from gridstride.lower.runtime_table import call_runtime
from gridstride.lower.values import Value, uniform
from gridstride.lower.vector_memory import (
    gather,
    pointer,
)
from gridstride.passes.analyse_shapes import UNIFORM


@dataclass
class Target:
    """One access being lowered."""

    op: Op
    space: str  # "flat", "shared" or "local"
    address: Value  # i64
    narrow: Value | None  # the address before it was extended, where the register has 32 bits
    bits: int  # of one element in memory
    count: int
    aligned: int  # bytes that the address is known to be a multiple of

    @property
    def bytes(self) -> int:
        return self.bits // 8 * self.count


def target_of(e: Emitter, op: Op) -> Target:
    access = op.access
    assert access is not None
    space = access.space if access.space in ("shared", "local") else "flat"
    base = op.args[0]
    if isinstance(base, AddressOf):
        address = uniform("i64", e.symbol(base))
    else:
        address = e.read(base, e.storage(base.id) if isinstance(base, Reg) else "i64")
    address = e.values.plus_constant(address, access.offset)
    narrow = address if address.type == "i32" else None
    if narrow is not None:
        address = _extended(e, address)
    bits, count = access.element.bits, access.count
    if bits == 128:
        bits, count = 64, count * 2
    known = 1 << min(e.alignments.get(base.id, 0), _low_zeros(access.offset), 12) if isinstance(base, Reg) else 1
    return Target(op, space, address, narrow, max(8, bits), count, known)


def _extended(e: Emitter, address: Value) -> Value:
    """A 32-bit address as 64 bits. An affine one stays affine: where its 32-bit sum would wrap, the 64-bit sum is
    out of bounds and the exact addresses are looked at."""
    if address.shape.kind == "affine":
        base = e.b.sext(address.parts[0], I64)  # a row that begins below zero may reach inside
        return Value(address.shape, "i64", (base, *[e.b.sext(p, I64) for p in address.parts[1:]]))
    return e.values.convert(address, "i64")


def in_range(e: Emitter, t: Target, low: ir.Value, high: ir.Value) -> ir.Value:
    """Whether the accesses from address `low` to address `high` are inside what the fast way knows."""
    b = e.b
    if t.space == "flat":
        first, end = last_hit(e, t)
        last = b.sub(end, ir.Constant(I64, t.bytes))
        inside = b.and_(b.icmp_unsigned(">=", low, first), b.icmp_unsigned("<=", high, last))
        # a line that runs over the end of the address space begins above its end
        return inside if low is high else b.and_(inside, b.icmp_unsigned("<=", low, high))
    field = "shared_bytes" if t.space == "shared" else "local_bytes"
    limit = e.once(field, WORKER, e.worker, field)
    last = b.sub(limit, ir.Constant(I64, t.bytes))
    inside = b.and_(b.icmp_signed(">=", low, ir.Constant(I64, 0)), b.icmp_signed("<=", high, last))
    return inside if low is high else b.and_(inside, b.icmp_signed("<=", low, high))


def last_hit(e: Emitter, t: Target) -> tuple[ir.Value, ir.Value]:
    slots = e.once("slots", WORKER, e.worker, "slots")
    place = e.b.gep(slots, [ir.Constant(I64, 16 * t.op.site)], source_etype=I8)
    return e.b.load(place, typ=I64), e.b.load(pointer(e, place, 8), typ=I64)


def is_aligned(e: Emitter, t: Target, *parts: ir.Value) -> ir.Value | None:
    if t.bytes <= t.aligned:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = e.b.or_(total, part)
    low_bits = e.b.and_(total, ir.Constant(I64, t.bytes - 1))
    return e.b.icmp_unsigned("==", low_bits, ir.Constant(I64, 0))


def both(e: Emitter, a: ir.Value, b: ir.Value | None) -> ir.Value:
    return a if b is None else e.b.and_(a, b)


def host_base(e: Emitter, t: Target) -> ir.Value | None:
    if t.space == "shared":
        return e.once("shared", BLOCK, e.block, "shared")
    return None


def host_address(e: Emitter, t: Target, address: ir.Value) -> ir.Value:
    """The host pointer of a scalar address."""
    base = host_base(e, t)
    return pointer(e, address) if base is None else pointer(e, base, address)


def _resolve_arguments(e: Emitter, t: Target, where: ir.Value, size: int, align: int) -> list[ir.Value]:
    assert t.op.access is not None
    space = SPACES.index("shared::cluster" if t.op.access.cluster else t.op.access.space)
    constants = [ir.Constant(I64, size), ir.Constant(I64, align), ir.Constant(I32, space)]
    return [e.worker, e.block, e.warp, ir.Constant(I32, t.op.site), where, e.active, *constants]


def _exact(e: Emitter, t: Target) -> ir.Value:
    """The addresses of all lanes; what has 32 bits wraps there (see `_extended`)."""
    if t.narrow is None or t.narrow.shape == UNIFORM:
        return e.values.vector(t.address)
    return e.b.zext(e.values.vector(t.narrow), vector_type("i64"))


def resolved(e: Emitter, t: Target, offset: int = 0, size: int | None = None) -> ir.Value:
    """Host addresses of all lanes, after the exact checks; leaves the kernel where they fail."""
    addresses = _plus(e, _exact(e, t), offset)
    align = t.bytes if offset == 0 else size or t.bytes  # of an access in pieces the first is as aligned as the whole
    hosts = call_runtime(e, "resolve", _resolve_arguments(e, t, addresses, size or t.bytes, align))
    e.stop_if_faulted()
    return hosts


def word_by_word(e: Emitter, t: Target) -> bool:
    """Whether 32-bit words that are neighbours to the thread may lie apart in the host's memory."""
    assert t.op.access is not None
    return t.bytes > 4 and (t.space == "local" or (t.op.access.space == "generic" and e.function.local_bytes > 0))


def slow_load(e: Emitter, t: Target) -> list[ir.Value]:
    size = t.bits // 8
    if t.count == 1 and not word_by_word(e, t):
        loaded = call_runtime(e, f"slow_load{t.bits}", _resolve_arguments(e, t, _exact(e, t), t.bytes, t.bytes))
        e.stop_if_faulted()
        return [loaded]
    if not word_by_word(e, t):
        hosts = resolved(e, t)
        return [gather(e, _plus(e, hosts, size * k), t.bits, e.active, e.active_lanes) for k in range(t.count)]
    if size <= 4:
        return [gather(e, resolved(e, t, size * k, size), t.bits, e.active, e.active_lanes) for k in range(t.count)]
    return [joined(e, *[gather(e, resolved(e, t, 8 * k + h, 4), 32, e.active, e.active_lanes) for h in (0, 4)]) for k in range(t.count)]


def slow_store(e: Emitter, t: Target, values: list[ir.Value]) -> None:
    size = t.bits // 8
    if t.count == 1 and not word_by_word(e, t):
        call_runtime(e, f"slow_store{t.bits}", [*_resolve_arguments(e, t, _exact(e, t), t.bytes, t.bytes), values[0]])
        e.stop_if_faulted()
        return
    if not word_by_word(e, t):
        hosts = resolved(e, t)
        for k, value in enumerate(values):
            call_runtime(e, f"scatter{t.bits}", [_plus(e, hosts, size * k), e.active, value])
        return
    for k, value in enumerate(values):
        if size <= 4:
            call_runtime(e, f"scatter{t.bits}", [resolved(e, t, size * k, size), e.active, value])
            continue
        for half, word in enumerate(halves(e, value)):
            call_runtime(e, "scatter32", [resolved(e, t, 8 * k + 4 * half, 4), e.active, word])


def _plus(e: Emitter, hosts: ir.Value, offset: int) -> ir.Value:
    return e.b.add(hosts, e.values.warp.const("i64", offset)) if offset else hosts


def joined(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    wide = vector_type("i64")
    return e.b.or_(e.b.zext(low, wide), e.b.shl(e.b.zext(high, wide), e.values.warp.const("i64", 32)))


def halves(e: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    narrow = vector_type("i32")
    return e.b.trunc(value, narrow), e.b.trunc(e.b.lshr(value, e.values.warp.const("i64", 32)), narrow)


def combines(t: Target) -> bool:
    """Whether an atomic is an integer reduction to one address: all lanes' operands can be brought as one."""
    op = t.op
    assert op.access is not None
    kind = op.access.element
    unused = not op.results or op.results[0] is None
    return unused and t.address.shape == UNIFORM and kind.kind in "sub" and kind.bits <= 64 and op.info in ("add", "and", "or", "xor", "min", "max")


def resolved_one(e: Emitter, t: Target, address: ir.Value) -> ir.Value:
    host = call_runtime(e, "resolve_one", _resolve_arguments(e, t, address, t.bytes, t.bytes))
    e.stop_if_faulted()
    return host


def _low_zeros(offset: int) -> int:
    return (offset & -offset).bit_length() - 1 if offset else 64
