"""Integer instructions: every entry of the registry on random bits against its plain meaning, and the meanings
against Python's and NumPy's arithmetic."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridstride.errors import ParseError, UnsupportedError
from gridstride.isa.registry import Operation, lookup, operations
from opcodes.harness import Batch, Bits, Case, array_type, form_case, kind_bits, meaning_of

MODULES = {f"gridstride.isa.{name}" for name in ("bits", "carry", "divide", "integer", "logic", "multiply", "select", "video")}
ENTRIES = [entry for entry in operations() if entry.module in MODULES]
TABLES = (0x80, 0xF8, 0x96, 0x1E, 0xCA, 0x47, 0x2B)


def spellings(entry: Operation) -> Iterator[str]:
    """Opcode texts of an entry in which each of its types and each choice of its modifiers occurs."""
    groups = [[*sorted(group.alternatives), *([""] if group.optional else [])] for group in entry.modifiers]
    choices = [".".join(filter(None, choice)) for choice in itertools.product(*groups)]
    for k in range(max(len(choices), len(entry.types))):
        types = ".".join(t.name for t in entry.types[k % len(entry.types)])
        yield ".".join(filter(None, (entry.opcode, choices[k % len(choices)], types)))


def case_of(text: str, salt: int = 0) -> Case:
    form = lookup(text)
    arguments = form.operation.arguments
    unused = int(arguments[-1] == "pred?" and not form.one_of("and", "or", "xor"))
    immediates = [TABLES[salt % len(TABLES)]] * arguments.count("imm")
    return form_case(text, immediates=immediates, leave_out=unused)


CASES = {entry: [case_of(text, k) for k, text in enumerate(spellings(entry))] for entry in ENTRIES}


@functools.cache
def everything() -> Batch:
    return Batch(itertools.chain(*CASES.values()))


def numbers(bits: int) -> st.SearchStrategy[int]:
    top = (1 << bits) - 1
    edges = [v & top for v in (0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 255, 256, -1, -2, -3, -8, top >> 1, (top >> 1) + 1, (top >> 1) + 2)]
    return st.one_of(st.sampled_from(edges), st.integers(0, top), st.integers(0, min(top, 70)))


@st.composite
def rows(draw: st.DrawFn, case: Case) -> list[Bits]:
    count = 5
    columns = [[draw(numbers(kind_bits(kind))) for _ in range(count)] for _, kind in case.inputs]
    return [np.array(column, array_type(kind)) for column, (_, kind) in zip(columns, case.inputs, strict=True)]


def test_every_entry_has_a_meaning_and_a_test() -> None:
    assert len(ENTRIES) >= 75
    for entry in ENTRIES:
        assert entry.meaning is not None, entry.syntax
        assert entry.lower is not None, entry.syntax
        assert entry.section.startswith("9.7."), entry.syntax
        assert not entry.dirty_nan, entry.syntax
        forms = [lookup(text) for text in spellings(entry)]
        assert {form.operation for form in forms} == {entry}, f"{entry.syntax}: another entry takes some of its forms"
        assert {form.types for form in forms} == set(entry.types)
        for group in entry.modifiers:
            assert group.alternatives <= frozenset().union(*(form.modifiers for form in forms)), entry.syntax


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.opcode}-{ENTRIES.index(entry)}")
def test_lowering_is_meaning(entry: Operation) -> None:
    @settings(max_examples=12, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(st.sampled_from(CASES[entry]))
        arrays = data.draw(rows(case))
        for got, expected in zip(everything().run(case, *arrays), meaning_of(case, *arrays), strict=True):
            assert got.tolist() == expected.tolist(), case.ptx

    check()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.opcode}-{ENTRIES.index(entry)}")
def test_every_form_on_random_bits(entry: Operation) -> None:
    random = np.random.default_rng(20)
    for case in CASES[entry]:
        arrays = []
        for _, kind in case.inputs:
            words = random.integers(0, 1 << 64, 96, dtype=np.uint64)
            words[1::3] %= np.uint64(70)  # shift amounts and lengths that matter
            arrays.append((words & np.uint64((1 << kind_bits(kind)) - 1)).astype(array_type(kind)))
        for got, expected in zip(everything().run(case, *arrays), meaning_of(case, *arrays), strict=True):
            assert (got == expected).all(), case.ptx


# The meanings themselves, against NumPy (whose integers wrap, whose shifts do not clamp) and Python.


def _signed(array: Bits) -> Any:
    return array.view(f"i{array.itemsize}")


NUMPY: dict[str, Callable[..., Any]] = {
    "add.u32": lambda a, b: a + b,
    "sub.s64": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.wide.u32": lambda a, b: a.astype(np.uint64) * b,
    "mul.wide.s16": lambda a, b: _signed(a).astype(np.int32) * _signed(b),
    "mul.hi.s32": lambda a, b: (_signed(a).astype(np.int64) * _signed(b)) >> 32,
    "mul.hi.u16": lambda a, b: (a.astype(np.uint32) * b) >> np.uint32(16),
    "div.u64": lambda a, b: np.where(b == 0, np.uint64(2**64 - 1), a // np.maximum(b, np.uint64(1))),
    "rem.u32": lambda a, b: np.where(b == 0, np.uint32(2**32 - 1), a % np.maximum(b, np.uint32(1))),
    "min.s16": lambda a, b: np.minimum(_signed(a), _signed(b)),
    "max.u64": lambda a, b: np.maximum(a, b),
    "abs.s32": lambda a: np.abs(_signed(a)),
    "neg.s64": lambda a: np.uint64(0) - a,
    "popc.b64": lambda a: np.bitwise_count(a),
    "and.b16": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b64": lambda a, b: a ^ b,
    "not.b32": lambda a: ~a,
    "brev.b32": lambda a: np.packbits(np.unpackbits(a.view(np.uint8), bitorder="little").reshape(-1, 32)[:, ::-1], bitorder="little").view(
        np.uint32
    ),
    "set.lt.u32.s32": lambda a, b: np.where(_signed(a) < _signed(b), np.uint32(2**32 - 1), np.uint32(0)),
    "set.hs.f32.u16": lambda a, b: (a >= b).astype(np.float32).view(np.uint32),
    "add.u16x2": lambda a, b: (a.view(np.uint16) + b.view(np.uint16)).view(np.uint32),
    "max.s16x2": lambda a, b: np.maximum(a.view(np.int16), b.view(np.int16)).view(np.uint32),
    "vabsdiff4.u32.u32.u32.add": lambda a, b, c: (
        np.abs(a.view(np.uint8).astype(np.int32) - b.view(np.uint8)).reshape(-1, 4).sum(axis=1).astype(np.uint32) + c
    ),
    "vavrg4.u32.u32.u32": lambda a, b, c: (
        ((a.view(np.uint8).astype(np.uint16) + b.view(np.uint8) + 1) >> 1).astype(np.uint8).view(np.uint32)
    ),
    "vmin2.s32.s32.s32": lambda a, b, c: np.minimum(a.view(np.int16), b.view(np.int16)).view(np.uint32),
}


@pytest.mark.parametrize("text", NUMPY)
def test_against_numpy(text: str) -> None:
    random = np.random.default_rng(4)
    case = case_of(text)
    arrays = [random.integers(0, 1 << kind_bits(k), 256, dtype=array_type(k), endpoint=False) for _, k in case.inputs]
    for array in arrays:
        array[:40] &= 15  # zeros and equal values occur
    kind = case.outputs[0][1]
    with np.errstate(over="ignore"):
        expected = np.asarray(NUMPY[text](*arrays)).astype(array_type(kind), casting="unsafe")
    assert (Batch([case]).run(case, *arrays)[0] == expected).all()
    assert (meaning_of(case, *arrays)[0] == expected).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), bits=st.sampled_from((16, 32, 64)), kind=st.sampled_from("us"))
def test_quotients_beside_whole_numbers(data: st.DataObject, bits: int, kind: str) -> None:
    """Dividends just below, at and above a multiple: where a rounded quotient would go wrong."""
    top = (1 << (bits - (kind == "s"))) - 1
    divisor = data.draw(st.integers(1, top))
    multiple = divisor * data.draw(st.integers(0, top // divisor))
    dividends = [value for value in (multiple - 1, multiple, multiple + 1, top, top - 1) if 0 <= value <= top]
    pairs = [(a, b) for a in dividends for b in (divisor, max(1, divisor - 1), min(top, divisor + 1))]
    if kind == "s":
        pairs += [(-a, b) for a, b in pairs] + [(-a, -b) for a, b in pairs] + [(-top - 1, divisor), (-top - 1, -divisor)]
    quotients = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    mask = (1 << bits) - 1
    left, right = (np.array([pair[k] & mask for pair in pairs], array_type(f"b{bits}")) for k in (0, 1))
    for text, expected in (("div", quotients), ("rem", [a - b * q for (a, b), q in zip(pairs, quotients, strict=True)])):
        case = next(c for entry, cases in CASES.items() if entry.opcode == text for c in cases if f"{text}.{kind}{bits} " in c.ptx)
        assert everything().run(case, left, right)[0].tolist() == [value & mask for value in expected]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["u64", "s64"])
def test_long_division_of_small_and_of_mixed_numbers(kind: str, small: bool) -> None:
    """Both ways that 64-bit division goes; in the mixed case one large lane is enough."""
    random = np.random.default_rng(11)
    low, high = (-(2**31), 2**31) if kind == "s64" else (0, 2**32)
    a, b = (random.integers(low, high, 64) for _ in range(2))
    b[b == 0] = 1
    a[0], b[0] = low, -1 if kind == "s64" else 1
    if not small:
        a[5] = a[40] = 2**50 + 12345
    expected = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    case = case_of(f"div.{kind}")
    assert _signed(Batch([case]).run(case, a.view(np.uint64), b.view(np.uint64))[0]).tolist() == expected


CONSTANT_DIVISORS = [
    ("s32", 7),
    ("s32", -3),
    ("s32", -1),
    ("u32", 10),
    ("u16", 10),
    ("s64", 1000),
    ("u64", 3),
    ("s16", -1),
    ("u32", 0),
    ("s32", 0),
]


@pytest.mark.parametrize(("kind", "divisor"), CONSTANT_DIVISORS)
def test_division_by_a_constant(kind: str, divisor: int) -> None:
    bits = int(kind[1:])
    words = np.random.default_rng(3).integers(0, 1 << bits, 96, dtype=array_type(kind))
    words[0] = 1 << (bits - 1)
    cases = [Case(f"{text}.{kind} d, a, {divisor};", (("a", kind),), (("d", kind),)) for text in ("div", "rem")]
    native = Batch(cases)
    for case in cases:
        assert native.run(case, words)[0].tolist() == meaning_of(case, words)[0].tolist()


@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 4), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_carries_make_long_numbers(values: list[tuple[int, int, int, int]]) -> None:
    """256-bit sums, differences and products from 64-bit pieces."""
    inputs = (("a", "u64"), ("b", "u64"), ("c", "u64"), ("e", "u64"))
    outputs = (("l", "u64"), ("m", "u64"), ("h", "u64"))
    add = Case("add.cc.u64 l, a, c; addc.cc.u64 m, b, e; addc.u64 h, 0, 0;", inputs, outputs)
    sub = Case("sub.cc.u64 l, a, c; subc.cc.u64 m, b, e; subc.u64 h, 0, 0;", inputs, outputs)
    mad = Case("mad.lo.cc.u64 l, a, b, c; madc.hi.cc.u64 m, a, b, e; addc.u64 h, 0, 0;", inputs, outputs)
    native = _long_numbers(add, sub, mad)
    columns = [np.array(column, np.uint64) for column in zip(*values, strict=True)]

    def whole(case: Case) -> list[int]:
        pieces = [piece.tolist() for piece in native.run(case, *columns)]
        return [low | middle << 64 | high << 128 for low, middle, high in zip(*pieces, strict=True)]

    assert whole(add) == [(a | b << 64) + (c | e << 64) for a, b, c, e in values]
    assert whole(sub) == [((a | b << 64) - (c | e << 64)) % (1 << 192) for a, b, c, e in values]
    assert whole(mad) == [a * b + (c | e << 64) for a, b, c, e in values]


@functools.cache
def _long_numbers(*cases: Case) -> Batch:
    return Batch(cases)


def test_carryless_products() -> None:
    """(x+1)(x+1) = x² + 1, and the product of all ones with itself has a bit at every even place."""
    cases = [case_of("clmad.lo.u64"), case_of("clmad.hi.u64")]
    native = Batch(cases)
    ones = 2**64 - 1
    a, b, c = (np.array(v, np.uint64) for v in ([3, ones, 1 << 63, 5], [3, ones, 2, 7], [0, 0, 1, 1]))
    low, high = (native.run(case, a, b, c)[0].tolist() for case in cases)
    assert low == [5, 0x5555555555555555, 1, 0b11011 ^ 1]
    assert high == [0, 0x5555555555555555, 1 ^ 1, 1]


def test_constant_byte_permutations_are_the_general_ones() -> None:
    random = np.random.default_rng(8)
    a, b = (random.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(2))
    choices = [0x3210, 0x5410, 0x7632, 0x0123, 0x7777, 0x8888, 0xFEDC, 0xB8A1, 0x4000]
    fixed = [Case(f"prmt.b32 d, a, b, {choice};", (("a", "b32"), ("b", "b32")), (("d", "b32"),)) for choice in choices]
    general = case_of("prmt.b32")
    native = Batch([*fixed, general])
    for case, choice in zip(fixed, choices, strict=True):
        expected = native.run(general, a, b, np.full(64, choice, np.uint32))[0]
        assert (native.run(case, a, b)[0] == expected).all()
        assert (meaning_of(case, a, b)[0] == expected).all()


@given(st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_lop3_is_its_table(table: int, a: int, b: int, c: int) -> None:
    """The rule by which PTX says the table is made: the expression applied to 0xF0, 0xCC and 0xAA."""
    case = Case(f"lop3.b32 d, a, b, c, {table};", (("a", "b32"), ("b", "b32"), ("c", "b32")), (("d", "b32"),))
    (got,) = meaning_of(case, *(np.array([v], np.uint32) for v in (a, b, c)))
    expected = 0
    for row in range(8):
        if table >> row & 1:
            expected |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    assert int(got[0]) == expected & 0xFFFFFFFF


def test_all_256_tables_of_lop3() -> None:
    cases = [Case(f"lop3.b32 d, a, b, c, {t};", (("a", "b32"), ("b", "b32"), ("c", "b32")), (("d", "b32"),)) for t in range(256)]
    native = Batch(cases)
    inputs = [np.array([v], np.uint32) for v in (0xF0, 0xCC, 0xAA)]
    assert [int(native.run(case, *inputs)[0][0]) & 255 for case in cases] == list(range(256))


def test_parts_of_words_in_video_instructions() -> None:
    words = (("a", "b32"), ("b", "b32"), ("c", "b32"))
    cases = {
        "vadd.s32.s32.u32 d, a.b3, b.h0, c;": (-0x80 + 0x5678) & 0xFFFFFFFF,
        "vsub.u32.u32.u32 d.b1, a.b3, b.b0, c;": 0xCAFE08BE,
        "vadd.u32.u32.u32.sat d.b0, a.b3, b.b0, c;": 0xCAFEBAF8,
        "vadd.u32.u32.u32.add d, a.b3, b.b0, c;": 0xCAFEBABE + 0x80 + 0x78,
        "vmad.s32.u32.u32.shr7 d, a.b3, b.b0, c;": None,
        "vset.u32.u32.gt d, a.b3, b.b0, c;": 1,
        "vshl.u32.u32.u32.sat.clamp d, a, c;": 0xFFFFFFFF,
        "vshl.s32.s32.u32.sat.clamp d, a, c;": 0x80000000,
        "vshl.u32.u32.u32.clamp d, a, c;": 0,
        "vadd2.u32.u32.u32 d, a.h10, b.h10, c;": None,
        "vadd4.u32.u32.u32 d.b30, a.b3210, b.b4567, c;": None,
    }
    compiled = {text: Case(text, words, (("d", "b32"),)) for text in cases}
    native = Batch(compiled.values())
    arrays = [np.array([v], np.uint32) for v in (0x80000001, 0x12345678, 0xCAFEBABE)]
    for text, expected in cases.items():
        (got,) = native.run(compiled[text], *arrays)
        assert got.tolist() == meaning_of(compiled[text], *arrays)[0].tolist(), text
        if expected is not None:
            assert int(got[0]) == expected, text


def test_video_without_its_third_operand_wrong() -> None:
    case = Case("vadd.u32.u32.u32 d.b1, a, b;", (("a", "b32"), ("b", "b32")), (("d", "b32"),))
    with pytest.raises(ParseError) as caught:
        Batch([case])
    assert str(caught.value) == "`vadd.u32.u32.u32` with a second operation or a part of d needs the operand c"


REFUSED = [
    "setp.lo.s32",
    "setp.lt.b32",
    "shl.s32",
    "and.u32",
    "neg.u32",
    "bmsk.b32",
    "shf.l.b32",
    "mul.s32",
    "vadd4.u32.u32.u32.sat.add",
    "min.relu.s16",
]


@pytest.mark.parametrize("text", REFUSED)
def test_forms_that_ptx_does_not_have_wrong(text: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"instruction form `{text}` is not supported \(PTX ISA 9\.7\.[0-9.]+\)"):
        lookup(text)
