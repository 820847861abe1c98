"""Rounding by the textbook on fractions: the tests' own, apart from the arithmetic in the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from opcodes.harness import Bits

# name: bits of precision, exponent of the least subnormal number, exponent past the largest number
FORMATS = {"f16": (11, -24, 16), "bf16": (8, -133, 128), "f32": (24, -149, 128), "f64": (53, -1074, 1024)}
WHOLE: dict[str, Callable[[Fraction], int]] = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}


def rounded(value: Fraction, name: str, mode: str) -> Fraction | float:
    """The number of the format that IEEE 754 prescribes; Python's `round` takes ties to even."""
    precision, least, top = FORMATS[name]
    if not value:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    result = WHOLE[mode](value / unit) * unit
    limit = Fraction(2) ** top
    if abs(result) < limit:
        return result
    outwards = mode == "rn" or mode == ("rm" if value < 0 else "rp")
    largest = limit - Fraction(2) ** (top - precision)
    return math.copysign(math.inf if outwards else float(largest), float(value > 0) - 0.5)


def floats(bits: Bits, name: str) -> np.ndarray:
    """Raw bits of a format as f64 numbers."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        if name == "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        if name == "bf16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return bits.view({"f32": np.float32, "f64": np.float64}[name]).astype(np.float64)


def awkward(name: str, target: str, rng: np.random.Generator, count: int) -> Bits:
    """Finite numbers of a format that lie on, or next to, numbers of `target` and the middles between them, with
    exponents near target's range."""
    precision, least, top = FORMATS[name]
    narrow, narrow_least, narrow_top = FORMATS[target]
    mantissa, width = precision - 1, {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[name]
    bias = top - 1
    exponent = rng.integers(max(narrow_least - 2, least + precision - 1), min(narrow_top + 2, top), count) + bias
    fraction = rng.integers(0, 1 << mantissa, count)
    cut = mantissa - (narrow - 1) + rng.integers(0, 4, count)
    cut = np.clip(cut, 1, mantissa)
    keep = fraction >> cut << cut
    middle = 1 << (cut - 1)
    fraction = np.select(
        [rng.integers(0, 5, count) == k for k in range(4)], [keep + middle, keep + middle - 1, keep | (middle + 1), keep], fraction
    )
    fraction &= (1 << mantissa) - 1
    sign = rng.integers(0, 2, count).astype(np.uint64) << np.uint64(width - 1)
    bits = sign | ((np.clip(exponent, 0, 2 * bias).astype(np.uint64) << np.uint64(mantissa)) | fraction.astype(np.uint64))
    return bits.astype({16: np.uint16, 32: np.uint32, 64: np.uint64}[width])
