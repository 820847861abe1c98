"""Values of the lowering: a shape over the warp's lanes and the LLVM values that make it up."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from gridstride.isa.lanes import Lanes, scalar_type, vector_type
from gridstride.lower.native import splat
from gridstride.passes.analyse_shapes import UNIFORM, VARYING, LaneLayout, Shape

I32 = ir.IntType(32)
I64 = ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Value:
    """`type` is the storage type of one lane. `parts` by shape: uniform (scalar); affine (base[, row]);
    wide (start: i64, parts of the 32-bit inner value…); varying (vector)."""

    shape: Shape
    type: str
    parts: tuple[ir.Value, ...]

    @property
    def inner(self) -> Value:
        """The 32-bit value inside a wide one."""
        assert self.shape.inner is not None
        return Value(self.shape.inner, "i32", self.parts[1:])


def uniform(type_: str, scalar: ir.Value) -> Value:
    return Value(UNIFORM, type_, (scalar,))


def varying(type_: str, vector: ir.Value) -> Value:
    return Value(VARYING, type_, (vector,))


def part_types(shape: Shape, type_: str) -> list[ir.Type]:
    """LLVM types of the parts."""
    if shape.kind == "uniform":
        return [scalar_type(type_)]
    if shape.kind == "affine":
        return [scalar_type(type_)] * (2 if shape.row else 1)
    if shape.kind == "wide":
        assert shape.inner is not None
        return [I64, *part_types(shape.inner, "i32")]
    return [vector_type(type_)]


class ValueBuilder:
    """Conversions and arithmetic of shaped values at the builder's place."""

    def __init__(self, builder: ir.IRBuilder, layout: LaneLayout) -> None:
        self.b = builder
        self.layout = layout
        self.scalar = Lanes(builder, 1)
        self.warp = Lanes(builder, 32)

    # ---- vectors ---------------------------------------------------------------------------------------------

    def lane_constant(self, type_: str, step: int, row: int = 0) -> ir.Constant:
        """step * (lane % w) + row * (lane // w), modulo the width of the type."""
        bits, w = int(type_[1:]), self.layout.width
        one = scalar_type(type_)
        values = [(step * (k % w) + row * (k // w)) & ((1 << bits) - 1) for k in range(32)]
        return ir.Constant(vector_type(type_), [ir.Constant(one, v) for v in values])

    def vector(self, value: Value) -> ir.Value:
        """All 32 lanes of `value`."""
        shape, b = value.shape, self.b
        if shape.kind == "varying":
            return value.parts[0]
        if shape.kind == "uniform":
            return splat(b, value.parts[0])
        if shape.kind == "affine":
            total = splat(b, value.parts[0])
            if shape.step:
                total = b.add(total, self.lane_constant(value.type, shape.step))
            if shape.row:
                total = b.add(total, b.mul(splat(b, value.parts[1]), self.lane_constant(value.type, 0, 1)))
            return total
        narrow = self.vector(value.inner)
        target = vector_type("i64")
        extended = b.sext(narrow, target) if shape.signed else b.zext(narrow, target)
        if shape.scale != 1:
            extended = b.mul(extended, self.warp.const("i64", shape.scale))
        return b.add(splat(b, value.parts[0]), extended)

    def coerce(self, value: Value, shape: Shape) -> Value:
        """`value` in a shape that holds it (see `analyse_shapes.join`)."""
        if value.shape == shape:
            return value
        if shape.kind == "varying":
            return varying(value.type, self.vector(value))
        if shape.kind == "affine" and value.shape.kind == "affine":
            return Value(shape, value.type, (value.parts[0], ir.Constant(scalar_type(value.type), 0)))
        if shape.kind == "wide" and value.shape.kind == "wide":
            assert shape.inner is not None
            return Value(shape, value.type, (value.parts[0], *self.coerce(value.inner, shape.inner).parts))
        raise AssertionError(f"no way from {value.shape} to {shape}")

    # ---- types -----------------------------------------------------------------------------------------------

    def convert(self, value: Value, type_: str, signed: bool = False) -> Value:
        """The same bits in another storage type: truncated or extended if the widths differ."""
        if value.type == type_:
            return value
        source, target = value.type, type_
        if value.shape.kind in ("affine", "wide"):
            if value.shape.kind == "affine" and target[0] == "i" and int(target[1:]) < int(source[1:]):
                return Value(value.shape, target, tuple(self.b.trunc(p, scalar_type(target)) for p in value.parts))
            value = varying(source, self.vector(value))
        lanes = self.scalar if value.shape.kind == "uniform" else self.warp
        v = value.parts[0]
        source_bits, target_bits = int(source[1:]), int(target[1:])
        if source[0] == "f":
            v = self.b.bitcast(v, lanes.type(f"i{source_bits}"))
        if source_bits > target_bits:
            v = self.b.trunc(v, lanes.type(f"i{target_bits}"))
        elif source_bits < target_bits:
            extend = self.b.sext if signed else self.b.zext
            v = extend(v, lanes.type(f"i{target_bits}"))
        if target[0] == "f":
            v = self.b.bitcast(v, lanes.type(target))
        return Value(value.shape, type_, (v,))

    def canonical_nan(self, value: Value) -> Value:
        """An f32 whose NaN, if it is one, is 0x7fffffff."""
        lanes = self.scalar if value.shape.kind == "uniform" else self.warp
        return Value(value.shape, "f32", (canonical_nan(lanes, value.parts[0]),))

    # ---- affine algebra: only called where `analyse_shapes.combine` says that the result has that shape ---------

    def _affine_parts(self, value: Value) -> tuple[ir.Value, ir.Value | None]:
        return value.parts[0], value.parts[1] if len(value.parts) > 1 else None

    def add(self, a: Value, b: Value, shape: Shape, subtract: bool = False) -> Value:
        operation = self.b.sub if subtract else self.b.add
        if shape.kind == "wide":
            if a.shape.kind == "wide":
                return Value(shape, "i64", (operation(a.parts[0], b.parts[0]), *a.parts[1:]))
            return Value(shape, "i64", (self.b.add(a.parts[0], b.parts[0]), *b.parts[1:]))
        (base_a, row_a), (base_b, row_b) = self._affine_parts(a), self._affine_parts(b)
        parts = [operation(base_a, base_b)]
        if shape.kind == "affine" and shape.row:
            zero = ir.Constant(scalar_type(a.type), 0)
            parts.append(operation(row_a if row_a is not None else zero, row_b if row_b is not None else zero))
        return Value(shape, a.type, tuple(parts))

    def scale(self, value: Value, factor: ir.Value, shape: Shape) -> Value:
        if shape.kind == "wide":
            return Value(shape, "i64", (self.b.mul(value.parts[0], factor), *value.parts[1:]))
        parts = [self.b.mul(p, factor) for p in value.parts]
        if shape.kind == "affine" and shape.row and len(parts) == 1:
            parts.append(ir.Constant(scalar_type(value.type), 0))
        return Value(shape, value.type, tuple(parts))

    def plus_constant(self, value: Value, offset: int) -> Value:
        """`value + offset`, in its own shape."""
        if not offset:
            return value
        if value.shape.kind == "varying":
            return varying(value.type, self.b.add(value.parts[0], self.warp.const(value.type, offset)))
        bits = int(value.type[1:])
        constant = ir.Constant(scalar_type(value.type), offset & ((1 << bits) - 1))
        return Value(value.shape, value.type, (self.b.add(value.parts[0], constant), *value.parts[1:]))


def canonical_nan(lanes: Lanes, v: ir.Value) -> ir.Value:
    """f32 values with every NaN made 0x7fffffff. Tested and chosen as integers: to LLVM all NaNs are one, so that
    it would drop the choice of one among them (it does after a square root)."""
    b = lanes.b
    bits = b.bitcast(v, lanes.type("i32"))
    magnitude = b.and_(bits, lanes.const("i32", 0x7FFFFFFF))
    nan = b.icmp_unsigned(">", magnitude, lanes.const("i32", 0x7F800000))
    return b.bitcast(b.select(nan, lanes.const("i32", 0x7FFFFFFF), bits), lanes.type("f32"))
