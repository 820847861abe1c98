"""The GPU's special-function unit: quadratic interpolation in small tables, to the very bits that an H200 gives.

A significand is cut into a segment number (the leading bits) and 17 bits x below. The unit computes

    constant + linear * x + 4 * quadratic * square(x)          in units of 2**-41 (EXP2: 2**-40)

where `square` is x*x / 2**19 made by a squarer that leaves out all partial products below bit 19, and cuts the
sum to 24 significant bits. Subnormal operands count as zero, subnormal results become zero. What PTX asks for
beyond (subnormal operands without `.ftz`, range) the compiler adds with ordinary instructions: `approximate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gridstride.isa import special_tables
from gridstride.isa.lanes import Lanes
from gridstride.isa.special_tables import TANH_SEGMENTS_LOG2, Table

Value = ir.Value

SIGN = 0x80000000
INFINITY = 0x7F800000
CANONICAL_NAN = 0x7FFFFFFF
ONE_ULP = 1 << 23  # the leading bit of a 24-bit significand
TANH_LEAST = -8  # exponent of the first binade in the table of tanh
TANH_SLOTS = 16  # rows a binade of tanh gets


def padded_tanh() -> Table:
    """The table of tanh with `TANH_SLOTS` rows for each binade, so that a row is found without a second table."""
    rows: list[tuple[int, int, int]] = []
    taken = 0
    for log2 in TANH_SEGMENTS_LOG2:
        binade = special_tables.TANH[taken : taken + (1 << log2)]
        taken += len(binade)
        rows += [*binade, *[(0, 0, 0)] * (TANH_SLOTS - len(binade))]
    return tuple(rows)


TABLES: dict[str, Table] = {
    "rcp": special_tables.RECIPROCAL,
    "rsqrt": special_tables.RECIPROCAL_ROOT,
    "sqrt": special_tables.ROOT,
    "ex2": special_tables.EXP2,
    "lg2": special_tables.LOG2,
    "sin": special_tables.SINE,
    "tanh": padded_tanh(),
}


def special(cx: Lanes, function: str, x: Value) -> Value:
    """`function` (rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh) of f32 lanes, by the unit. The angle of sin and cos is
    in revolutions. NaN results are canonical."""
    build = _FUNCTIONS[function]

    def body(inner: Lanes, parameters: Sequence[Value]) -> Sequence[Value]:
        bits = build(inner, inner.cast(parameters[0], "i32"))
        return [inner.cast(bits, "f32")]

    return cx.helper(f"gs.special.{function}", ["f32"], [x], body)[0]


def interpolate(cx: Lanes, name: str, segment: Value, x: Value) -> Value:
    """The i64 sum before it is cut; `segment` and the 17-bit `x` are i32."""
    b = cx.b
    constant, slopes = _rows(cx, name, segment)
    i64 = cx.type("i64")
    linear = b.ashr(slopes, cx.const("i64", 32))
    quadratic = b.ashr(b.shl(slopes, cx.const("i64", 32)), cx.const("i64", 32))
    square = b.zext(b.shl(_square(cx, x), cx.const("i32", 2)), i64)
    return b.add(constant, b.add(b.mul(linear, b.zext(x, i64)), b.mul(quadratic, square)))


def _square(cx: Lanes, x: Value) -> Value:
    """x*x / 2**19 of 17-bit x, without the partial products (bit i times bit j, j < i, weighs 2**(i+j+1)) that weigh less than 2**19."""
    b = cx.b
    total: Value = cx.const("i32", 0)
    for i in range(10, 17):
        lower = ((1 << i) - 1) & ~((1 << (18 - i)) - 1)
        products = b.add(b.lshr(b.and_(x, cx.const("i32", lower)), cx.const("i32", 18 - i)), cx.const("i32", 1 << (2 * i - 19)))
        present = b.icmp_unsigned("!=", b.and_(x, cx.const("i32", 1 << i)), cx.const("i32", 0))
        total = b.add(total, cx.select(present, products, cx.const("i32", 0)))
    return total


def _rows(cx: Lanes, name: str, segment: Value) -> tuple[Value, Value]:
    """A row's constant, and its slopes packed in one i64: the linear one above the quadratic one."""
    b, i64 = cx.b, ir.IntType(64)
    symbol = f"gs.table.{name}"
    table = cx.module.globals.get(symbol)
    if table is None:
        words = [word for row in TABLES[name] for word in (row[0], row[1] << 32 | row[2] & 0xFFFFFFFF)]
        table = ir.GlobalVariable(cx.module, ir.ArrayType(i64, len(words)), symbol)
        table.linkage = "internal"
        table.global_constant = True
        table.initializer = ir.Constant(table.value_type, words)
    start = b.ptrtoint(table, i64)
    if cx.width > 1:
        undefined = ir.Constant(cx.type("i64"), ir.Undefined)
        first = b.insert_element(undefined, start, ir.IntType(32)(0))
        start = b.shuffle_vector(first, undefined, ir.Constant(cx.type("i32"), [0] * cx.width))
    address = b.add(start, b.shl(b.zext(segment, cx.type("i64")), cx.const("i64", 4)))
    return _load(cx, address), _load(cx, b.add(address, cx.const("i64", 8)))


