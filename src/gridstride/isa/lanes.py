"""`Lanes`: how an operation's lowering builds LLVM code without knowing whether it works on one uniform value
or on a whole warp. Lane types are named as in `ScalarType.storage`: i1, i8, i16, i32, i64, i128, f32, f64.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from llvmlite import ir

WARP = 32

_SCALARS: dict[str, ir.Type] = {
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
    **{f"i{n}": ir.IntType(n) for n in (1, 8, 16, 32, 64, 128)},
}
_VECTORS: dict[tuple[str, int], ir.VectorType] = {}


def scalar_type(name: str) -> ir.Type:
    return _SCALARS[name] if name in _SCALARS else ir.IntType(int(name[1:]))


def vector_type(name: str, width: int = WARP) -> ir.VectorType:
    key = (name, width)
    if key not in _VECTORS:
        _VECTORS[key] = ir.VectorType(scalar_type(name), width)
    return _VECTORS[key]


def float_constant(name: str, value: float) -> ir.Constant:
    """A floating constant; infinities, NaN and signed zero included."""
    if name == "f32" and math.isfinite(value):
        value = struct.unpack("f", struct.pack("f", value))[0]
    return ir.Constant(scalar_type(name), value)


class Lanes:
    """A builder for values of one shape: `width` 1 is a scalar, 32 the lanes of a warp."""

    def __init__(self, builder: ir.IRBuilder, width: int) -> None:
        self.b = builder
        self.width = width

    @property
    def module(self) -> ir.Module:
        return self.b.module

    def type(self, name: str) -> ir.Type:
        return scalar_type(name) if self.width == 1 else vector_type(name, self.width)

    def const(self, name: str, value: float) -> ir.Constant:
        """`value` in every lane. For integer types any Python int (taken modulo the width)."""
        if name[0] == "f":
            one = float_constant(name, value)
        else:
            bits = int(name[1:])
            number = int(value) & ((1 << bits) - 1)
            one = ir.Constant(scalar_type(name), number)
        return one if self.width == 1 else ir.Constant(self.type(name), [one] * self.width)

    def cast(self, value: ir.Value, name: str) -> ir.Value:
        """Bitcast lane by lane to a type of equal width."""
        target = self.type(name)
        return value if value.type == target else self.b.bitcast(value, target)

    def intrinsic(self, name: str, result: str, *arguments: ir.Value) -> ir.Value:
        """Call an overloaded LLVM intrinsic (`llvm.fma`, `llvm.ctpop`…) at this shape; its name's suffix is
        made from the result type."""
        suffix = result if self.width == 1 else f"v{self.width}{result}"
        full = f"{name}.{suffix}"
        signature = ir.FunctionType(self.type(result), [a.type for a in arguments])
        function = self.module.globals.get(full)
        if function is None:
            function = ir.Function(self.module, signature, full)
        return self.b.call(function, arguments)

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        return self.b.select(condition, yes, no)

    def helper(
        self,
        name: str,
        results: Sequence[str],
        arguments: Sequence[ir.Value],
        build: Callable[[Lanes, Sequence[ir.Value]], Sequence[ir.Value]],
        *,
        attributes: Sequence[str] = ("noinline",),
    ) -> list[ir.Value]:
        """Call an out-of-line function of this module, made on first use by `build(lanes, parameters)`, which
        returns the results. For anything longer than about ten LLVM operations: code is made once a module
        instead of once a use. `name` must tell apart all that `build` depends on but the shape.
        """
        full = f"{name}.{self.width}"
        function = self.module.globals.get(full)
        types = [self.type(r) for r in results]
        result_type = types[0] if len(types) == 1 else ir.LiteralStructType(types)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result_type, [a.type for a in arguments]), full)
            function.linkage = "internal"
            for attribute in attributes:
                function.attributes.add(attribute)
            inner = ir.IRBuilder(function.append_basic_block("entry"))
            values = list(build(Lanes(inner, self.width), function.args))
            if len(values) == 1:
                inner.ret(values[0])
            else:
                packed: ir.Value = ir.Constant(result_type, ir.Undefined)
                for k, value in enumerate(values):
                    packed = inner.insert_value(packed, value, k)
                inner.ret(packed)
        call = self.b.call(function, arguments)
        if len(types) == 1:
            return [call]
        return [self.b.extract_value(call, k) for k in range(len(types))]
