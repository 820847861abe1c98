"""C's printf, as a kernel's output goes through it (ISO C 7.21.6.1; CUDA C++ Programming Guide, "Formatted Output")."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+)?)?(?P<length>hh|h|ll|l|L|q|j|z|t)?(?P<kind>[diouxXeEfFgGaAcsp%])"
)
WIDEST = 1 << 16  # characters of a field, and digits of a precision: more would only take memory
_LONG = ("l", "ll", "q", "j", "z", "t")


@dataclass(frozen=True)
class _Spec:
    """One conversion. `precision` None: not given."""

    flags: str
    width: int
    precision: int | None
    kind: str

    def padded(self, sign: str, digits: str, zeros: bool) -> str:
        """`sign` and `digits` in the field's width, filled with zeros between the two where that is asked for."""
        room = self.width - len(sign) - len(digits)
        if "-" in self.flags:
            return sign + digits + " " * room
        return sign + "0" * room + digits if zeros and "0" in self.flags else " " * room + sign + digits

    def sign(self, negative: bool) -> str:
        return "-" if negative else "+" if "+" in self.flags else " " if " " in self.flags else ""

    def integer(self, value: int) -> str:
        base = {"o": "o", "x": "x", "X": "X"}.get(self.kind, "d")
        digits = format(abs(value), base).rjust(1 if self.precision is None else self.precision, "0")
        if value == 0 and self.precision == 0:
            digits = ""
        prefix = self.sign(value < 0) if self.kind in "di" else ""
        if "#" in self.flags and self.kind == "o" and not digits.startswith("0"):
            digits = "0" + digits
        elif "#" in self.flags and self.kind in "xX" and value:
            prefix = "0" + self.kind
        return self.padded(prefix, digits, zeros=self.precision is None)

    def real(self, value: float) -> str:
        sign = self.sign(math.copysign(1.0, value) < 0)
        if not math.isfinite(value):
            name = "nan" if math.isnan(value) else "inf"
            return self.padded(sign, name.upper() if self.kind.isupper() else name, zeros=False)
        magnitude = abs(value)
        if self.kind in "aA":
            prefix, digits = "0x", self._hexadecimal(magnitude)
            if self.kind == "A":
                prefix, digits = "0X", digits.upper()
            return self.padded(sign + prefix, digits, zeros=True)
        alternate = "#" if "#" in self.flags else ""
        precision = "" if self.precision is None else f".{self.precision}"
        return self.padded(sign, f"%{alternate}{precision}{self.kind}" % magnitude, zeros=True)

    def _hexadecimal(self, magnitude: float) -> str:
        """The digits of %a: one before the point, the exponent of two after the p."""
        (bits,) = struct.unpack("<Q", struct.pack("<d", magnitude))
        exponent, mantissa = bits >> 52, bits & ((1 << 52) - 1)
        if exponent:
            mantissa |= 1 << 52
        power = 0 if magnitude == 0.0 else max(exponent, 1) - 1023
        count = 13
        if self.precision is not None and self.precision < 13:
            count = self.precision
            unit = 1 << (52 - 4 * count)
            whole, rest = divmod(mantissa, unit)
            mantissa = whole + (rest * 2 > unit or (rest * 2 == unit and whole & 1))
        fraction = format(mantissa & ((1 << 4 * count) - 1), "x").rjust(count, "0") if count else ""
        fraction = fraction.rstrip("0") if self.precision is None else fraction.ljust(self.precision, "0")
        point = "." if fraction or "#" in self.flags else ""
        return f"{mantissa >> 4 * count:x}{point}{fraction}p{power:+d}"

    def text(self, value: str) -> str:
        return self.padded("", value, zeros=False)


def format_printf(text: str, read: Callable[[int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """The output, and how many arguments it took.

    `read(size)` hands out the arguments in turn: CUDA passes ints as 4 bytes, longs, doubles and pointers as 8.
    `string` is the text at a device address.
    """
    taken = 0

    def integer(size: int, signed: bool) -> int:
        nonlocal taken
        taken += 1
        return int.from_bytes(read(size), "little", signed=signed)

    def given(number: str | None) -> int | None:
        if number is None:
            return None
        value = integer(4, True) if number == "*" else int(number[:9])
        return max(-WIDEST, min(value, WIDEST))

    def replace(match: re.Match[str]) -> str:
        nonlocal taken
        kind, flags, length = match["kind"], match["flags"], match["length"]
        if kind == "%":
            return "%"
        width = given(match["width"]) or 0
        if width < 0:
            flags, width = flags + "-", -width
        precision = given(match["precision"] or "0") if "." in match[0] else None
        if precision is not None and precision < 0:
            precision = None
        spec = _Spec(flags, width, precision, kind)
        if kind in "diouxX":
            return spec.integer(_narrow(integer(8 if length in _LONG else 4, kind in "di"), length, kind in "di"))
        if kind in "eEfFgGaA":
            taken += 1
            return spec.real(struct.unpack("<d", read(8))[0])
        if kind == "c":
            return spec.text(chr(integer(4, False) & 0xFF))
        if kind == "s":
            return spec.text(string(integer(8, False))[:precision])
        address = integer(8, False)
        return spec.text(f"0x{address:x}" if address else "(nil)")

    return _CONVERSION.sub(replace, text), taken


def _narrow(value: int, length: str | None, signed: bool) -> int:
    bits = {"h": 16, "hh": 8}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
