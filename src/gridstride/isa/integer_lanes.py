"""Building blocks that the lowerings of several integer families share."""

from __future__ import annotations

from llvmlite import ir

from gridstride.isa.lanes import Lanes
from gridstride.isa.types import ScalarType

# Types by their use in operation entries.
WORDS = "u16 u32 u64 s16 s32 s64"
SIGNED_WORDS = "s16 s32 s64"


def extend(cx: Lanes, value: ir.Value, is_signed: bool, name: str) -> ir.Value:
    """Widen integer lanes to the type `name`, repeating the sign where `is_signed`."""
    return cx.b.sext(value, cx.type(name)) if is_signed else cx.b.zext(value, cx.type(name))


def less(cx: Lanes, operator: str, a: ir.Value, b: ir.Value, is_signed: bool) -> ir.Value:
    """Compare integers by one of < <= > >= == !=."""
    return cx.b.icmp_signed(operator, a, b) if is_signed else cx.b.icmp_unsigned(operator, a, b)


def smallest(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool, name: str) -> ir.Value:
    return cx.intrinsic("llvm.smin" if is_signed else "llvm.umin", name, a, b)


def largest(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool, name: str) -> ir.Value:
    return cx.intrinsic("llvm.smax" if is_signed else "llvm.umax", name, a, b)


def clamp(cx: Lanes, value: ir.Value, low: int, high: int, name: str) -> ir.Value:
    """Limit signed lanes of type `name` to low … high."""
    return smallest(cx, largest(cx, value, cx.const(name, low), True, name), cx.const(name, high), True, name)


def limits(bits: int, is_signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def distance(cx: Lanes, a: ir.Value, b: ir.Value, is_signed: bool, name: str) -> ir.Value:
    """|a - b|, modulo the width."""
    return cx.b.sub(largest(cx, a, b, is_signed, name), smallest(cx, a, b, is_signed, name))


def elements(cx: Lanes, count: int) -> Lanes:
    """The builder for `count` packed elements in each lane; `unpack` and `pack` go there and back."""
    return Lanes(cx.b, cx.width * count)


def unpack(cx: Lanes, value: ir.Value, bits: int) -> ir.Value:
    """32-bit lanes as the elements of `bits` bits packed in them, lowest first."""
    return cx.b.bitcast(value, elements(cx, 32 // bits).type(f"i{bits}"))


def pack(cx: Lanes, value: ir.Value) -> ir.Value:
    return cx.b.bitcast(value, cx.type("i32"))


def element_shape(cx: Lanes, kind: ScalarType) -> tuple[Lanes, str]:
    """Builder and element type of an operand of `kind`: of its halves for u16x2 and s16x2, else of itself."""
    return (elements(cx, 2), "i16") if kind.name.endswith("x2") else (cx, f"i{kind.bits}")


def constant_lanes(value: ir.Value) -> list[int] | None:
    """The integers of a constant, one for each lane; None for anything that is not constant."""
    if not isinstance(value, ir.Constant):
        return None
    lanes = value.constant if isinstance(value.constant, list) else [value]
    numbers = [lane.constant for lane in lanes]
    return numbers if all(isinstance(n, int) for n in numbers) else None
