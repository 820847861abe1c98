"""Binary floating-point formats: their bit layouts, and exact integer arithmetic on them, which the Python meanings
of half and conversion operations are written with. A finite value is (negative, m, e): (-1)**negative * m * 2**e with m >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass

Finite = tuple[bool, int, int]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE 754-like format of 1 + exponent + mantissa bits.

    nan: the NaN the H200 makes. ieee: the top exponent means infinity or NaN; otherwise (e4m3) it is an
    ordinary exponent, all ones is the one NaN and there is no infinity.
    """

    name: str
    exponent: int
    mantissa: int
    nan: int
    ieee: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def largest(self) -> int:
        """Bits of the largest finite number."""
        return self.infinity - 1 if self.ieee else self.sign - 2

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    def is_nan(self, bits: int) -> bool:
        magnitude = bits & (self.sign - 1)
        return magnitude > self.infinity if self.ieee else magnitude == self.sign - 1

    def is_infinite(self, bits: int) -> bool:
        return self.ieee and bits & (self.sign - 1) == self.infinity

    def negative(self, bits: int) -> bool:
        return bool(bits & self.sign)

    def flushed(self, bits: int) -> int:
        """Subnormal numbers become zero of their sign."""
        return bits & self.sign if bits & self.infinity == 0 else bits

    def finite(self, bits: int) -> Finite:
        """The exact value of a finite number."""
        exponent = (bits >> self.mantissa) & ((1 << self.exponent) - 1)
        fraction = bits & ((1 << self.mantissa) - 1)
        implicit = (1 << self.mantissa) if exponent else 0
        return self.negative(bits), fraction | implicit, max(exponent, 1) - self.bias - self.mantissa

    def rounded(self, value: Finite, mode: str, *, flush: bool = False) -> int:
        """Bits of the value rounded once. mode: rn (ties to even), rna (ties away from zero), rz, rm, rp.

        flush: what is below the normal numbers becomes zero. An H200 decides that after rounding as if the
        exponent had no lower limit: what rounds up to the least normal number so stays.
        """
        negative, m, e = value
        sign = self.sign if negative else 0
        if m == 0:
            return sign
        lowest = 1 - self.bias - self.mantissa
        unit = m.bit_length() + e - (self.mantissa + 1)
        away = mode == ("rm" if negative else "rp")
        ties = {"rn": "even", "rna": "away"}.get(mode, "")
        if unit < lowest:
            if flush and (unit < lowest - 1 or rounded_shift(m, unit - e, away=away, ties=ties) >> (self.mantissa + 1) == 0):
                return sign
            unit = lowest
        q = rounded_shift(m, unit - e, away=away, ties=ties)
        bits = q + ((unit - lowest) << self.mantissa)
        if bits > self.largest:
            to_infinity = mode in ("rn", "rna") or away
            bits = self.infinity if to_infinity and self.ieee else self.largest
        return sign | bits


def rounded_shift(m: int, shift: int, *, away: bool = False, ties: str = "") -> int:
    """m / 2**shift as an integer: truncated, or away from zero, or to nearest with ties "even" or "away"."""
    if shift <= 0:
        return m << -shift
    q, rest, half = m >> shift, m & ((1 << shift) - 1), 1 << (shift - 1)
    if ties:
        return q + (rest > half or (rest == half and (ties == "away" or q & 1 == 1)))
    return q + (away and rest != 0)


F16 = Format("f16", 5, 10, 0x7FFF)
BF16 = Format("bf16", 8, 7, 0x7FFF)
F32 = Format("f32", 8, 23, 0x7FFFFFFF)
F64 = Format("f64", 11, 52, 0x7FF8000000000000)
TF32 = Format("tf32", 8, 10, 0x3FFFF)
E4M3 = Format("e4m3", 4, 3, 0x7F, ieee=False)
E5M2 = Format("e5m2", 5, 2, 0x7F)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64, TF32, E4M3, E5M2)}


def product(a: Finite, b: Finite) -> Finite:
    return a[0] != b[0], a[1] * b[1], a[2] + b[2]


def total(a: Finite, b: Finite) -> Finite:
    """a + b exactly. A zero sum is negative only where both are (round to nearest, IEEE 754 6.3)."""
    e = min(a[2], b[2])
    left, right = ((-m if n else m) << (x - e) for n, m, x in (a, b))
    s = left + right
    return (s < 0 if s else a[0] and b[0]), abs(s), e
