"""PTX fundamental types (PTX ISA 5.2) and how one lane's value is held in LLVM.

f16, bf16 and the packed and alternate formats are held as raw bits in integers: PTX registers of these
types are untyped bit containers, and bit-exact arithmetic on them is done by widening.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One PTX type.

    kind: "s" signed, "u" unsigned, "b" bits, "f" floating point (IEEE f32, f64), "h" half-size or packed
    floating point (held as raw bits), "p" predicate.
    """

    name: str
    kind: str
    bits: int

    @property
    def signed(self) -> bool:
        return self.kind == "s"

    @property
    def storage(self) -> str:
        """Name of the LLVM type that holds one lane: i1, i8 … i128, f32, f64."""
        if self.kind == "p":
            return "i1"
        if self.kind == "f":
            return self.name
        return f"i{self.bits}"

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name


TYPES: dict[str, ScalarType] = {
    t.name: t
    for t in (
        *(ScalarType(f"{kind}{bits}", kind, bits) for kind in "sub" for bits in (8, 16, 32, 64)),
        ScalarType("b1", "b", 1),
        ScalarType("b128", "b", 128),
        ScalarType("f32", "f", 32),
        ScalarType("f64", "f", 64),
        ScalarType("f16", "h", 16),
        ScalarType("bf16", "h", 16),
        ScalarType("f16x2", "h", 32),
        ScalarType("bf16x2", "h", 32),
        ScalarType("f32x2", "h", 64),
        ScalarType("tf32", "h", 32),
        ScalarType("e4m3x2", "h", 16),
        ScalarType("e5m2x2", "h", 16),
        ScalarType("u16x2", "u", 32),
        ScalarType("s16x2", "s", 32),
        ScalarType("pred", "p", 1),
    )
}
