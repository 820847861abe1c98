"""Half-precision arithmetic: f16, bf16 and their packed pairs (PTX ISA 9.7.4; abs, neg, min and max of halves too).

Sums and products go through float32, whose 24 bits make the second rounding harmless (2 * 11 + 2 bits suffice).
For fma they do not: its exact product is added with the error of the sum kept in the last bit (round to odd).
Packed operands are twice as many lanes of one half each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gridstride.isa import reference_half as reference
from gridstride.isa.float_formats import BF16, Format
from gridstride.isa.halfmath import error_signs, format_of, halves, narrow, step, widen
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation

Value = ir.Value
_Lane = Callable[[Lanes, Form, Format, Sequence[Value]], Value]

_LEAST_NORMAL_F16 = 2.0**-14


def elementwise(cx: Lanes, form: Form, lane: _Lane, *arguments: Value, outlined: bool = False) -> Value:
    """`lane` on i16 lanes, for single and for packed types; `outlined` makes it a function of the module."""
    fmt = format_of(form.type.name)

    def whole(cx: Lanes, values: Sequence[Value]) -> list[Value]:
        if not form.type.name.endswith("x2"):
            return [lane(cx, form, fmt, values)]
        pairs, parts = halves(cx, *values)
        return [cx.cast(lane(pairs, form, fmt, parts), "i32")]

    if not outlined:
        return whole(cx, arguments)[0]
    name = ".".join(("gs", form.operation.opcode, form.type.name, *sorted(form.modifiers)))
    return cx.helper(name, [form.type.storage], arguments, whole)[0]


def flush(cx: Lanes, fmt: Format, bits: Value) -> Value:
    """Subnormal halves become zero of their sign."""
    b = cx.b
    tiny = b.icmp_unsigned("==", b.and_(bits, cx.const("i16", fmt.infinity)), cx.const("i16", 0))
    return cx.select(tiny, b.and_(bits, cx.const("i16", 0x8000)), bits)


def finish(cx: Lanes, form: Form, fmt: Format, result: Value) -> Value:
    """The float32 result of an arithmetic operation with its modifiers, as bits of the format."""
    b = cx.b
    zero = cx.const("f32", 0.0)
    if "sat" in form:
        result = cx.select(b.fcmp_ordered(">", result, zero), result, zero)
        one = cx.const("f32", 1.0)
        result = cx.select(b.fcmp_ordered("<", result, one), result, one)
    if "relu" in form:  # NaN stays, zero loses its sign
        result = cx.select(b.fcmp_unordered(">", result, zero), result, zero)
    if "ftz" in form:
        # Flushed is what would not round up to a normal number were there no limit to the exponent.
        stays = cx.const("f32", _LEAST_NORMAL_F16 * (1 - 2.0**-12))
        magnitude = cx.intrinsic("llvm.fabs", "f32", result)
        signed_zero = cx.intrinsic("llvm.copysign", "f32", zero, result)
        result = cx.select(b.fcmp_ordered("<", magnitude, stays), signed_zero, result)
    return narrow(cx, fmt, result)


def _operands(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> list[Value]:
    if "ftz" in form:
        values = [flush(cx, fmt, v) for v in values]
    return [widen(cx, fmt, v) for v in values]


def _add(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    a, b = _operands(cx, form, fmt, values)
    return finish(cx, form, fmt, cx.b.fadd(a, b))


def _subtract(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    a, b = _operands(cx, form, fmt, values)
    return finish(cx, form, fmt, cx.b.fsub(a, b))


def _multiply(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    a, b = _operands(cx, form, fmt, values)
    return finish(cx, form, fmt, cx.b.fmul(a, b))


def _sum_to_odd(cx: Lanes, kind: str, a: Value, b: Value) -> Value:
    """a + b rounded to odd, by Knuth's two-sum."""
    builder, storage = cx.b, f"i{kind[1:]}"
    total = builder.fadd(a, b)
    from_b = builder.fsub(total, a)
    error = builder.fadd(builder.fsub(a, builder.fsub(total, from_b)), builder.fsub(b, from_b))
    above, below = error_signs(cx, cx.const(kind, 0.0), builder.fneg(error))
    return cx.cast(step(cx, storage, cx.cast(total, storage), above, below, "odd"), kind)


