"""What the video instructions mean for one lane, on raw bits (PTX ISA 9.7.18). Arguments as in `video`."""

from __future__ import annotations

from gridstride.isa.reference_integer import clamp, number, packed, parts, signed, wrap
from gridstride.isa.registry import Form
from gridstride.isa.types import ScalarType


def _source(raw: int, kind: ScalarType, selector: int | None) -> int:
    if selector is None:
        return number(raw, kind)
    bits, place = (8 if selector >> 4 == 0xB else 16), selector & 15
    return parts(raw, bits, 32 // bits, kind.signed)[place]


def _compare(form: Form, x: int, y: int) -> int:
    outcome = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return int(outcome[form.one_of(*outcome)])


def scalar(form: Form, a: int, b: int, c: int | None, a_part: int | None, b_part: int | None, d_part: int | None) -> int:
    """vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vset."""
    name = form.operation.opcode
    kind_a, kind_b = form.types[-2:]
    result_signed = len(form.types) == 3 and form.types[0].signed
    x, y = _source(a, kind_a, a_part), _source(b, kind_b, b_part)
    if name in ("vshl", "vshr"):
        y = y & 31 if "wrap" in form else min(y, 32)
        value = x << y if name == "vshl" else x >> y
    elif name == "vset":
        value = _compare(form, x, y)
    else:
        value = {"vadd": x + y, "vsub": x - y, "vabsdiff": abs(x - y), "vmin": min(x, y), "vmax": max(x, y)}[name]
    bits = 32 if d_part is None else 8 if d_part >> 4 == 0xB else 16
    if "sat" in form:
        value = clamp(value, bits, result_signed)
    second = form.one_of("add", "min", "max")
    if second:
        assert c is not None
        value, addend = wrap(value, 32), c
        if result_signed:
            value, addend = signed(value, 32), signed(c, 32)
        value = {"add": value + addend, "min": min(value, addend), "max": max(value, addend)}[second]
    if d_part is None:
        return wrap(value, 32)
    assert c is not None
    pieces = parts(c, bits, 32 // bits, False)
    pieces[d_part & 15] = value
    return packed(pieces, bits)


def vmad(form: Form, a: int, b: int, c: int, a_part: int | None, b_part: int | None, negate: int | None) -> int:
    negate = negate or 0
    x, y = _source(a, form.types[1], a_part), _source(b, form.types[2], b_part)
    product_signed = form.types[1].signed or form.types[2].signed or bool(negate & 1)
    is_signed = product_signed or bool(negate & 2)
    addend = signed(c, 32) if product_signed else c
    product = -x * y if negate & 1 else x * y
    total = product + (-addend if negate & 2 else addend) + (1 if "po" in form else 0)
    total >>= {"": 0, "shr7": 7, "shr15": 15}[form.one_of("shr7", "shr15")]
    return wrap(clamp(total, 32, is_signed) if "sat" in form else total, 32)


def packed_operation(form: Form, a: int, b: int, c: int, a_parts: int | None, b_parts: int | None, mask: int | None) -> int:
    """vadd2 … vset4: the same on two halves or four bytes."""
    name, count = form.operation.opcode[:-1], int(form.operation.opcode[-1])
    bits = 32 // count
    kind_a, kind_b = form.types[-2:]
    pieces = parts(a, bits, count, False) + parts(b, bits, count, False)
    places_a = list(range(count)) if a_parts is None else parts(a_parts, 4, count, False)
    places_b = list(range(count, 2 * count)) if b_parts is None else parts(b_parts, 4, count, False)
    chosen = list(range(count)) if mask is None else [int(digit, 16) for digit in f"{mask:x}"[1:]]
    results = parts(c, bits, count, False)
    total = c
    for k in chosen:
        x = signed(pieces[places_a[k]], bits) if kind_a.signed else pieces[places_a[k]]
        y = signed(pieces[places_b[k]], bits) if kind_b.signed else pieces[places_b[k]]
        if name == "vset":
            value = _compare(form, x, y)
        else:
            value = {
                "vadd": x + y,
                "vsub": x - y,
                "vavrg": (x + y + (1 if x + y >= 0 else 0)) >> 1,
                "vabsdiff": abs(x - y),
                "vmin": min(x, y),
                "vmax": max(x, y),
            }[name]
        if "sat" in form:
            value = clamp(value, bits, form.types[0].signed)
        results[k] = value
        total += value
    return wrap(total, 32) if "add" in form else packed(results, bits)
