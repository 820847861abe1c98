"""cvt between floating-point formats: f16, bf16, f32, f64, tf32, and pairs of halves and of 8-bit formats
(PTX ISA 9.7.9.21)."""

from __future__ import annotations

import math

from llvmlite import ir

from gridstride.isa import reference_convert as reference
from gridstride.isa.convert import float64_to_float32, saturate
from gridstride.isa.float_formats import BF16, E4M3, E5M2, F16, F32, FORMATS, TF32, Format
from gridstride.isa.half import float32_to_odd
from gridstride.isa.halfmath import drop_low_bits, format_of, is_nan, narrow, round_into, widen
from gridstride.isa.lanes import Lanes
from gridstride.isa.registry import Form, operation
from gridstride.isa.rounding import flush

Value = ir.Value

_SECTION = "9.7.9.21"
_WHOLE = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def _mode(form: Form) -> str:
    return form.one_of(*reference.ROUNDINGS, default="rn")


def _limited(cx: Lanes, form: Form, value: Value, fmt: Format) -> Value:
    """relu and satfinite, which can be decided before rounding. NaN stays."""
    b = cx.b
    if "relu" in form:
        value = cx.select(b.fcmp_unordered(">", value, cx.const("f32", 0.0)), value, cx.const("f32", 0.0))
    if "satfinite" in form:
        _, m, e = fmt.finite(fmt.largest)
        largest = math.ldexp(m, e)
        for symbol, bound in ((">", largest), ("<", -largest)):
            limit = cx.const("f32", bound)
            value = cx.select(b.fcmp_ordered(symbol, value, limit), limit, value)
    return value


def _canonical(cx: Lanes, value: Value) -> Value:
    """f32 with any NaN made the canonical one."""
    bits = cx.select(is_nan(cx, value), cx.const("i32", F32.nan), cx.cast(value, "i32"))
    return cx.cast(bits, "f32")


