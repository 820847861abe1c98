"""Computing shaped values without spreading them over the lanes: the emission twin of `analyse_shapes.combine`."""

from __future__ import annotations

from llvmlite import ir

from gridstride.ir.nodes import Const, Op
from gridstride.isa.addresses import cvta_offset
from gridstride.isa.lanes import scalar_type
from gridstride.lower.values import Value, ValueBuilder
from gridstride.passes.analyse_shapes import Shape, scaled, wide


def shaped_result(values: ValueBuilder, op: Op, args: list[Value], shape: Shape) -> Value:
    """The result of `op`, which `combine` says is affine or wide. Arguments have the width of the operation's
    types, their shape is as analysed."""
    form = op.form
    assert form is not None
    opcode, kind = form.operation.opcode, form.types[0]
    signed = kind.kind == "s"
    if opcode in ("mov", "call"):
        return args[0]
    if opcode == "cvta":
        return values.plus_constant(args[0], cvta_offset(form))
    if opcode == "cvt":
        if shape.kind == "wide":
            return _wide(args[0], shape)
        return values.convert(args[0], kind.storage)
    if opcode == "add":
        return values.add(args[0], args[1], shape)
    if opcode == "sub":
        return values.add(args[0], args[1], shape, subtract=True)
    if opcode == "neg":
        zero = ir.Constant(scalar_type(args[0].type), 0)
        return Value(shape, args[0].type, tuple(values.b.sub(zero, p) for p in args[0].parts))
    if opcode == "shl":
        amount = op.args[1]
        assert isinstance(amount, Const)
        return values.scale(args[0], ir.Constant(scalar_type(args[0].type), 1 << amount.bits), shape)
    product_shape = shape
    if opcode == "mad":
        product_shape = _product_shape(op, args, "wide" in form)
    product = _product(values, op, args, product_shape, "wide" in form, signed)
    return product if opcode == "mul" else values.add(product, args[2], shape)


def _product_shape(op: Op, args: list[Value], widening: bool) -> Shape:
    from gridstride.passes.analyse_shapes import UNIFORM

    if args[0].shape == UNIFORM and args[1].shape == UNIFORM:
        return UNIFORM
    if widening:
        for a, b in ((0, 1), (1, 0)):
            factor = op.args[b]
            if isinstance(factor, Const):
                assert op.form is not None
                return wide(args[a].shape, factor.bits, op.form.types[0].kind == "s")
    first = scaled(args[0].shape, op.args[1], args[1].shape)
    return first if first.kind != "varying" else scaled(args[1].shape, op.args[0], args[0].shape)


def _product(values: ValueBuilder, op: Op, args: list[Value], shape: Shape, widening: bool, signed: bool) -> Value:
    b = values.b
    if shape.kind == "uniform":
        left, right = args[0].parts[0], args[1].parts[0]
        if widening:
            product = f"i{int(args[0].type[1:]) * 2}"
            extend = b.sext if signed else b.zext
            left, right = extend(left, scalar_type(product)), extend(right, scalar_type(product))
            return Value(shape, product, (b.mul(left, right),))
        return Value(shape, args[0].type, (b.mul(left, right),))
    if widening:
        value = args[1] if isinstance(op.args[0], Const) and not isinstance(op.args[1], Const) else args[0]
        return _wide(value, shape)
    if scaled(args[0].shape, op.args[1], args[1].shape) == shape:
        return values.scale(args[0], args[1].parts[0], shape)
    return values.scale(args[1], args[0].parts[0], shape)


def _wide(value: Value, shape: Shape) -> Value:
    return Value(shape, "i64", (ir.Constant(ir.IntType(64), 0), *value.parts))

