"""Conversions against Python's and NumPy's own, and against fractions rounded by the textbook."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridstride.isa import halfmath
from opcodes.exact_rounding import WHOLE, awkward, floats, rounded
from opcodes.half_cases import sampled_case
from opcodes.harness import Batch, Bits

seeds = st.integers(0, 2**32 - 1)
_INTEGERS = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "su"]
_MODES = ("rn", "rz", "rm", "rp")
_EVERY_HALF = np.arange(65536, dtype=np.uint16)


@functools.cache
def _batch(texts: tuple[str, ...]) -> Batch:
    return Batch([sampled_case(text) for text in texts])


def _run_of(texts: tuple[str, ...]) -> Callable[..., Bits]:
    return lambda text, *arrays: _batch(texts).run(sampled_case(text), *arrays)[0]


def _numpy(name: str) -> np.dtype:
    return np.dtype(f"{'int' if name[0] == 's' else 'uint'}{name[1:]}")


def _unsigned(array: np.ndarray) -> Bits:
    return array.view(f"uint{array.dtype.itemsize * 8}")


def _integers(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Of all magnitudes: as many of each number of bits; and the bounds."""
    dtype = _numpy(name)
    values = rng.integers(0, 2**64, count, dtype=np.uint64) >> rng.integers(0, 64, count).astype(np.uint64)
    values = np.where(rng.integers(0, 2, count) == 1, values, (0 - values.astype(np.int64)).view(np.uint64))
    result = values.astype(dtype)
    result[:5] = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, np.iinfo(dtype).max - 1]
    return result


_INTEGER_FORMS = tuple(f"cvt.{sat}{target}.{source}" for target in _INTEGERS for source in _INTEGERS for sat in ("", "sat."))


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_integers_are_truncated_or_saturated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for text in _INTEGER_FORMS:
        target, source = text.split(".")[-2:]
        values = _integers(source, rng, 100)
        got = _run_of(_INTEGER_FORMS)(text, _unsigned(values)).view(_numpy(target))
        if ".sat" in text:
            info = np.iinfo(_numpy(target))
            assert got.tolist() == [min(max(v, int(info.min)), int(info.max)) for v in values.tolist()], text
        else:
            assert np.array_equal(got, values.astype(_numpy(target))), text


_TO_FLOAT = tuple(f"cvt.{mode}.{target}.{source}" for target in ("f16", "bf16", "f32", "f64") for source in _INTEGERS for mode in _MODES)


@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_integers_become_the_float_that_the_mode_asks_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for text in _TO_FLOAT:
        _, mode, target, source = text.split(".")
        values = _integers(source, rng, 60)
        got = floats(_run_of(_TO_FLOAT)(text, _unsigned(values)), target)
        assert got.tolist() == [rounded(Fraction(v), target, mode) for v in values.tolist()], text


_WHOLE_MODES = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
_TO_INTEGER = tuple(
    f"cvt.{mode}.{target}.{source}" for source in ("f16", "bf16", "f32", "f64") for target in _INTEGERS for mode in _WHOLE_MODES
)


def _numbers_near_integers(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    whole = np.ldexp(1.0, rng.integers(0, 66, count)) * rng.choice([-1.0, 1.0], count) + rng.integers(-3, 4, count)
    values = whole + rng.choice([0.0, 0.5, 0.25, -0.5, 0.75], count)
    values[:4] = [np.inf, -np.inf, 0.0, 1e-40]
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
        if name == "bf16":
            return (_unsigned(single) >> 16).astype(np.uint16)
        return _unsigned(values.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[name]))


@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_floats_become_the_integer_that_the_mode_asks_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for text in _TO_INTEGER:
        _, mode, target, source = text.split(".")
        bits = _numbers_near_integers(source, rng, 60)
        got = _run_of(_TO_INTEGER)(text, bits).view(_numpy(target)).tolist()
        info = np.iinfo(_numpy(target))
        for value, result in zip(floats(bits, source).tolist(), got, strict=True):
            exact = value if math.isinf(value) else _WHOLE_MODES[mode](value)
            assert result == min(max(exact, int(info.min)), int(info.max)), (text, value)