def _multiply_add(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    """The product is exact in f32 for f16, and in f64 for bf16, whose exponents reach too far for f32."""
    builder = cx.b
    a, b, c = _operands(cx, form, fmt, values)
    if fmt is not BF16:
        return finish(cx, form, fmt, _sum_to_odd(cx, "f32", builder.fmul(a, b), c))
    a, b, c = (builder.fpext(v, cx.type("f64")) for v in (a, b, c))
    return finish(cx, form, fmt, float32_to_odd(cx, _sum_to_odd(cx, "f64", builder.fmul(a, b), c)))


def float32_to_odd(cx: Lanes, value: Value) -> Value:
    """f64 to f32, rounded to odd; NaN is moved as the processor does."""
    nearest = cx.b.fptrunc(value, cx.type("f32"))
    signs = error_signs(cx, value, cx.b.fpext(nearest, cx.type("f64")))
    return cx.cast(step(cx, "i32", cx.cast(nearest, "i32"), *signs, "odd"), "f32")


_MODIFIED = (("f16 f16x2", "rn? ftz? sat?"), ("bf16 bf16x2", "rn?"))

for _opcode, _lane, _meaning, _section in (
    ("add", _add, reference.add, "9.7.4.1"),
    ("sub", _subtract, reference.subtract, "9.7.4.2"),
    ("mul", _multiply, reference.multiply, "9.7.4.3"),
):

    def _lower(cx: Lanes, form: Form, a: Value, b: Value, *, lane: _Lane = _lane) -> Value:
        return elementwise(cx, form, lane, a, b, outlined="ftz" in form or "sat" in form)

    for _types, _modifiers in _MODIFIED:
        operation(_opcode, types=_types, modifiers=_modifiers, operands="0 = 0 0", section=_section, meaning=_meaning)(_lower)


@operation("fma", types="f16 f16x2", modifiers="rn ftz? sat|relu?", operands="0 = 0 0 0", section="9.7.4.4", meaning=reference.fma)
@operation("fma", types="bf16 bf16x2", modifiers="rn relu?", operands="0 = 0 0 0", section="9.7.4.4", meaning=reference.fma)
def fma(cx: Lanes, form: Form, a: Value, b: Value, c: Value) -> Value:
    return elementwise(cx, form, _multiply_add, a, b, c, outlined=True)


def _change_sign(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    (bits,) = values
    b = cx.b
    nan = b.icmp_unsigned(">", b.and_(bits, cx.const("i16", 0x7FFF)), cx.const("i16", fmt.infinity))
    if "ftz" in form:
        bits = flush(cx, fmt, bits)
    absolute = form.operation.opcode == "abs"
    changed = b.and_(bits, cx.const("i16", 0x7FFF)) if absolute else b.xor(bits, cx.const("i16", 0x8000))
    return cx.select(nan, cx.const("i16", fmt.nan), changed)


def change_sign(cx: Lanes, form: Form, a: Value) -> Value:
    return elementwise(cx, form, _change_sign, a)


for _types, _modifiers in (("f16 f16x2", "ftz?"), ("bf16 bf16x2", "")):
    operation("abs", types=_types, modifiers=_modifiers, operands="0 = 0", section="9.7.4.6", meaning=reference.absolute)(change_sign)
    operation("neg", types=_types, modifiers=_modifiers, operands="0 = 0", section="9.7.4.5", meaning=reference.negate)(change_sign)


def _extreme(cx: Lanes, form: Form, fmt: Format, values: Sequence[Value]) -> Value:
    """min and max on integers that are ordered as the numbers are, -0 below +0."""
    b = cx.b

    def number(value: int) -> Value:
        return cx.const("i16", value)

    if "ftz" in form:
        values = [flush(cx, fmt, v) for v in values]
    magnitudes = [b.and_(v, number(0x7FFF)) for v in values]
    nans = [b.icmp_unsigned(">", m, number(fmt.infinity)) for m in magnitudes]
    keys = magnitudes if "abs" in form else [b.xor(v, b.and_(b.ashr(v, number(15)), number(0x7FFF))) for v in values]
    least = form.operation.opcode == "min"
    chosen = cx.intrinsic("llvm.smin" if least else "llvm.smax", "i16", *keys)
    if "NaN" in form:
        any_nan = b.or_(*nans)
    else:
        chosen = cx.select(nans[0], keys[1], cx.select(nans[1], keys[0], chosen))
        any_nan = b.and_(*nans)
    if "abs" in form:
        result = b.or_(chosen, b.and_(b.xor(*values), number(0x8000)))
    else:
        result = b.xor(chosen, b.and_(b.ashr(chosen, number(15)), number(0x7FFF)))
    return cx.select(any_nan, number(fmt.nan), result)


def extreme(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    return elementwise(cx, form, _extreme, a, b, outlined=True)


for _opcode, _meaning, _section in (("min", reference.minimum, "9.7.4.7"), ("max", reference.maximum, "9.7.4.8")):
    for _types, _flushing in (("f16 f16x2", "ftz? "), ("bf16 bf16x2", "")):
        for _modifiers in (f"{_flushing}NaN?", f"{_flushing}NaN? xorsign abs"):
            operation(_opcode, types=_types, modifiers=_modifiers, operands="0 = 0 0", section=_section, meaning=_meaning)(extreme)
