"""f32 and f64 instructions: every form of the registry against its plain meaning, and the meanings and lowerings
against NumPy, rational arithmetic and the mathematical functions."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridstride.errors import UnsupportedError
from gridstride.isa.reference_float import F32, F64, Format
from gridstride.isa.registry import Operation, lookup, operations
from opcodes.harness import Batch, Bits, Case, array_type, form_case, kind_bits, meaning_of
from opcodes.test_float_truth import FREE_NAN, MODULES

ENTRIES = [entry for entry in operations() if entry.module in MODULES]
ids = [f"{entry.opcode}-{k}" for k, entry in enumerate(ENTRIES)]


def spellings(entry: Operation) -> Iterator[str]:
    """Opcode texts of an entry: each choice of its modifiers, its types in turn. `.xorsign` and `.abs` of min and max
    go together (`.abs` alone is of three operands)."""
    groups = [[*sorted(group.alternatives), *([""] if group.optional else [])] for group in entry.modifiers]
    for k, choice in enumerate(itertools.product(*groups)):
        if "xorsign" in choice and "abs" not in choice:
            continue
        types = ".".join(t.name for t in entry.types[k % len(entry.types)])
        yield ".".join(filter(None, (entry.opcode, *choice, types)))


def case_of(text: str) -> Case:
    form = lookup(text)
    last = form.operation.arguments[-1]
    unused = last == "pred?" and not form.one_of("and", "or", "xor")
    unused |= last == "0?" and not ("abs" in form and "xorsign" not in form)
    return form_case(text, leave_out=int(unused))


CASES = {entry: [case_of(text) for text in spellings(entry)] for entry in ENTRIES}


@functools.cache
def everything() -> Batch:
    return Batch(itertools.chain(*CASES.values()))


def special_bits(fmt: Format) -> list[int]:
    """Notable numbers: zero, the ends of the subnormal and normal ranges, about 1 and 2, infinity, NaN; both signs."""
    one = ((1 << (fmt.bits - 2 - fmt.fraction_bits)) - 1) << fmt.fraction_bits
    unit = 1 << fmt.fraction_bits
    magnitudes = [0, 1, 2, unit - 1, unit, unit + 1, 2 * unit, one - 1, one, one + 1, one + unit, one + unit // 2, one - 126 * unit]
    magnitudes += [
        fmt.infinity - 1,
        fmt.infinity - unit,
        fmt.infinity,
        fmt.infinity + 1,
        fmt.infinity + unit // 2,
        2 * fmt.infinity - 1 - fmt.infinity + unit,
    ]
    return [m % fmt.sign | sign for m in magnitudes for sign in (0, fmt.sign)]


def numbers(kind: str) -> st.SearchStrategy[int]:
    bits = kind_bits(kind)
    anything = st.integers(0, (1 << bits) - 1)
    if kind == "f32x2":
        half = numbers("f32")
        return st.tuples(half, half).map(lambda pair: pair[0] << 32 | pair[1])
    if bits == 1:
        return anything
    fmt = F32 if bits == 32 else F64
    middle = st.floats(-1000, 1000, width=bits).map(lambda x: int(np.array(x, f"f{bits // 8}").view(array_type(kind))))  # type: ignore[call-overload]
    return st.one_of(st.sampled_from(special_bits(fmt)), anything, middle)


@st.composite
def rows(draw: st.DrawFn, case: Case) -> list[Bits]:
    columns = [[draw(numbers(kind)) for _ in range(6)] for _, kind in case.inputs]
    return [np.array(column, array_type(kind)) for column, (_, kind) in zip(columns, case.inputs, strict=True)]


def check(case: Case, arrays: list[Bits]) -> None:
    text = case.ptx.split()[0].replace("mad", "fma")
    if text in FREE_NAN or f"{text[:4]}rn.{text[4:]}" in FREE_NAN:
        nans = sum(np.isnan(a.view(np.float64)).astype(int) for a in arrays)
        arrays = [np.where(nans > 1, np.uint64(0), a) for a in arrays]
    for got, expected in zip(everything().run(case, *arrays), meaning_of(case, *arrays), strict=True):
        wrong = np.flatnonzero(got != expected)
        assert not wrong.size, f"{case.ptx} {[hex(a[wrong[0]]) for a in arrays]}: {got[wrong[0]]:#x}, meaning {expected[wrong[0]]:#x}"


def test_every_entry_has_a_meaning_and_a_test() -> None:
    assert len(ENTRIES) >= 47
    for entry in ENTRIES:
        assert entry.meaning is not None, entry.syntax
        assert entry.lower is not None, entry.syntax
        assert entry.section.startswith("9.7."), entry.syntax
        forms = [lookup(text) for text in spellings(entry)]
        assert {form.operation for form in forms} == {entry}, f"{entry.syntax}: another entry takes some of its forms"
        assert {form.types for form in forms} == set(entry.types)
        for group in entry.modifiers:
            assert group.alternatives <= frozenset().union(*(form.modifiers for form in forms)), entry.syntax
        f32_result = any(form.operand_type(token) == form.type and form.type.name == "f32" for form in forms for token in entry.results)
        assert entry.dirty_nan == (f32_result and entry.opcode not in ("copysign", "set")), entry.syntax


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_lowering_is_meaning(entry: Operation) -> None:
    @settings(max_examples=15, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        case = data.draw(st.sampled_from(CASES[entry]))
        check(case, data.draw(rows(case)))

    run()


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_every_form_on_special_and_random_bits(entry: Operation) -> None:
    random = np.random.default_rng(8)
    for case in CASES[entry]:
        arrays = []
        for _, kind in case.inputs:
            bits = kind_bits(kind)
            words = random.integers(0, 1 << 64, 40, dtype=np.uint64)
            if bits > 1:
                special = np.array(special_bits(F64 if bits == 64 and kind != "f32x2" else F32), np.uint64)
                words[::2] = random.choice(special, 20)
            if kind == "f32x2":
                words |= random.choice(special, 40) << np.uint64(32)
            arrays.append((words & np.uint64((1 << bits) - 1)).astype(array_type(kind)))
        check(case, arrays)


# The meanings themselves.

NEAREST: dict[str, Callable[..., Any]] = {
    "add.f32": np.add,
    "sub.rn.f32": np.subtract,
    "mul.f32": np.multiply,
    "div.rn.f32": np.divide,
    "sqrt.rn.f32": np.sqrt,
    "rcp.rn.f32": np.reciprocal,
    "add.f64": np.add,
    "sub.f64": np.subtract,
    "mul.rn.f64": np.multiply,
    "div.rn.f64": np.divide,
    "sqrt.rn.f64": np.sqrt,
    "rcp.rn.f64": np.reciprocal,
}


@pytest.mark.parametrize("text", NEAREST)
def test_round_to_nearest_against_numpy(text: str) -> None:
    random = np.random.default_rng(3)
    bits = int(text[-2:])
    case = form_case(text)
    arrays = [random.integers(0, 1 << bits, 2000, dtype=np.uint64).astype(array_type(text[-3:])) for _ in case.inputs]
    with np.errstate(all="ignore"):
        expected = NEAREST[text](*(a.view(f"f{bits // 8}") for a in arrays))
    (got,) = meaning_of(case, *arrays)
    numbers_only = ~np.isnan(expected)
    assert np.isnan(got.view(expected.dtype)).tolist() == (~numbers_only).tolist()
    assert (got == expected.view(got.dtype))[numbers_only].all()


def exact(name: str, values: list[Fraction]) -> Fraction:
    match name, values:
        case "add", [x, y]:
            return x + y
        case "sub", [x, y]:
            return x - y
        case "mul", [x, y]:
            return x * y
        case "div", [x, y]:
            return x / y
        case "fma", [x, y, z]:
            return x * y + z
    raise AssertionError(name)


DIRECTED = [
    f"{name}.{mode}.{kind}" for name in ("add", "sub", "mul", "div", "fma") for mode in ("rz", "rm", "rp") for kind in ("f32", "f64")
]


@functools.cache
def directed() -> Batch:
    return Batch(map(form_case, [*DIRECTED, *(f"sqrt.{mode}.{kind}" for mode in ("rz", "rm", "rp") for kind in ("f32", "f64"))]))


@pytest.mark.parametrize("text", DIRECTED)
def test_directed_rounding_brackets_the_exact_value(text: str) -> None:
    """The result is on the right side of the exact value, and its neighbour towards it is not."""
    name, mode, kind = text.split(".")
    fmt, case = (F32 if kind == "f32" else F64), form_case(text)

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        operands = [data.draw(numbers(kind).filter(lambda a: fmt.magnitude(a) < fmt.infinity)) for _ in case.inputs]
        if name == "div" and not fmt.magnitude(operands[1]):
            return
        (got,) = directed().run(case, *(np.array([a], array_type(kind)) for a in operands))
        bits, truth = int(got[0]), exact(name, [fmt.value(a) for a in operands])
        if not truth:
            assert fmt.magnitude(bits) == 0
            return
        assert fmt.negative(bits) == (truth < 0)
        size = fmt.magnitude(bits)
        outward = mode == ("rp" if truth > 0 else "rm")
        below, above = (size - 1, size) if outward else (size, size + 1)
        if outward and size and fmt.value(size) == abs(truth):
            return
        assert below < fmt.infinity
        assert fmt.value(below) < abs(truth) or (not outward and fmt.value(below) == abs(truth))
        assert above >= fmt.infinity or abs(truth) < fmt.value(above)

    run()


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_directed_roots(kind: str) -> None:
    fmt = F32 if kind == "f32" else F64

    @settings(max_examples=60, deadline=None)
    @given(numbers(kind).map(fmt.magnitude).filter(lambda a: 0 < a < fmt.infinity))
    def run(bits: int) -> None:
        operand = np.array([bits], array_type(kind))
        down, up, cut = (int(directed().run(form_case(f"sqrt.{mode}.{kind}"), operand)[0][0]) for mode in ("rm", "rp", "rz"))
        assert cut == down
        assert up - down in (0, 1)
        number = fmt.value(bits)
        assert fmt.value(down) ** 2 <= number <= fmt.value(up) ** 2
        assert (up == down) == (fmt.value(down) ** 2 == number)

    run()


def test_rounding_modes_do_not_leak() -> None:
    """After a directed operation the host still rounds to nearest."""
    third = np.array([0x3FF0000000000000], np.uint64), np.array([0x4008000000000000], np.uint64)
    for mode in ("rz", "rm", "rp"):
        directed().run(form_case(f"div.{mode}.f64"), *third)
        assert 1.0 / ctypes.c_double(3.0).value == float.fromhex("0x1.5555555555555p-2")
        assert np.float32(2.0) / np.float32(3.0) == np.float32(float.fromhex("0x1.555556p-1"))


def relative(bound: float) -> Callable[[float, float], bool]:
    return lambda got, true: abs(got - true) <= bound * abs(true)


def absolute(bound: float) -> Callable[[float, float], bool]:
    return lambda got, true: abs(got - true) <= bound


# What PTX promises: form, operands' range, function, error bound.
BOUNDS: dict[str, tuple[tuple[float, float], Callable[..., float], Callable[[float, float], bool]]] = {
    "rcp.approx.f32": ((1e-30, 1e30), lambda x: 1 / x, relative(2.0**-23)),
    "rsqrt.approx.f32": ((1e-30, 1e30), lambda x: 1 / math.sqrt(x), relative(2.0**-22.4)),
    "sqrt.approx.f32": ((1e-30, 1e30), math.sqrt, relative(2.0**-22.9)),
    "ex2.approx.f32": ((-125.0, 127.0), lambda x: 2.0**x, relative(2.0**-22.0)),
    "lg2.approx.f32": ((0.5, 2.0), math.log2, absolute(2.0**-22)),
    "lg2.approx.ftz.f32": ((2.0, 1e30), math.log2, relative(2.0**-22)),
    "sin.approx.f32": ((-math.pi, math.pi), math.sin, absolute(2.0**-20.5)),
    "cos.approx.f32": ((-math.pi, math.pi), math.cos, absolute(2.0**-20.5)),
    "tanh.approx.f32": ((-20.0, 20.0), math.tanh, relative(2.0**-11)),
    "div.approx.f32": ((1e-15, 1e15), lambda x, y: x / y, relative(2.0**-22)),
    "div.full.f32": ((1e-15, 1e15), lambda x, y: x / y, relative(2.0**-22)),
    "rcp.approx.ftz.f64": ((1e-200, 1e200), lambda x: 1 / x, relative(2.0**-19)),
    "rsqrt.approx.ftz.f64": ((1e-200, 1e200), lambda x: 1 / math.sqrt(x), relative(2.0**-19)),
    "rsqrt.approx.f64": ((1e-200, 1e200), lambda x: 1 / math.sqrt(x), relative(2.0**-51.5)),
}


@pytest.mark.parametrize("text", BOUNDS)
def test_approximations_keep_their_bounds(text: str) -> None:
    (low, high), function, near = BOUNDS[text]
    random = np.random.default_rng(4)
    case = form_case(text)
    real = np.float32 if text.endswith("f32") else np.float64
    if low > 0 and high / low > 10:
        draws = [np.exp(random.uniform(math.log(low), math.log(high), 4000)).astype(real) for _ in case.inputs]
    else:
        draws = [random.uniform(low, high, 4000).astype(real) for _ in case.inputs]
    (got,) = Batch([case]).run(case, *(d.view(array_type(text[-3:])) for d in draws))
    for value, *operands in zip(got.view(real).tolist(), *(d.tolist() for d in draws), strict=True):
        assert near(value, function(*operands)), (text, operands, value)


@pytest.mark.parametrize(
    "text", ["add.f32.f32", "fma.f32", "div.f32", "sqrt.f32", "sin.f32", "tanh.approx.ftz.f32", "setp.f32", "add.ftz.f64", "mul.sat.f64"]
)
def test_forms_that_ptx_does_not_have_wrong(text: str) -> None:
    with pytest.raises(UnsupportedError, match="is not supported"):
        lookup(text)