_NARROWING = tuple(
    f"cvt.{mode}.{target}.{source}"
    for target, source in (("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64"))
    for mode in _MODES
)


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_floats_are_narrowed_in_one_rounding(native: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = _narrowing_batch(native)
    for text in _NARROWING:
        _, mode, target, source = text.split(".")
        bits = awkward(source, target, rng, 80)
        got = floats(batch.run(sampled_case(text), bits)[0], target).tolist()
        assert got == [rounded(Fraction(v), target, mode) for v in floats(bits, source).tolist()], text


@functools.cache
def _narrowing_batch(native: bool) -> Batch:
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(halfmath, "converts_half", lambda: False)
        return Batch([sampled_case(text) for text in _NARROWING])


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_every_half_rounds_to_a_whole_number_of_its_sign(mode: str) -> None:
    for kind in ("f16", "bf16"):
        text = f"cvt.{mode}.{kind}.{kind}"
        got = floats(_run_of((text,))(text, _EVERY_HALF), kind)
        values = floats(_EVERY_HALF, kind)
        with np.errstate(invalid="ignore"):
            wanted = {"rni": np.round, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](values)
        assert np.array_equal(got, wanted, equal_nan=True)
        number = ~np.isnan(values)
        assert np.array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


def _byte_values(name: str) -> list[float]:
    """What the 128 non-negative codes mean (OCP 8-bit floating point); NaN is None in the order of numbers."""
    mantissa, bias = (3, 7) if name == "e4m3" else (2, 15)
    values = []
    for code in range(128):
        exponent, fraction = code >> mantissa, code & ((1 << mantissa) - 1)
        significand = fraction / (1 << mantissa) + (exponent > 0)
        values.append(math.ldexp(significand, max(exponent, 1) - bias))
    if name == "e4m3":
        values[127] = math.nan
    else:
        values[124:] = [math.inf, math.nan, math.nan, math.nan]
    return values


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_every_byte_decodes_to_its_number(name: str) -> None:
    text = f"cvt.rn.f16x2.{name}x2"
    codes = np.arange(65536, dtype=np.uint16)
    pairs = _run_of((text,))(text, codes)
    table = _byte_values(name)
    table = np.array(table + [-v for v in table])
    assert np.array_equal(floats((pairs & 0xFFFF).astype(np.uint16), "f16"), table[codes & 0xFF], equal_nan=True)
    assert np.array_equal(floats((pairs >> 16).astype(np.uint16), "f16"), table[codes >> 8], equal_nan=True)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_every_half_encodes_to_the_nearest_byte(name: str) -> None:
    """Ties go to the even code; what is too large becomes the largest number."""
    text = f"cvt.rn.satfinite.{name}x2.f16x2"
    got = _run_of((text,))(text, _EVERY_HALF.astype(np.uint32)) & 0xFF
    finite = np.array([v for v in _byte_values(name) if math.isfinite(v)])
    values = floats(_EVERY_HALF, "f16")
    number = ~np.isnan(values)
    magnitude = np.minimum(np.abs(values[number]), finite[-1])
    above = np.searchsorted(finite, magnitude)
    below = np.maximum(above - 1, 0)
    to_above, to_below = finite[above] - magnitude, magnitude - finite[below]
    nearest = np.where((to_above < to_below) | ((to_above == to_below) & (above % 2 == 0)), above, below)
    assert np.array_equal(got[number], nearest | np.signbit(values[number]) << 7)
    assert (got[~number] == 0x7F).all()


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_tf32_keeps_eleven_bits(seed: int) -> None:
    bits = awkward("f32", "f32", np.random.default_rng(seed), 500)
    texts = ("cvt.rna.tf32.f32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32")
    half_away = {"rna": lambda q: math.floor(abs(q) + Fraction(1, 2)) * (1 if q > 0 else -1), **WHOLE}
    values = floats(bits, "f32")
    inner = (np.abs(values) > 1e-30) & (np.abs(values) < 1e38)
    for text in texts:
        got = floats(_run_of(texts)(text, bits), "f32")
        for value, result in zip(values[inner].tolist(), got[inner].tolist(), strict=True):
            unit = Fraction(2) ** (math.frexp(value)[1] - 11)
            assert result == half_away[text.split(".")[1]](Fraction(value) / unit) * unit


def test_pack_puts_the_second_operand_lowest() -> None:
    texts = ("cvt.pack.sat.u8.s32.b32", "cvt.pack.sat.s16.s32", "cvt.pack.sat.u4.s32.b32", "cvt.pack.sat.s2.s32.b32")
    run = _run_of(texts)
    one, two, rest = (np.array([v & 0xFFFFFFFF], np.uint32) for v in (300, -5, 0xABCD1234))
    assert run(texts[0], one, two, rest).tolist() == [0x1234FF00]
    assert run(texts[1], one, two).tolist() == [0x012CFFFB]
    assert run(texts[2], one, two, rest).tolist() == [0xCD1234F0]
    assert run(texts[3], one, two, rest).tolist() == [0xBCD12346]
