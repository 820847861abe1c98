"""Integer quotients and remainders (PTX ISA 9.7.1.8, 9.7.1.9).

The processor's own division traps on zero and on the one overflow (most negative by -1), also for lanes whose result
nobody wants, and knows no vectors. Divisors are therefore made harmless first, in every lane, and up to 32 bits the
quotient comes from a floating-point division: with n-bit integers and a significand of at least n + 1 bits, the
rounded quotient never crosses an integer (two unequal quotients of n-bit integers by b differ by 1/b or more, the
rounding error is less), so cutting it off is exact.
"""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa import reference_integer as reference
from gridstride.isa.integer_lanes import WORDS, constant_lanes
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation


@operation("div", types=WORDS, operands="0 = 0 0", section="9.7.1.8", meaning=reference.div)
def div(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    return _by_zero(cx, form, b, _quotient(cx, form, a, _harmless(cx, form, a, b)))


@operation("rem", types=WORDS, operands="0 = 0 0", section="9.7.1.9", meaning=reference.rem)
def rem(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    divisor = _harmless(cx, form, a, b)
    return _by_zero(cx, form, b, cx.b.sub(a, cx.b.mul(_quotient(cx, form, a, divisor), divisor)))


def _always_harmless(form: Form, b: ir.Value) -> bool:
    numbers = constant_lanes(b)
    ones = (1 << form.type.bits) - 1
    return numbers is not None and all(n & ones and not (form.type.signed and n & ones == ones) for n in numbers)


def _harmless(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    """The divisor with 1 in place of zero, and of -1 under the most negative number (where the quotient modulo
    2^n is the dividend and the remainder 0, just as by 1)."""
    if _always_harmless(form, b):
        return b
    name, bits = form.type.storage, form.type.bits
    harmful = cx.b.icmp_unsigned("==", b, cx.const(name, 0))
    if form.type.signed:
        least = cx.b.icmp_unsigned("==", a, cx.const(name, 1 << (bits - 1)))
        harmful = cx.b.or_(harmful, cx.b.and_(least, cx.b.icmp_unsigned("==", b, cx.const(name, -1))))
    return cx.select(harmful, cx.const(name, 1), b)


def _by_zero(cx: Lanes, form: Form, b: ir.Value, result: ir.Value) -> ir.Value:
    """PTX leaves division by zero open. An H200 gives all ones for quotient and remainder, whatever the type."""
    if _always_harmless(form, b):
        return result
    name = form.type.storage
    return cx.select(cx.b.icmp_unsigned("==", b, cx.const(name, 0)), cx.const(name, -1), result)


def _quotient(cx: Lanes, form: Form, a: ir.Value, b: ir.Value) -> ir.Value:
    is_signed = form.type.signed
    if cx.width == 1 or constant_lanes(b) is not None:
        return cx.b.sdiv(a, b) if is_signed else cx.b.udiv(a, b)
    if form.type.bits == 64:
        name = f"quotient.{form.type.name}"
        return cx.helper(name, ["i64"], [a, b], lambda inner, ab: [_quotient_64(inner, ab[0], ab[1], is_signed)])[0]
    real, to_real = ("f32" if form.type.bits == 16 else "f64"), (cx.b.sitofp if is_signed else cx.b.uitofp)
    ratio = cx.b.fdiv(to_real(a, cx.type(real)), to_real(b, cx.type(real)))
    return (cx.b.fptosi if is_signed else cx.b.fptoui)(ratio, cx.type(form.type.storage))


def _quotient_64(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool) -> ir.Value:
    """Lane by lane, but as 32-bit numbers where all lanes are that small, which is common."""
    builder = cx.b
    size = builder.or_(a, b)
    if is_signed:
        half = cx.const("i64", 1 << 31)  # an arithmetic range check: -2^31 … 2^31 - 1 become 0 … 2^32 - 1
        size = builder.or_(builder.add(a, half), builder.add(b, half))
    function = ir.FunctionType(ir.IntType(64), [size.type])
    reduce = builder.module.globals.get(f"llvm.vector.reduce.or.v{cx.width}i64") or ir.Function(
        builder.module, function, f"llvm.vector.reduce.or.v{cx.width}i64"
    )
    all_bits = builder.call(reduce, [size])
    small = builder.icmp_unsigned("<", all_bits, ir.Constant(ir.IntType(64), 1 << 32))
    with builder.if_else(small) as (then, otherwise):
        with then:
            to_real, from_real = (builder.sitofp, builder.fptosi) if is_signed else (builder.uitofp, builder.fptoui)
            dividend, divisor = (to_real(builder.trunc(v, cx.type("i32")), cx.type("f64")) for v in (a, b))
            ratio = builder.fdiv(dividend, divisor)
            # the range of a 32-bit signed quotient is left by one pair only, which 33 bits hold
            quick = from_real(ratio, cx.type("i64"))
            quick_block = builder.block
        with otherwise:
            slow = builder.sdiv(a, b) if is_signed else builder.udiv(a, b)
            slow_block = builder.block
    result = builder.phi(a.type)
    result.add_incoming(quick, quick_block)
    result.add_incoming(slow, slow_block)
    return result