def _load(cx: Lanes, address: Value) -> Value:
    b, pointer, i64 = cx.b, ir.PointerType(), ir.IntType(64)
    if cx.width == 1:
        return b.load(b.inttoptr(address, pointer), typ=i64, align=8)
    lanes = ir.VectorType(pointer, cx.width)
    name = f"llvm.masked.gather.v{cx.width}i64.v{cx.width}p0"
    gather = cx.module.globals.get(name)
    if gather is None:
        signature = ir.FunctionType(cx.type("i64"), [lanes, ir.IntType(32), cx.type("i1"), cx.type("i64")])
        gather = ir.Function(cx.module, signature, name)
    everywhere = cx.const("i1", 1)
    return b.call(gather, [b.inttoptr(address, lanes), ir.IntType(32)(8), everywhere, cx.const("i64", 0)])


class _Pieces:
    """The fields of f32 bits."""

    def __init__(self, cx: Lanes, bits: Value) -> None:
        b = cx.b
        self.sign = b.and_(bits, cx.const("i32", SIGN))
        self.magnitude = b.and_(bits, cx.const("i32", SIGN - 1))
        self.exponent = b.lshr(self.magnitude, cx.const("i32", 23))  # biased
        self.fraction = b.and_(bits, cx.const("i32", ONE_ULP - 1))
        self.tiny = b.icmp_unsigned("==", self.exponent, cx.const("i32", 0))
        self.nan = b.icmp_unsigned(">", self.magnitude, cx.const("i32", INFINITY))
        self.infinite = b.icmp_unsigned("==", self.magnitude, cx.const("i32", INFINITY))
        self.below_zero = b.and_(b.icmp_signed("<", bits, cx.const("i32", 0)), b.not_(self.tiny))


def _assemble(cx: Lanes, biased_exponent: Value, total: Value, shift: int) -> Value:
    """Bits of the positive number with the significand that `total` cut by `shift` gives (2**24, the next power of
    two, included); +0 where it would be subnormal, +infinity where it is too large."""
    b = cx.b
    significand = b.trunc(b.lshr(total, cx.const("i64", shift)), cx.type("i32"))
    bits = b.add(b.shl(biased_exponent, cx.const("i32", 23)), b.sub(significand, cx.const("i32", ONE_ULP)))
    small = b.icmp_signed("<", biased_exponent, cx.const("i32", 0))
    small = b.or_(small, b.icmp_unsigned("<", bits, cx.const("i32", ONE_ULP)))
    large = b.icmp_signed(">", biased_exponent, cx.const("i32", 254))
    return cx.select(large, cx.const("i32", INFINITY), cx.select(small, cx.const("i32", 0), bits))


def _cut(cx: Lanes, total: Value, scale: float) -> Value:
    """Bits of total * scale with 24 significant bits, the rest dropped; `total` is not negative and below 2**53."""
    b = cx.b
    exact = cx.cast(b.uitofp(total, cx.type("f64")), "i64")
    short = cx.cast(b.and_(exact, cx.const("i64", ~((1 << 29) - 1))), "f64")
    return cx.cast(b.fptrunc(b.fmul(short, cx.const("f64", scale)), cx.type("f32")), "i32")


