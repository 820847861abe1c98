"""Exact rounding of f32 and f64 arithmetic in any mode, and what `.ftz` and `.sat` do to a value.

The host always runs round-to-nearest with denormals on. Round-to-nearest is then the plain LLVM operation.

f32 in a directed mode: the operation is done in f64, which is exact but for a sum's error, and that error is
recovered exactly (Knuth's two-sum); the sum is rounded to f32 and moved one step back if it lies beyond the
exact value. f64 in a directed mode: an out-of-line function sets the processor's rounding mode, runs LLVM's
constrained operation, which reads that mode, and sets it back.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gridstride.isa.lanes import Lanes

Value = ir.Value

ROUNDINGS = ("rn", "rz", "rm", "rp")
# llvm.set.rounding's numbers (those of C's FLT_ROUNDS)
_NEAREST = 1
_DIRECTIONS = {"rz": 0, "rp": 2, "rm": 3}

_EXPONENT_F32 = 0x7F800000
_SIGN_F32 = 0x80000000


def flush(cx: Lanes, value: Value) -> Value:
    """f32 `.ftz`: subnormal numbers become zero of the same sign (PTX ISA 9.7.3)."""
    bits = cx.cast(value, "i32")
    tiny = cx.b.icmp_unsigned("==", cx.b.and_(bits, cx.const("i32", _EXPONENT_F32)), cx.const("i32", 0))
    return cx.cast(cx.select(tiny, cx.b.and_(bits, cx.const("i32", _SIGN_F32)), bits), "f32")


def rounded_flushed(cx: Lanes, operation: str, mode: str, operands: Sequence[Value]) -> Value:
    """`rounded` of f32 with `.ftz`: subnormal operands count as zero, and so does a result that is too small.

    Too small is what would be below the least normal number if exponents had no limit: 2**-126 * (1 - 2**-24) is
    flushed although it rounds to 2**-126 as an f32 (so does an H200). Such a result shows when everything is 2**24
    times as large. Sums that small are exact, and square roots are never small.
    """
    operands = [flush(cx, operand) for operand in operands]
    result = rounded(cx, operation, mode, "f32", operands)
    if operation not in ("mul", "fma") and (operation != "div" or mode == "rn"):
        return flush(cx, result)
    scale = cx.const("f32", 2.0**24)
    scaled = [cx.b.fmul(operands[0], scale), operands[1], *(cx.b.fmul(addend, scale) for addend in operands[2:])]
    magnitude = cx.intrinsic("llvm.fabs", "f32", rounded(cx, operation, mode, "f32", scaled))
    tiny = cx.b.fcmp_ordered("<", magnitude, cx.const("f32", 2.0 ** (24 - 126)))
    bits = cx.cast(result, "i32")
    return cx.cast(cx.select(tiny, cx.b.and_(bits, cx.const("i32", _SIGN_F32)), bits), "f32")


def saturate(cx: Lanes, value: Value) -> Value:
    """f32 `.sat`: clamp to [+0, 1]; NaN and -0 become +0 (PTX ISA 9.7.3)."""
    zero, one = cx.const("f32", 0.0), cx.const("f32", 1.0)
    positive = cx.select(cx.b.fcmp_ordered(">", value, zero), value, zero)
    return cx.select(cx.b.fcmp_ordered("<", positive, one), positive, one)


def is_nan(cx: Lanes, value: Value) -> Value:
    return cx.b.fcmp_unordered("uno", value, value)


def rounded(cx: Lanes, operation: str, mode: str, kind: str, operands: Sequence[Value]) -> Value:
    """`operation` (add, sub, mul, fma, div, sqrt) on operands of `kind` (f32, f64), correctly rounded in `mode`.

    Of several NaN operands of an f64 sum or product the hardware keeps the payload of the second, else the third,
    else the first. The plain operations below do not promise that (the host chooses); the directed ones do.
    """
    if mode == "rn":
        return _nearest(cx, operation, kind, operands)
    build = _directed_f32 if kind == "f32" else _directed_f64

    def body(inner: Lanes, parameters: Sequence[Value]) -> Sequence[Value]:
        return [build(inner, operation, mode, parameters)]

    return cx.helper(f"gs.{operation}.{mode}.{kind}", [kind], operands, body)[0]


def _nearest(cx: Lanes, operation: str, kind: str, operands: Sequence[Value]) -> Value:
    b = cx.b
    match operation, operands:
        case "add", (x, y):
            return b.fadd(x, y)
        case "sub", (x, y):
            return b.fsub(x, y)
        case "mul", (x, y):
            return b.fmul(x, y)
        case "div", (x, y):
            return b.fdiv(x, y)
        case "fma", (x, y, z):
            return cx.intrinsic("llvm.fma", kind, x, y, z)
        case "sqrt", (x,):
            return cx.intrinsic("llvm.sqrt", kind, x)
    raise AssertionError(operation)


def _directed_f64(cx: Lanes, operation: str, mode: str, operands: Sequence[Value]) -> Value:
    suffix = "f64" if cx.width == 1 else f"v{cx.width}f64"
    spelling = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}.get(operation, operation)
    name = f"llvm.experimental.constrained.{spelling}.{suffix}"
    metadata = _Metadata()
    function = cx.module.globals.get(name)
    if function is None:
        signature = ir.FunctionType(cx.type("f64"), [*(o.type for o in operands), metadata, metadata])
        function = ir.Function(cx.module, signature, name)
    set_rounding = cx.module.globals.get("llvm.set.rounding")
    if set_rounding is None:
        set_rounding = ir.Function(cx.module, ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "llvm.set.rounding")
    cx.b.call(set_rounding, [ir.IntType(32)(_DIRECTIONS[mode])])
    result: Value = cx.b.call(function, [*operands, metadata("round.dynamic"), metadata("fpexcept.ignore")])
    cx.b.call(set_rounding, [ir.IntType(32)(_NEAREST)])
    if operation not in ("div", "sqrt"):
        for operand in (*operands[2:], operands[1]):  # the second last, so that it wins
            result = cx.select(is_nan(cx, operand), cx.b.fadd(operand, operand), result)
    return result


class _Metadata(ir.Type):
    """The type of metadata strings as arguments of a call, which llvmlite's own metadata type has no constants for."""

    def _to_string(self) -> str:
        return "metadata"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Metadata)

    def __hash__(self) -> int:
        return hash(_Metadata)

    def format_constant(self, value: str) -> str:
        return f'!"{value}"'


