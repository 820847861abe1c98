"""Half-precision arithmetic against NumPy and against fractions rounded by the textbook."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridstride.isa import halfmath
from opcodes.exact_rounding import awkward, floats, rounded
from opcodes.half_cases import sampled_case
from opcodes.harness import Batch, Bits

seeds = st.integers(0, 2**32 - 1)
_EVERY_HALF = np.arange(65536, dtype=np.uint16)


@functools.cache
def _batch(*texts: str) -> Batch:
    return Batch([sampled_case(text) for text in texts])


def _run(text: str, *arrays: Bits) -> Bits:
    return _batch(text).run(sampled_case(text), *arrays)[0]


@pytest.mark.parametrize(("opcode", "function"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_f16_arithmetic_is_numpy_s(opcode: str, function: np.ufunc, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 65536, 2048, dtype=np.uint16) for _ in range(2))
    with np.errstate(all="ignore"):
        wanted = function(a.view(np.float16), b.view(np.float16)).view(np.uint16)
    wanted = np.where(np.isnan(wanted.view(np.float16)), 0x7FFF, wanted)
    assert np.array_equal(_run(f"{opcode}.f16", a, b), wanted)
    pairs = [(x[::2].astype(np.uint32) | x[1::2].astype(np.uint32) << 16) for x in (a, b, wanted)]
    assert np.array_equal(_run(f"{opcode}.rn.f16x2", *pairs[:2]), pairs[2])


def _as_fraction(value: float) -> Fraction:
    return Fraction(float(value))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_fma_rounds_the_exact_result_once(kind: str, seed: int) -> None:
    """The third operand is put near the middle between two results, or far below the product, where rounding
    twice goes wrong."""
    rng = np.random.default_rng(seed)
    count = 300
    a, b = awkward(kind, kind, rng, count), awkward(kind, kind, rng, count)
    c = awkward(kind, kind, rng, count)
    shift = 10 if kind == "f16" else 7
    if kind == "bf16":  # a moderate product with an addend of any size below
        a = (a & 0x807F) | ((rng.integers(100, 150, count) << shift).astype(np.uint16))
    else:
        a = (a & 0x83FF) | ((rng.integers(8, 22, count) << shift).astype(np.uint16))
    b = (b & ((1 << 15) | (1 << shift) - 1)) | (((0x7F if kind == "bf16" else 15) + rng.integers(-5, 5, count)) << shift).astype(np.uint16)
    got = floats(_run(f"fma.rn.{kind}", a, b, c), kind)
    for x, y, z, result in zip(floats(a, kind), floats(b, kind), floats(c, kind), got, strict=True):
        if np.isfinite([x, y, z]).all():
            assert result == rounded(_as_fraction(x) * _as_fraction(y) + _as_fraction(z), kind, "rn"), (x, y, z)


def test_fma_bf16_sees_an_addend_far_below_the_middle() -> None:
    """1.0625 ** 2 lies in the middle of 1.125 and 1.1328125."""
    factor = np.array([0x3F88] * 3, np.uint16)
    tiny = np.array([0x0001, 0x8001, 0x0000], np.uint16)
    assert floats(_run("fma.rn.bf16", factor, factor, tiny), "bf16").tolist() == [1.1328125, 1.125, 1.125]


def test_fma_f16_sees_an_addend_far_below_the_middle() -> None:
    """3 * 683 / 2048 lies in the middle of 1 and 1 + 2**-10, and needs one bit more than float32 has with the addend."""
    three, third = np.array([0x4200] * 3, np.uint16), np.array([0x3556] * 3, np.uint16)
    tiny = np.array([0x0001, 0x8001, 0x0000], np.uint16)
    assert floats(third, "f16")[0] == 683 / 2048
    assert floats(_run("fma.rn.f16", three, third, tiny), "f16").tolist() == [1 + 2**-10, 1.0, 1.0]


@pytest.mark.parametrize("opcode", ["add", "sub", "mul"])
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_bf16_arithmetic_rounds_the_exact_result_once(opcode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = awkward("bf16", "bf16", rng, 300), awkward("bf16", "bf16", rng, 300)
    got = floats(_run(f"{opcode}.rn.bf16", a, b), "bf16")
    for x, y, result in zip(floats(a, "bf16"), floats(b, "bf16"), got, strict=True):
        p, q = _as_fraction(x), _as_fraction(y)
        assert result == rounded({"add": p + q, "sub": p - q, "mul": p * q}[opcode], "bf16", "rn"), (x, y)


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_every_half_widens_and_narrows_exactly(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(halfmath, "converts_half", lambda: False)
    case, back = sampled_case("cvt.f32.f16"), sampled_case("cvt.rn.f16.f32")
    batch = Batch([case, back])
    (wide,) = batch.run(case, _EVERY_HALF)
    number = ~np.isnan(_EVERY_HALF.view(np.float16))
    assert np.array_equal(wide.view(np.float32)[number], _EVERY_HALF.view(np.float16)[number].astype(np.float32))
    assert (wide[~number] == 0x7FFFFFFF).all()
    assert np.array_equal(batch.run(back, wide)[0][number], _EVERY_HALF[number])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_minimum_and_maximum_order_all_halves(kind: str) -> None:
    rng = np.random.default_rng(3)
    a = _EVERY_HALF
    b = rng.permutation(a)
    x, y = floats(a, kind), floats(b, kind)
    for opcode, function in (("min", np.fmin), ("max", np.fmax)):
        got = _run(f"{opcode}.{kind}", a, b)
        both = np.isnan(x) & np.isnan(y)
        assert np.array_equal(floats(got, kind)[~both], function(x, y)[~both])
        assert (got[both] == 0x7FFF).all()
        strict = _run(f"{opcode}.NaN.{kind}", a, b)
        either = np.isnan(x) | np.isnan(y)
        assert (strict[either] == 0x7FFF).all() and np.array_equal(strict[~either], got[~either])
    zeros, other = np.array([0x0000, 0x8000], np.uint16), np.array([0x8000, 0x0000], np.uint16)
    assert _run(f"min.{kind}", zeros, other).tolist() == [0x8000, 0x8000]
    assert _run(f"max.{kind}", zeros, other).tolist() == [0, 0]


# PTX ISA 9.7.4.9 and 9.7.4.10: largest relative error of ex2, largest absolute error of tanh.
@pytest.mark.parametrize(
    ("text", "kind", "bound"),
    [
        ("ex2.approx.f16", "f16", 2**-9.9),
        ("ex2.approx.ftz.bf16", "bf16", 2.0**-7),
        ("tanh.approx.f16", "f16", 2**-10.987),
        ("tanh.approx.bf16", "bf16", 2.0**-8 * 1.0001),  # an H200 is above 2**-8 by 2.6e-7 where tanh is nearly 1
    ],
)
def test_approximations_keep_the_documented_error_for_every_half(text: str, kind: str, bound: float) -> None:
    x = floats(_EVERY_HALF, kind)
    result = _run(text, _EVERY_HALF)
    got = floats(result, kind)
    number = ~np.isnan(x)
    assert (result[~number] == 0x7FFF).all()
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.exp2(x[number]) if text[0] == "e" else np.tanh(x[number])
        error = np.abs(got[number] - exact)
    if text[0] == "t":
        assert error.max() <= bound
        assert np.array_equal(np.signbit(got[number]), np.signbit(x[number]))
        return
    least, largest = {"f16": (2.0**-14, 65504.0), "bf16": (2.0**-126, 3.3895313892515355e38)}[kind]
    normal = (exact >= least) & (exact <= largest)
    assert (error[normal] <= bound * exact[normal]).all()
    below = exact < least
    spacing = 2.0**-24 if kind == "f16" else least  # subnormal results, or flushed ones
    assert (error[below] <= spacing).all()
    beyond = exact > largest * 1.01
    assert np.isinf(got[number][beyond]).all()


def test_pair_of_predicates_belongs_to_the_halves() -> None:
    case = sampled_case("setp.lt.f16x2")
    low, high = Batch([case]).run(case, np.array([0x3C004000], np.uint32), np.array([0x40003C00], np.uint32))
    assert (low.tolist(), high.tolist()) == ([0], [1])