def _rcp(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    low = b.shl(b.and_(x.fraction, cx.const("i32", 0xFFFF)), cx.const("i32", 1))
    total = interpolate(cx, "rcp", b.lshr(x.fraction, cx.const("i32", 16)), low)
    result = _assemble(cx, b.sub(cx.const("i32", 253), x.exponent), total, 17)
    result = b.or_(x.sign, cx.select(x.tiny, cx.const("i32", INFINITY), result))
    return cx.select(x.nan, cx.const("i32", CANONICAL_NAN), result)


def _root_parts(cx: Lanes, x: _Pieces) -> tuple[Value, Value, Value]:
    """Half the exponent (rounded down), the segment, and the bits below it."""
    b = cx.b
    exponent = b.sub(x.exponent, cx.const("i32", 127))
    odd = b.shl(b.and_(exponent, cx.const("i32", 1)), cx.const("i32", 6))
    segment = b.or_(odd, b.lshr(x.fraction, cx.const("i32", 17)))
    return b.ashr(exponent, cx.const("i32", 1)), segment, b.and_(x.fraction, cx.const("i32", 0x1FFFF))


def _rsqrt(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    half, segment, low = _root_parts(cx, x)
    total = interpolate(cx, "rsqrt", segment, low)
    power_of_four = b.icmp_unsigned("==", b.or_(segment, low), cx.const("i32", 0))
    total = cx.select(power_of_four, cx.const("i64", 1 << 41), total)
    result = _assemble(cx, b.sub(cx.const("i32", 126), half), total, 17)
    result = cx.select(x.infinite, cx.const("i32", 0), result)
    result = cx.select(x.tiny, b.or_(x.sign, cx.const("i32", INFINITY)), result)
    return cx.select(b.or_(x.nan, x.below_zero), cx.const("i32", CANONICAL_NAN), result)


def _sqrt(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    half, segment, low = _root_parts(cx, x)
    result = _assemble(cx, b.add(cx.const("i32", 127), half), interpolate(cx, "sqrt", segment, low), 18)
    result = cx.select(x.infinite, cx.const("i32", INFINITY), result)
    result = cx.select(x.tiny, x.sign, result)
    return cx.select(b.or_(x.nan, x.below_zero), cx.const("i32", CANONICAL_NAN), result)


def _fixed_point(cx: Lanes, x: _Pieces, fraction_bits: int) -> Value:
    """floor(|x| * 2**fraction_bits) modulo 2**32 as i32; 0 for infinities and NaN."""
    b = cx.b
    significand = b.zext(b.or_(x.fraction, cx.const("i32", ONE_ULP)), cx.type("i64"))
    # |x| = significand * 2**(exponent - 150). Shifting left by 32 at most fills the 32 bits kept; beyond, all is 0.
    shift = b.sub(x.exponent, cx.const("i32", 150 - fraction_bits))
    left = b.icmp_signed(">=", shift, cx.const("i32", 0))
    distance = cx.select(left, shift, b.sub(cx.const("i32", 0), shift))
    near = b.icmp_unsigned("<", distance, cx.const("i32", 32))
    distance = b.zext(cx.select(near, distance, cx.const("i32", 0)), cx.type("i64"))
    shifted = cx.select(left, b.shl(significand, distance), b.lshr(significand, distance))
    keep = b.and_(near, b.not_(x.tiny))
    return cx.select(keep, b.trunc(shifted, cx.type("i32")), cx.const("i32", 0))


def _ex2(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    fixed = _fixed_point(cx, x, 23)
    # A negative number is complemented, not negated, unless it is whole.
    whole = b.icmp_unsigned("==", b.and_(fixed, cx.const("i32", ONE_ULP - 1)), cx.const("i32", 0))
    negated = cx.select(whole, b.sub(cx.const("i32", 0), fixed), b.not_(fixed))
    negative = b.icmp_unsigned("!=", x.sign, cx.const("i32", 0))
    fixed = cx.select(negative, negated, fixed)
    fraction = b.and_(fixed, cx.const("i32", ONE_ULP - 1))
    total = interpolate(cx, "ex2", b.lshr(fraction, cx.const("i32", 17)), b.and_(fraction, cx.const("i32", 0x1FFFF)))
    result = _assemble(cx, b.add(b.ashr(fixed, cx.const("i32", 23)), cx.const("i32", 127)), total, 17)
    beyond = b.icmp_unsigned(">=", x.exponent, cx.const("i32", 127 + 8))  # |x| >= 256
    result = cx.select(beyond, cx.select(negative, cx.const("i32", 0), cx.const("i32", INFINITY)), result)
    return cx.select(x.nan, cx.const("i32", CANONICAL_NAN), result)


def _lg2(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    total = interpolate(cx, "lg2", b.lshr(x.fraction, cx.const("i32", 17)), b.and_(x.fraction, cx.const("i32", 0x1FFFF)))
    exponent = b.sext(b.sub(x.exponent, cx.const("i32", 127)), cx.type("i64"))
    # In units of 2**-36. A negative sum is complemented, not negated.
    total = b.add(b.shl(exponent, cx.const("i64", 36)), b.lshr(total, cx.const("i64", 5)))
    sign = b.ashr(total, cx.const("i64", 63))
    result = _cut(cx, b.xor(total, sign), 2.0**-36)
    result = b.or_(result, b.and_(b.trunc(sign, cx.type("i32")), cx.const("i32", SIGN)))
    one = b.icmp_unsigned("==", bits, cx.const("i32", 0x3F800000))
    result = cx.select(one, cx.const("i32", 0), result)
    result = cx.select(x.infinite, cx.const("i32", INFINITY), result)
    result = cx.select(x.tiny, cx.const("i32", INFINITY | SIGN), result)
    return cx.select(b.or_(x.nan, x.below_zero), cx.const("i32", CANONICAL_NAN), result)


def _wave(cx: Lanes, bits: Value, *, cosine: bool) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    angle = _fixed_point(cx, x, 25)
    if cosine:
        angle = b.add(angle, cx.const("i32", 1 << 23))  # a quarter further
    mirrored = b.icmp_unsigned("!=", b.and_(angle, cx.const("i32", 1 << 23)), cx.const("i32", 0))
    q = b.and_(cx.select(mirrored, b.not_(angle), angle), cx.const("i32", ONE_ULP - 1))
    total = interpolate(cx, "sin", b.lshr(q, cx.const("i32", 17)), b.and_(q, cx.const("i32", 0x1FFFF)))
    sign = b.and_(b.shl(angle, cx.const("i32", 31 - 24)), cx.const("i32", SIGN))
    if not cosine:
        sign = b.xor(sign, x.sign)
    result = b.or_(_cut(cx, total, 2.0**-41), sign)
    return cx.select(b.or_(x.nan, x.infinite), cx.const("i32", CANONICAL_NAN), result)


def _tanh(cx: Lanes, bits: Value) -> Value:
    b, x = cx.b, _Pieces(cx, bits)
    binade = b.sub(x.exponent, cx.const("i32", 127 + TANH_LEAST))
    inside = b.icmp_unsigned("<", binade, cx.const("i32", len(TANH_SEGMENTS_LOG2)))
    binade = cx.select(inside, binade, cx.const("i32", 0))
    packed = sum(log2 << (4 * k) for k, log2 in enumerate(TANH_SEGMENTS_LOG2))
    nibble = b.shl(b.zext(binade, cx.type("i64")), cx.const("i64", 2))
    log2 = b.and_(b.trunc(b.lshr(cx.const("i64", packed), nibble), cx.type("i32")), cx.const("i32", 15))
    row = b.lshr(x.fraction, b.sub(cx.const("i32", 23), log2))
    low = b.and_(b.lshr(x.fraction, b.sub(cx.const("i32", 6), log2)), cx.const("i32", 0x1FFFF))
    total = interpolate(cx, "tanh", b.add(b.mul(binade, cx.const("i32", TANH_SLOTS)), row), low)
    small = b.icmp_unsigned("<", x.exponent, cx.const("i32", 127 + TANH_LEAST))
    outside = cx.select(small, x.magnitude, cx.const("i32", 0x3F800000))
    result = b.or_(x.sign, cx.select(inside, _cut(cx, total, 2.0**-41), outside))
    return cx.select(x.nan, cx.const("i32", CANONICAL_NAN), result)


def _sin(cx: Lanes, bits: Value) -> Value:
    return _wave(cx, bits, cosine=False)


def _cos(cx: Lanes, bits: Value) -> Value:
    return _wave(cx, bits, cosine=True)


_FUNCTIONS: dict[str, Callable[[Lanes, Value], Value]] = {
    "rcp": _rcp,
    "rsqrt": _rsqrt,
    "sqrt": _sqrt,
    "ex2": _ex2,
    "lg2": _lg2,
    "sin": _sin,
    "cos": _cos,
    "tanh": _tanh,
}