@operation("cvt", types="f16.f32", modifiers="rn|rz|rm|rp ftz? sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation("cvt", types="bf16.f32", modifiers="rn|rz|rm|rp ftz?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation(
    "cvt",
    types="f16.f32 bf16.f32",
    modifiers="rn|rz relu? satfinite?",
    operands="0 = 1",
    section=_SECTION,
    meaning=reference.float_to_float,
)
@operation("cvt", types="f16.bf16 bf16.f16", modifiers="rn|rz|rm|rp?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def to_half(cx: Lanes, form: Form, a: Value) -> Value:
    target, source = format_of(form.types[0].name), form.types[1]
    value = a if source.kind == "f" else widen(cx, format_of(source.name), a)
    if "ftz" in form and target is BF16:  # an H200 does not flush the input of an f16 result
        value = flush(cx, value)
    value = _limited(cx, form, value, target)
    if "sat" in form:
        value = saturate(cx, "f32", value)
    return narrow(cx, target, value, _mode(form))


@operation("cvt", types="f16.f64", modifiers="rn|rz|rm|rp sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation("cvt", types="bf16.f64", modifiers="rn|rz|rm|rp", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def float64_to_half(cx: Lanes, form: Form, a: Value) -> Value:
    """NaN keeps its sign and the upper bits of its payload, made quiet."""
    b = cx.b
    fmt = format_of(form.type.name)
    if "sat" in form:
        return narrow(cx, fmt, float32_to_odd(cx, saturate(cx, "f64", a)), _mode(form))
    number = narrow(cx, fmt, float32_to_odd(cx, a), _mode(form))
    bits = cx.cast(a, "i64")
    payload = b.and_(b.lshr(bits, cx.const("i64", 52 - fmt.mantissa)), cx.const("i64", (1 << fmt.mantissa) - 1))
    sign = b.and_(b.lshr(bits, cx.const("i64", 48)), cx.const("i64", fmt.sign))
    quiet = cx.const("i64", fmt.infinity | 1 << (fmt.mantissa - 1))
    nan = b.trunc(b.or_(b.or_(payload, sign), quiet), cx.type("i16"))
    return cx.select(is_nan(cx, a), nan, number)


@operation(
    "cvt", types="f32.f16", modifiers="ftz? sat?", operands="0 = 1", section=_SECTION, dirty_nan=True, meaning=reference.float_to_float
)
def half_to_float32(cx: Lanes, form: Form, a: Value) -> Value:
    """Exact, and normal: nothing to flush."""
    value = widen(cx, F16, a)
    return saturate(cx, "f32", value) if "sat" in form else value


@operation("cvt", types="f32.bf16", modifiers="rn|rz|rm|rp? ftz?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def bfloat_to_float32(cx: Lanes, form: Form, a: Value) -> Value:
    """A move of bits, NaN included, unless flushing."""
    value = widen(cx, BF16, a)
    return _canonical(cx, flush(cx, value)) if "ftz" in form else value


@operation("cvt", types="f64.f16", modifiers="sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation("cvt", types="f64.bf16", modifiers="rn|rz|rm|rp?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def half_to_float64(cx: Lanes, form: Form, a: Value) -> Value:
    value = cx.b.fpext(widen(cx, format_of(form.types[1].name), a), cx.type("f64"))
    return saturate(cx, "f64", value) if "sat" in form else value


@operation("cvt", types="f64.f32", modifiers="ftz? sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def float32_to_float64(cx: Lanes, form: Form, a: Value) -> Value:
    """NaN keeps its payload (made quiet): the argument's NaN must be the one PTX prescribes."""
    if "ftz" in form:
        a = _canonical(cx, flush(cx, a))
    value = cx.b.fpext(a, cx.type("f64"))
    return saturate(cx, "f64", value) if "sat" in form else value


@operation("cvt", types="f32.f64", modifiers="rn|rz|rm|rp ftz? sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def float64_to_single(cx: Lanes, form: Form, a: Value) -> Value:
    """NaN keeps its sign and the upper bits of its payload."""
    b = cx.b
    mode = _mode(form)
    result = float64_to_float32(cx, a, mode)
    if "ftz" in form:
        # Flushed is what would not round up to the least normal number were there no limit to the exponent.
        outwards = {"rn": 1 - 2.0**-25, "rz": 1.0}.get(mode, 1 - 2.0**-24)
        magnitude = cx.intrinsic("llvm.fabs", "f64", a)
        tiny = b.fcmp_ordered("<", magnitude, cx.const("f64", 2.0**-126 * outwards))
        if mode in ("rm", "rp"):
            inwards = b.fcmp_ordered(">" if mode == "rm" else "<", a, cx.const("f64", 0.0))
            below = b.fcmp_ordered("<", magnitude, cx.const("f64", 2.0**-126))
            tiny = b.or_(b.fcmp_ordered("<=", magnitude, cx.const("f64", 2.0**-126 * outwards)), b.and_(inwards, below))
        zero = cx.intrinsic("llvm.copysign", "f32", cx.const("f32", 0.0), result)
        result = cx.select(tiny, zero, result)
    return saturate(cx, "f32", result) if "sat" in form else result


@operation(
    "cvt",
    types="f32.f32",
    modifiers="rni|rzi|rmi|rpi ftz? sat?",
    operands="0 = 1",
    section=_SECTION,
    dirty_nan=True,
    meaning=reference.float_to_float,
)
@operation("cvt", types="f64.f64", modifiers="rni|rzi|rmi|rpi sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def whole_float(cx: Lanes, form: Form, a: Value) -> Value:
    kind = form.type.name
    if "ftz" in form:
        a = flush(cx, a)
    value = cx.intrinsic(_WHOLE[form.one_of(*_WHOLE)], kind, a)
    return saturate(cx, kind, value) if "sat" in form else value


@operation("cvt", types="f32.f32", modifiers="ftz? sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation("cvt", types="f64.f64", modifiers="sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def same_float(cx: Lanes, form: Form, a: Value) -> Value:
    """A plain move, which keeps every NaN, unless a modifier does something."""
    if "ftz" in form:
        a = _canonical(cx, flush(cx, a))
    return saturate(cx, form.type.name, a) if "sat" in form else a


@operation("cvt", types="f16.f16", modifiers="rni|rzi|rmi|rpi? sat?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
@operation("cvt", types="bf16.bf16", modifiers="rni|rzi|rmi|rpi?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_float)
def whole_half(cx: Lanes, form: Form, a: Value) -> Value:
    fmt = format_of(form.type.name)
    value = widen(cx, fmt, a)
    rounding = form.one_of(*_WHOLE)
    if rounding:
        value = cx.intrinsic(_WHOLE[rounding], "f32", value)
    return narrow(cx, fmt, saturate(cx, "f32", value) if "sat" in form else value)


@operation("cvt", types="tf32.f32", modifiers="rna satfinite?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_tf32)
@operation("cvt", types="tf32.f32", modifiers="rn|rz relu?", operands="0 = 1", section=_SECTION, meaning=reference.float_to_tf32)
def to_tf32(cx: Lanes, form: Form, a: Value) -> Value:
    """rna only cuts a NaN, so that it can become infinity; with satfinite the H200 takes one unit from all that
    has the top exponent, NaN too. rn and rz make NaN canonical."""
    b = cx.b
    kept = cx.const("i32", 0xFFFFE000)
    value = _limited(cx, form, a, TF32) if "relu" in form else a
    bits = cx.cast(value, "i32")
    number = b.and_(drop_low_bits(cx, bits, 13, _mode(form)), kept)
    if "rna" not in form:
        return cx.select(is_nan(cx, a), cx.const("i32", TF32.nan << 13), number)
    result = cx.select(is_nan(cx, a), b.and_(bits, kept), number)
    if "satfinite" in form:
        exponent = b.and_(result, cx.const("i32", F32.infinity))
        top = b.icmp_unsigned("==", exponent, cx.const("i32", F32.infinity))
        result = cx.select(top, b.sub(result, cx.const("i32", 1 << 13)), result)
    return result


def _packed(cx: Lanes, low: Value, high: Value, bits: int) -> Value:
    """Two parts of `bits` each (i16 lanes at 16, i32 lanes at 8) as one lane of twice that."""
    b = cx.b
    if bits == 16:
        low, high = b.zext(low, cx.type("i32")), b.zext(high, cx.type("i32"))
    joined = b.or_(low, b.shl(high, cx.const("i32", bits)))
    return joined if bits == 16 else b.trunc(joined, cx.type("i16"))


@operation(
    "cvt",
    types="f16x2.f32 bf16x2.f32",
    modifiers="rn|rz relu? satfinite?",
    operands="0 = 1 1",
    section=_SECTION,
    meaning=reference.float_pair_to_packed,
)
def floats_to_halves(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    """The first operand goes to the upper half."""
    fmt = format_of(form.type.name)
    low, high = (narrow(cx, fmt, _limited(cx, form, value, fmt), _mode(form)) for value in (b, a))
    return _packed(cx, low, high, 16)


@operation(
    "cvt",
    types="e4m3x2.f32 e5m2x2.f32",
    modifiers="rn satfinite relu?",
    operands="0 = 1 1",
    section=_SECTION,
    meaning=reference.float_pair_to_packed,
)
def floats_to_bytes(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    return _to_bytes(cx, form, a, b)


def _to_bytes(cx: Lanes, form: Form, a: Value, b: Value) -> Value:
    fmt = FORMATS[form.type.name.removesuffix("x2")]
    low, high = (round_into(cx, fmt, cx.cast(_limited(cx, form, value, fmt), "i32"), "rn") for value in (b, a))
    return _packed(cx, low, high, 8)


@operation(
    "cvt",
    types="e4m3x2.f16x2 e5m2x2.f16x2",
    modifiers="rn satfinite relu?",
    operands="0 = 1",
    section=_SECTION,
    meaning=reference.packed_to_packed,
)
def halves_to_bytes(cx: Lanes, form: Form, a: Value) -> Value:
    b = cx.b
    low = b.trunc(a, cx.type("i16"))
    high = b.trunc(b.lshr(a, cx.const("i32", 16)), cx.type("i16"))
    return _to_bytes(cx, form, widen(cx, F16, high), widen(cx, F16, low))


def _byte_to_half(cx: Lanes, fmt: Format, byte: Value) -> Value:
    """e4m3 or e5m2 in i16 lanes to f16, exactly. NaN becomes the canonical one."""
    b = cx.b

    def number(value: int) -> Value:
        return cx.const("i16", value)

    magnitude = b.and_(byte, number(0x7F))
    if fmt is E5M2:  # the upper half of an f16
        bits = b.shl(byte, number(8))
    else:
        # Normal numbers: move and re-bias. Subnormal ones, m * 2**-9, have m in {0 … 7}: f32 knows them all.
        value = b.fmul(b.uitofp(magnitude, cx.type("f32")), cx.const("f32", 2.0**-9))
        subnormal = narrow(cx, F16, value)
        normal = b.add(b.shl(magnitude, number(7)), number((F16.bias - E4M3.bias) << 10))
        bits = cx.select(b.icmp_unsigned("<", magnitude, number(8)), subnormal, normal)
        bits = b.or_(bits, b.shl(b.and_(byte, number(0x80)), number(8)))
    lowest_nan = fmt.infinity + 1 if fmt.ieee else fmt.nan
    return cx.select(b.icmp_unsigned(">=", magnitude, number(lowest_nan)), number(F16.nan), bits)


@operation(
    "cvt", types="f16x2.e4m3x2 f16x2.e5m2x2", modifiers="rn relu?", operands="0 = 1", section=_SECTION, meaning=reference.packed_to_packed
)
def bytes_to_halves(cx: Lanes, form: Form, a: Value) -> Value:
    b = cx.b
    fmt = FORMATS[form.types[1].name.removesuffix("x2")]
    parts = (b.and_(a, cx.const("i16", 0xFF)), b.lshr(a, cx.const("i16", 8)))
    low, high = (_relu(cx, form, _byte_to_half(cx, fmt, part)) for part in parts)
    return _packed(cx, low, high, 16)


def _relu(cx: Lanes, form: Form, bits: Value) -> Value:
    """f16 bits; NaN has no sign here."""
    if "relu" not in form:
        return bits
    return cx.select(cx.b.icmp_signed("<", bits, cx.const("i16", 0)), cx.const("i16", 0), bits)