def _directed_f32(cx: Lanes, operation: str, mode: str, operands: Sequence[Value]) -> Value:
    """Rounding down is rounding up seen in a mirror: only `rp` and `rz` are made here. (The mirror also gives
    a sum that cancels its right sign: -0 when rounding down, +0 else.)"""
    b = cx.b
    if operation == "sqrt":
        root = cx.intrinsic("llvm.sqrt", "f64", _widen(cx, operands[0]))
        return _narrow(cx, "rp" if mode == "rp" else "rz", root, None)
    if mode == "rm":
        first, *others = operands
        mirrored = [b.fneg(first), *others]
        if operation != "mul" and operation != "div":
            mirrored[-1] = b.fneg(mirrored[-1])
        return b.fneg(_directed_f32(cx, operation, "rp", mirrored))
    wide = [_widen(cx, operand) for operand in operands]
    match operation, wide:
        case "add", (x, y):
            return _narrow(cx, mode, *_two_sum(cx, x, y))
        case "sub", (x, y):
            return _narrow(cx, mode, *_two_sum(cx, x, b.fneg(y)))
        case "fma", (x, y, z):
            return _narrow(cx, mode, *_two_sum(cx, b.fmul(x, y), z))  # the product of two f32 is exact in f64
        case "mul", (x, y):
            return _narrow(cx, mode, b.fmul(x, y), None)
        case "div", (x, y):
            # An inexact quotient of two f32 (likewise a root) is at least 2^-49 of itself away from every f32, so
            # its f64 rounding still lies on the right side of each.
            return _narrow(cx, mode, b.fdiv(x, y), None)
    raise AssertionError(operation)


def _widen(cx: Lanes, value: Value) -> Value:
    return cx.b.fpext(value, cx.type("f64"))


def _two_sum(cx: Lanes, x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum, and exactly what rounding took from it (NaN beside an infinite sum)."""
    b = cx.b
    total = b.fadd(x, y)
    y_part = b.fsub(total, x)
    x_part = b.fsub(total, y_part)
    return total, b.fadd(b.fsub(x, x_part), b.fsub(y, y_part))


def _narrow(cx: Lanes, mode: str, value: Value, error: Value | None) -> Value:
    """Round the exact number `value` + `error` (f64, `value` its rounding) to f32, up or to zero.

    No comparison with NaN holds, so NaN and infinite operands' results pass unchanged; a finite number that
    overflowed to infinity has an infinite excess and steps back to the largest f32 where the mode wants it.
    """
    b = cx.b
    nearest = b.fptrunc(value, cx.type("f32"))
    excess = b.fsub(_widen(cx, nearest), value)  # exact
    if error is not None:
        excess = b.fsub(excess, error)  # its sign is exact
    zero = cx.const("f64", 0.0)
    bits = cx.cast(nearest, "i32")
    sign = b.ashr(bits, cx.const("i32", 31))
    if mode == "rp":
        wrong = b.fcmp_ordered("<", excess, zero)
        stepped = b.add(bits, b.or_(sign, cx.const("i32", 1)))
    else:
        outward = b.xor(cx.cast(excess, "i64"), b.and_(cx.cast(value, "i64"), cx.const("i64", 1 << 63)))
        wrong = b.fcmp_ordered(">", cx.cast(outward, "f64"), zero)
        stepped = b.sub(bits, cx.const("i32", 1))
    return cx.cast(cx.select(wrong, stepped, bits), "f32")
