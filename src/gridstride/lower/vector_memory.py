"""Host memory accessed by a warp: contiguous, in rows, at small strides, scattered.

Everything here is after the checks: reads of inactive lanes may touch any byte near the allocation (the arena has
margins), writes only touch active lanes.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa.lanes import scalar_type, vector_type
from gridstride.lower.emitter import I8, I32, I64, Emitter
from gridstride.lower.host import host_features
from gridstride.lower.native import POINTER
from gridstride.lower.runtime_table import call_runtime

MAX_SPAN = 512  # bytes a strided access may read at once


def has_gather() -> bool:
    features = host_features()
    return "+avx2" in features or "+avx512f" in features


def has_scatter() -> bool:
    return "+avx512f" in host_features()


def pointer(e: Emitter, base: ir.Value, offset: ir.Value | int = 0) -> ir.Value:
    """base (pointer or i64) + offset bytes."""
    if isinstance(base.type, ir.IntType):
        base = e.b.inttoptr(base, POINTER)
    if isinstance(offset, int):
        if offset == 0:
            return base
        offset = ir.Constant(I64, offset)
    return e.b.gep(base, [offset], source_etype=I8)


def _shuffle(e: Emitter, vector: ir.Value, indices: list[int]) -> ir.Value:
    mask = ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, k) for k in indices])
    return e.b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def _concat(e: Emitter, parts: list[ir.Value]) -> ir.Value:
    while len(parts) > 1:
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            n = a.type.count
            mask = ir.Constant(ir.VectorType(I32, 2 * n), [ir.Constant(I32, k) for k in range(2 * n)])
            joined.append(e.b.shuffle_vector(a, b, mask))
        parts = joined
    return parts[0]


def _intrinsic(e: Emitter, name: str, result: ir.Type, arguments: list[ir.Value]) -> ir.Value:
    function = e.module.globals.get(name)
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(result, [a.type for a in arguments]), name)
    return e.b.call(function, arguments)


def masked_load(e: Emitter, at: ir.Value, bits: int, mask: ir.Value) -> ir.Value:
    """Contiguous elements under a mask; inactive lanes are zero."""
    count = mask.type.count
    kind = vector_type(f"i{bits}", count)
    arguments = [at, ir.Constant(I32, bits // 8), mask, ir.Constant(kind, None)]
    return _intrinsic(e, f"llvm.masked.load.v{count}i{bits}.p0", kind, arguments)


def masked_store(e: Emitter, value: ir.Value, at: ir.Value, mask: ir.Value) -> None:
    bits = value.type.element.width
    arguments = [value, at, ir.Constant(I32, bits // 8), mask]
    _intrinsic(e, f"llvm.masked.store.v{mask.type.count}i{bits}.p0", ir.VoidType(), arguments)


def gather(e: Emitter, addresses: ir.Value, bits: int, mask: ir.Value, mask_lanes: ir.Value) -> ir.Value:
    """Elements at 32 host addresses (i64 vector)."""
    if bits >= 32 and has_gather():
        kind = vector_type(f"i{bits}")
        pointers = e.b.inttoptr(addresses, ir.VectorType(POINTER, 32))
        arguments = [pointers, ir.Constant(I32, bits // 8), mask_lanes, ir.Constant(kind, None)]
        return _intrinsic(e, f"llvm.masked.gather.v32i{bits}.v32p0", kind, arguments)
    return call_runtime(e, f"gather{bits}", [addresses, mask])


def gather_indexed(e: Emitter, base: ir.Value, offsets: ir.Value, bits: int, mask: ir.Value, mask_lanes: ir.Value) -> ir.Value:
    """Elements at base + offsets (i64 vector of bytes)."""
    if bits < 32 and has_gather():
        return _gather_small(e, base, offsets, bits, mask, mask_lanes)
    if bits >= 32 and has_gather():
        kind = vector_type(f"i{bits}")
        pointers = _VectorGep(e.b.block, base, offsets)
        e.b._insert(pointers)
        arguments = [pointers, ir.Constant(I32, bits // 8), mask_lanes, ir.Constant(kind, None)]
        return _intrinsic(e, f"llvm.masked.gather.v32i{bits}.v32p0", kind, arguments)
    addresses = e.b.add(e.splat(e.b.ptrtoint(base, I64)), offsets)
    return call_runtime(e, f"gather{bits}", [addresses, mask])


def _gather_small(e: Emitter, base: ir.Value, offsets: ir.Value, bits: int, mask: ir.Value, mask_lanes: ir.Value) -> ir.Value:
    """Bytes or half-words out of the aligned words that hold them: processors gather words only."""
    b, const = e.b, e.values.warp.const
    start = b.ptrtoint(base, I64)
    offsets = b.add(offsets, e.splat(b.and_(start, ir.Constant(I64, 3))))
    aligned = b.inttoptr(b.and_(start, ir.Constant(I64, -4 & (1 << 64) - 1)), POINTER)
    words = gather_indexed(e, aligned, b.and_(offsets, const("i64", -4)), 32, mask, mask_lanes)
    shift = b.trunc(b.shl(b.and_(offsets, const("i64", 3)), const("i64", 3)), vector_type("i32"))
    return b.trunc(b.lshr(words, shift), vector_type(f"i{bits}"))


def scatter_indexed(e: Emitter, value: ir.Value, base: ir.Value, offsets: ir.Value, mask: ir.Value, mask_lanes: ir.Value) -> None:
    bits = value.type.element.width
    if bits >= 32 and has_scatter():
        pointers = _VectorGep(e.b.block, base, offsets)
        e.b._insert(pointers)
        arguments = [value, pointers, ir.Constant(I32, bits // 8), mask_lanes]
        _intrinsic(e, f"llvm.masked.scatter.v32i{bits}.v32p0", ir.VoidType(), arguments)
        return
    addresses = e.b.add(e.splat(e.b.ptrtoint(base, I64)), offsets)
    call_runtime(e, f"scatter{bits}", [addresses, mask, value])


class _VectorGep(ir.Instruction):
    """getelementptr with a vector of byte offsets (llvmlite's own gets the result type wrong)."""

    def __init__(self, parent: ir.Block, base: ir.Value, offsets: ir.Value) -> None:
        super().__init__(parent, ir.VectorType(POINTER, offsets.type.count), "getelementptr", [base, offsets])

    def descr(self, buffer: list[str]) -> None:
        base, offsets = self.operands
        buffer.append(f"getelementptr i8, ptr {base.get_reference()}, {offsets.type} {offsets.get_reference()}\n")


class Rows:
    """Where an affine access goes: lane (x, r) of the warp's rows at base + step * x + row * r."""

    def __init__(self, base: ir.Value, step: int, row: ir.Value | None) -> None:
        self.base, self.step, self.row = base, step, row


def load_rows(e: Emitter, rows: Rows, bits: int, count: int) -> list[ir.Value]:
    """`count` elements a lane."""
    size = bits // 8
    width = e.layout.width
    if width == 32:
        return _load_line(e, rows, bits, count)
    repeat = 32 // width
    if count == 1 and rows.step == 0 and rows.row is not None and repeat <= 4:
        parts = []
        for r in range(repeat):
            at = pointer(e, rows.base, e.b.mul(rows.row, ir.Constant(I64, r)) if r and rows.row is not None else 0)
            one = e.b.load(at, typ=scalar_type(f"i{bits}"), align=size)
            parts.append(_shuffle(e, e.b.insert_element(ir.Constant(vector_type(f"i{bits}", width), ir.Undefined), one, ir.Constant(I32, 0)), [0] * width))
        return [_concat(e, parts)]
    if count == 1 and rows.step == size and repeat <= 4:
        parts = []
        for r in range(repeat if rows.row is not None else 1):
            at = pointer(e, rows.base, e.b.mul(rows.row, ir.Constant(I64, r)) if r and rows.row is not None else 0)
            parts.append(e.b.load(at, typ=vector_type(f"i{bits}", width), align=size))
        return [_concat(e, parts if rows.row is not None else parts * repeat)]
    return [
        gather_indexed(e, pointer(e, rows.base, size * k), row_offsets(e, rows), bits, e.active, e.active_lanes) for k in range(count)
    ]


def _load_line(e: Emitter, rows: Rows, bits: int, count: int) -> list[ir.Value]:
    size, step = bits // 8, rows.step
    at = pointer(e, rows.base)
    if count == 1 and step == size:
        return [masked_load(e, at, bits, e.active_lanes)]
    span = 31 * step + size * count
    if step > 0 and step % size == 0 and span <= MAX_SPAN and step // size <= 8:
        elements = -(-span // size)
        elements = -(-elements // 32) * 32
        whole = e.b.load(at, typ=vector_type(f"i{bits}", elements), align=size)
        return [_shuffle(e, whole, [lane * step // size + k for lane in range(32)]) for k in range(count)]
    return [gather_indexed(e, pointer(e, rows.base, size * k), row_offsets(e, rows), bits, e.active, e.active_lanes) for k in range(count)]


def row_offsets(e: Emitter, rows: Rows) -> ir.Value:
    """Byte offsets of the lanes from the base."""
    offsets: ir.Value = e.values.lane_constant("i64", rows.step)
    if rows.row is not None:
        offsets = e.b.add(offsets, e.b.mul(e.splat(rows.row), e.values.lane_constant("i64", 0, 1)))
    return offsets


def store_rows(e: Emitter, rows: Rows, values: list[ir.Value]) -> None:
    """Store one vector an element, under the active mask."""
    bits = values[0].type.element.width
    size, count, width = bits // 8, len(values), e.layout.width
    if rows.step == size * count and count == 1:
        if width == 32:
            masked_store(e, values[0], pointer(e, rows.base), e.active_lanes)
            return
        if rows.row is not None and 32 // width <= 4:
            for r in range(32 // width):
                part = _shuffle(e, values[0], list(range(r * width, (r + 1) * width)))
                lanes = _shuffle(e, e.active_lanes, list(range(r * width, (r + 1) * width)))
                masked_store(e, part, pointer(e, rows.base, e.b.mul(rows.row, ir.Constant(I64, r)) if r else 0), lanes)
            return
    if width == 32 and rows.step == size * count and count in (2, 4) and size >= 4:
        _store_interleaved(e, rows, values)
        return
    offsets = row_offsets(e, rows)
    for k, value in enumerate(values):
        scatter_indexed(e, value, pointer(e, rows.base, size * k), offsets, e.active, e.active_lanes)


def _store_interleaved(e: Emitter, rows: Rows, values: list[ir.Value]) -> None:
    """Two or four registers a lane: one piece of memory if all lanes take part."""
    size, count = values[0].type.element.width // 8, len(values)
    full, part, done = (e.native.append_basic_block(n) for n in ("full", "part", "stored"))
    e.b.cbranch(e.b.icmp_signed("==", e.active, ir.Constant(I32, -1)), full, part)
    e.b.position_at_end(full)
    whole = _concat(e, values)
    e.b.store(_shuffle(e, whole, [32 * k + lane for lane in range(32) for k in range(count)]), pointer(e, rows.base), align=size)
    e.b.branch(done)
    e.b.position_at_end(part)
    offsets = row_offsets(e, rows)
    for k, value in enumerate(values):
        addresses = e.b.add(e.splat(e.b.ptrtoint(pointer(e, rows.base, size * k), I64)), offsets)
        call_runtime(e, f"scatter{size * 8}", [addresses, e.active, value])
    e.b.branch(done)
    e.b.position_at_end(done)
