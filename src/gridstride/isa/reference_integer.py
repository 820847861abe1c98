"""What integer instructions mean for one lane, on raw bits as Python integers. Slow and plain.

Every function takes the form and the raw bits of each argument (unsigned; predicates 0 or 1; None where an optional
argument is missing) and returns the raw bits of the result or results. PTX ISA 9.7.1, 9.7.2, 9.7.6 and 9.7.8.
"""

from __future__ import annotations

import math

from gridstride.isa.registry import Form
from gridstride.isa.types import ScalarType

Bits2 = tuple[int, int]


def wrap(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def signed(raw: int, bits: int) -> int:
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def number(raw: int, kind: ScalarType) -> int:
    """The number that raw bits of an integer type stand for."""
    return signed(raw, kind.bits) if kind.signed else raw


def clamp(value: int, bits: int, is_signed: bool) -> int:
    """The nearest number that fits."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def parts(raw: int, bits: int, count: int, is_signed: bool) -> list[int]:
    """The numbers packed in `raw`, lowest first."""
    pieces = [raw >> (bits * k) & ((1 << bits) - 1) for k in range(count)]
    return [signed(p, bits) for p in pieces] if is_signed else pieces


def packed(values: list[int], bits: int) -> int:
    return sum(wrap(v, bits) << (bits * k) for k, v in enumerate(values))


def _elementwise(form: Form, raw: tuple[int, ...], function: object) -> int:
    """Apply a function of numbers to whole operands, or to the halves of a ….x2 type."""
    kind = form.type
    halves = kind.name.endswith("x2")
    bits, count = (16, 2) if halves else (kind.bits, 1)
    rows = [parts(r, bits, count, kind.signed) for r in raw]
    results = [function(*column) for column in zip(*rows, strict=True)]  # type: ignore[operator]
    if "sat" in form:
        results = [clamp(r, bits, kind.signed) for r in results]
    return packed(results, bits)


def add(form: Form, a: int, b: int) -> int:
    return _elementwise(form, (a, b), lambda x, y: x + y)


def sub(form: Form, a: int, b: int) -> int:
    return _elementwise(form, (a, b), lambda x, y: x - y)


def absolute(form: Form, a: int) -> int:
    return _elementwise(form, (a,), abs)


def neg(form: Form, a: int) -> int:
    return _elementwise(form, (a,), lambda x: -x)


def minimum(form: Form, a: int, b: int) -> int:
    return _elementwise(form, (a, b), lambda x, y: max(0, min(x, y)) if "relu" in form else min(x, y))


def maximum(form: Form, a: int, b: int) -> int:
    return _elementwise(form, (a, b), lambda x, y: max(0, x, y) if "relu" in form else max(x, y))


def sad(form: Form, a: int, b: int, c: int) -> int:
    return wrap(c + abs(number(a, form.type) - number(b, form.type)), form.type.bits)


def div(form: Form, a: int, b: int) -> int:
    bits, x, y = form.type.bits, number(a, form.type), number(b, form.type)
    if y == 0:
        return wrap(-1, bits)  # measured on an H200, as for rem; PTX leaves it open
    quotient = abs(x) // abs(y)
    return wrap(-quotient if (x < 0) != (y < 0) else quotient, bits)


def rem(form: Form, a: int, b: int) -> int:
    bits, x, y = form.type.bits, number(a, form.type), number(b, form.type)
    if y == 0:
        return wrap(-1, bits)
    remainder = abs(x) % abs(y)
    return wrap(-remainder if x < 0 else remainder, bits)


def _product(form: Form, a: int, b: int) -> int:
    return number(a, form.type) * number(b, form.type)


def mul(form: Form, a: int, b: int) -> int:
    bits, product = form.type.bits, _product(form, a, b)
    if "wide" in form:
        return wrap(product, 2 * bits)
    return wrap(product >> bits if "hi" in form else product, bits)


def mad(form: Form, a: int, b: int, c: int) -> int:
    bits, product = form.type.bits, _product(form, a, b)
    if "wide" in form:
        return wrap(product + c, 2 * bits)
    total = (product >> bits if "hi" in form else product) + number(c, form.type)
    return wrap(clamp(total, bits, True) if "sat" in form else total, bits)


def _product24(form: Form, a: int, b: int) -> int:
    x, y = (signed(v & 0xFFFFFF, 24) if form.type.signed else v & 0xFFFFFF for v in (a, b))
    return x * y >> 16 if "hi" in form else x * y


def mul24(form: Form, a: int, b: int) -> int:
    return wrap(_product24(form, a, b), 32)


def mad24(form: Form, a: int, b: int, c: int) -> int:
    product = wrap(_product24(form, a, b), 32)
    total = number(product, form.type) + number(c, form.type)
    return wrap(clamp(total, 32, True) if "sat" in form else total, 32)


def dp4a(form: Form, a: int, b: int, c: int) -> int:
    x, y = parts(a, 8, 4, form.types[0].signed), parts(b, 8, 4, form.types[1].signed)
    return wrap(c + sum(map(math.prod, zip(x, y, strict=True))), 32)


def dp2a(form: Form, a: int, b: int, c: int) -> int:
    x, y = parts(a, 16, 2, form.types[0].signed), parts(b, 8, 4, form.types[1].signed)
    y = y[2:] if "hi" in form else y[:2]
    return wrap(c + sum(map(math.prod, zip(x, y, strict=True))), 32)


def clmad(form: Form, a: int, b: int, c: int) -> int:
    product = 0
    for k in range(64):
        product ^= a << k if b >> k & 1 else 0
    return wrap(product >> 64 if "hi" in form else product, 64) ^ c


# Carries. Operations with `cc` also return the carry out; a subtraction adds the complement (and 1 unless a carry says otherwise).


def _with_carry(form: Form, total: int) -> int | Bits2:
    low = wrap(total, form.type.bits)
    return (low, int(total != low)) if "cc" in form else low


def add_carry(form: Form, a: int, b: int, carry: int = 0) -> int | Bits2:
    return _with_carry(form, a + b + carry)


def sub_borrow(form: Form, a: int, b: int, carry: int = 1) -> int | Bits2:
    return _with_carry(form, a + wrap(~b, form.type.bits) + carry)


def mad_carry(form: Form, a: int, b: int, c: int, carry: int = 0) -> int | Bits2:
    bits, product = form.type.bits, _product(form, a, b)
    return _with_carry(form, wrap(product >> bits if "hi" in form else product, bits) + c + carry)


# Logic and shifts.


def logic_and(form: Form, a: int, b: int) -> int:
    return a & b


def logic_or(form: Form, a: int, b: int) -> int:
    return a | b


def logic_xor(form: Form, a: int, b: int) -> int:
    return a ^ b


def logic_not(form: Form, a: int) -> int:
    return wrap(~a, form.type.bits)


def cnot(form: Form, a: int) -> int:
    return int(a == 0)


def lop3(form: Form, a: int, b: int, c: int, table: int) -> int:
    return sum((table >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k for k in range(32))


def lop3_predicate(form: Form, a: int, b: int, c: int, table: int, q: int) -> Bits2:
    word = lop3(form, a, b, c, table)
    return word, combine(form, int(word != 0), q)


def combine(form: Form, truth: int, predicate: int | None) -> int:
    """The Boolean operation that a comparison may carry."""
    if predicate is None:
        return truth
    return {"and": truth & predicate, "or": truth | predicate, "xor": truth ^ predicate}[form.one_of("and", "or", "xor")]


def shl(form: Form, a: int, amount: int) -> int:
    return wrap(a << min(amount, 64), form.type.bits)


def shr(form: Form, a: int, amount: int) -> int:
    return wrap(number(a, form.type) >> min(amount, 64), form.type.bits)


def shf(form: Form, a: int, b: int, c: int) -> int:
    amount = min(c, 32) if "clamp" in form else c & 31
    both = b << 32 | a
    return wrap(both << amount >> 32 if "l" in form else both >> amount, 32)


# Bits and fields.


def popc(form: Form, a: int) -> int:
    return a.bit_count()


def clz(form: Form, a: int) -> int:
    return form.type.bits - a.bit_length()


def brev(form: Form, a: int) -> int:
    return int(f"{a:0{form.type.bits}b}"[::-1], 2)


def bfind(form: Form, a: int) -> int:
    value = number(a, form.type)
    position = (~value if value < 0 else value).bit_length() - 1
    if position < 0:
        return 0xFFFFFFFF
    return form.type.bits - 1 - position if "shiftamt" in form else position


def _field(form: Form, position: int, length: int) -> tuple[int, int]:
    """PTX takes eight bits of each; an H200 takes all of them where the word has 64 bits."""
    return (position & 255, length & 255) if form.type.bits == 32 else (position, length)


def bfe(form: Form, a: int, b: int, c: int) -> int:
    top = form.type.bits - 1
    position, length = _field(form, b, c)
    sign = a >> min(position + length - 1, top) & 1 if form.type.signed and length else 0
    bits = [a >> (position + k) & 1 if k < length and position + k <= top else sign for k in range(top + 1)]
    return sum(bit << k for k, bit in enumerate(bits))


def bfi(form: Form, a: int, b: int, c: int, d: int) -> int:
    field = b
    position, length = _field(form, c, d)
    for k in range(min(length, form.type.bits - position)):
        field = field & ~(1 << (position + k)) | (a >> k & 1) << (position + k)
    return field


def bmsk(form: Form, a: int, b: int) -> int:
    if "wrap" in form:
        a, b = a & 31, b & 31
    return sum(1 << k for k in range(32) if a <= k < a + b)


def szext(form: Form, a: int, b: int) -> int:
    length = b & 31 if "wrap" in form else min(b, 32)
    field = wrap(a, length)
    return wrap(signed(field, length), 32) if form.type.signed and length else field


def fns(form: Form, mask: int, base: int, offset: int) -> int:
    """The |offset|-th set bit from `base` on, upwards or downwards, `base` itself included."""
    step = signed(offset, 32)
    if step == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    walk = range(base, 32) if step > 0 else range(base, -1, -1) if base < 32 else range(0)
    found = [k for k in walk if mask >> k & 1]
    return found[abs(step) - 1] if abs(step) <= len(found) else 0xFFFFFFFF


def prmt(form: Form, a: int, b: int, c: int) -> int:
    source = parts(a, 8, 4, False) + parts(b, 8, 4, False)
    n = c & 3
    table = {
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
        "rc8": [n] * 4,
        "ecl": [max(k, n) for k in range(4)],
        "ecr": [min(k, n) for k in range(4)],
        "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
    }
    mode = form.one_of(*table)
    if mode:
        return packed([source[k] for k in table[mode]], 8)
    picks = parts(c, 4, 4, False)
    return packed([(255 if source[p & 7] >> 7 else 0) if p & 8 else source[p & 7] for p in picks], 8)


# Comparison and selection.

_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def compare(form: Form, kind: ScalarType, a: int, b: int) -> bool:
    name = form.one_of("eq", "ne", "lt", "le", "gt", "ge", *_UNSIGNED_NAMES)
    x, y = number(a, kind), number(b, kind)
    outcome = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return outcome[_UNSIGNED_NAMES.get(name, name)]


def setp(form: Form, a: int, b: int, predicate: int | None) -> Bits2:
    truth = compare(form, form.type, a, b)
    return combine(form, int(truth), predicate), combine(form, int(not truth), predicate)


def set_value(form: Form, a: int, b: int, predicate: int | None) -> int:
    target, source = form.types
    true = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}[target.name]
    return true if combine(form, int(compare(form, source, a, b)), predicate) else 0


def selp(form: Form, a: int, b: int, predicate: int) -> int:
    return a if predicate else b


def slct(form: Form, a: int, b: int, c: int) -> int:
    if form.types[1].name == "s32":
        return a if signed(c, 32) >= 0 else b
    exponent, fraction = c >> 23 & 255, c & 0x7FFFFF
    if exponent == 255 and fraction:
        return b
    zero = exponent == 0 and (fraction == 0 or "ftz" in form)
    return a if zero or not c >> 31 else b
