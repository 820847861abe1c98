"""The NumPy reference, against SciPy, exact arithmetic, worked examples and an H200."""

from __future__ import annotations

import json
import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstride.pipeline import reference
from gridstride.pipeline.parameters import WEIGHTS_OF_SIGMA_ONE
from pipeline import cases

MEASURED = json.loads((Path(__file__).parent / "edges_h200.json").read_text())


@pytest.mark.parametrize("bits", cases.DEPTHS)
@pytest.mark.parametrize("channels", cases.CHANNELS)
@pytest.mark.parametrize(("height", "width"), cases.SHAPES)
def test_float32_reference_has_the_bits_of_an_h200(height: int, width: int, channels: int, bits: int) -> None:
    image = cases.image(height, width, channels, bits)
    stages = reference.run(image, np.float32)
    found = {"image": cases.digest(image)} | {stage: cases.digest(getattr(stages, stage)) for stage in cases.STAGES}
    assert found == MEASURED[cases.name(height, width, channels, bits)]


@pytest.mark.parametrize("bits", cases.DEPTHS)
def test_float32_reference_agrees_with_float64(bits: int) -> None:
    image = cases.image(130, 257, 3, bits)
    single, double = reference.run(image, np.float32), reference.run(image, np.float64)
    for stage in cases.STAGES[:4]:
        assert getattr(single, stage).dtype == np.float32 and getattr(double, stage).dtype == np.float64
        assert np.abs(getattr(single, stage) - getattr(double, stage)).max() <= reference.TOLERANCE


def test_weights_sum_to_one() -> None:
    assert sum(map(Decimal, ("0.299", "0.587", "0.114"))) == 1 and sum(map(Decimal, map(str, reference.LUMA))) == 1
    assert sum(map(Decimal, map(str, WEIGHTS_OF_SIGMA_ONE))) == 1


@pytest.mark.parametrize(("pixel", "grey"), [((255, 0, 0), 76.245), ((0, 255, 0), 149.685), ((0, 0, 255), 29.07), ((255, 255, 255), 255.0)])
def test_grey_of_pure_colours(pixel: tuple[int, int, int], grey: float) -> None:
    assert reference.to_grey(np.array([[pixel]], np.uint8), np.float64)[0, 0] == pytest.approx(grey, abs=1e-12)
    wide = np.array([[pixel]], np.uint16) * np.uint16(257)  # the same colour in 16 bits
    assert reference.to_grey(wide, np.float64)[0, 0] == pytest.approx(grey, abs=1e-12)


def test_alpha_is_not_used() -> None:
    image = cases.image(9, 11, 4, 8)
    np.testing.assert_array_equal(reference.to_grey(image), reference.to_grey(image[..., :3]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 3), (17, 33)])
def test_blur_agrees_with_scipy(shape: tuple[int, int]) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    image = np.random.default_rng(3).uniform(0, 255, shape)
    ours = reference.blur_columns(reference.blur_rows(image))
    weights = np.array(WEIGHTS_OF_SIGMA_ONE)
    for axis in (1, 0):
        image = ndimage.correlate1d(image, weights, axis, mode="nearest")
    np.testing.assert_allclose(ours, image, rtol=0, atol=1e-10)


def test_weights_are_a_gaussian_of_sigma_one_averaged_over_each_pixel() -> None:
    def below(x: float) -> float:
        return math.erf(x / math.sqrt(2)) / 2

    averages = [below(tap + 0.5) - below(tap - 0.5) for tap in range(-2, 3)]
    assert [round(average / sum(averages), 5) for average in averages] == list(WEIGHTS_OF_SIGMA_ONE)


def test_blur_is_near_scipys_gaussian() -> None:
    """SciPy samples the Gaussian at the pixels' centres instead; the two can differ by the weights' differences, once for each direction."""
    ndimage = pytest.importorskip("scipy.ndimage")
    image = np.random.default_rng(4).uniform(0, 255, (40, 50))
    theirs = ndimage.gaussian_filter(image, 1, radius=2, mode="nearest")
    sampled = np.exp(-0.5 * np.arange(-2.0, 3.0) ** 2)
    bound = 255 * 2 * np.abs(np.array(WEIGHTS_OF_SIGMA_ONE) - sampled / sampled.sum()).sum()
    assert np.abs(reference.blur_columns(reference.blur_rows(image)) - theirs).max() < bound < 16


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 3), (17, 33)])
def test_sobel_agrees_with_scipy(shape: tuple[int, int]) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    image = np.random.default_rng(5).uniform(0, 255, shape)
    expected = np.hypot(ndimage.sobel(image, 1, mode="nearest"), ndimage.sobel(image, 0, mode="nearest"))
    np.testing.assert_allclose(reference.sobel(image), expected, rtol=0, atol=1e-10)


def test_blur_is_not_the_wrong_one_that_clamps_the_outer_taps_only() -> None:
    """The classic mistake: the inner taps reuse the outer ones' clamped index, one step in. It shows in the columns beside the border."""
    row = np.array([[0.0, 100.0, 0.0, 0.0, 0.0, 0.0]])
    x, last = np.arange(6), 5
    outer_left, outer_right = np.maximum(x - 2, 0), np.minimum(x + 2, last)
    taps = (outer_left, outer_left + 1, x, outer_right - 1, outer_right)
    wrong = sum(weight * row[:, tap] for weight, tap in zip(WEIGHTS_OF_SIGMA_ONE, taps, strict=True))
    right = reference.blur_rows(row)
    # At column 0 the tap one to the left is column 0, not 1: by hand, 0.24477 + 0 of the bright pixel.
    np.testing.assert_allclose(right[0, :2], [24.477, 38.774], atol=1e-12)
    assert abs(wrong[0, 0] - right[0, 0]) > 20 and abs(wrong[0, 1] - right[0, 1]) > 20
    np.testing.assert_allclose(wrong[0, 2:4], right[0, 2:4], atol=1e-12)  # inside they agree


def test_step_of_one_level_by_hand() -> None:
    """A vertical edge from 0 to 1: gx = 1 + 2 + 1 on both sides of it, gy = 0."""
    image = np.tile([0.0, 0.0, 1.0, 1.0], (4, 1))
    np.testing.assert_array_equal(reference.sobel(image), np.tile([0.0, 4.0, 4.0, 0.0], (4, 1)))
    np.testing.assert_array_equal(reference.sobel(image.T), np.tile([0.0, 4.0, 4.0, 0.0], (4, 1)).T)


@given(st.floats(0, 2000, width=32))
def test_eight_bits_round_half_up(value: float) -> None:
    expected = min(int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP)), 255)
    assert reference.to_eight_bits(np.array([[value]], np.float32))[0, 0] == expected


@pytest.mark.parametrize(
    ("value", "level"), [(0.5, 1), (1.5, 2), (2.5, 3), (254.5, 255), (255.0, 255), (1443.0, 255), (np.nextafter(np.float32(0.5), np.float32(0)), 0)]
)
def test_eight_bits_at_the_halves(value: float, level: int) -> None:
    assert reference.to_eight_bits(np.array([[value]], np.float32))[0, 0] == level


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 255), st.sampled_from((1, 3, 4)))
def test_constant_image_has_no_edges(height: int, width: int, level: int, channels: int) -> None:
    stages = reference.run(np.full((height, width, channels), level, np.uint8))
    assert not stages.magnitude.any() and not stages.edges.any()
    assert stages.histogram[0] == height * width == stages.histogram.sum()


@given(*(st.floats(-1e4, 1e4, width=32) for _ in range(3)))
def test_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    """Against exact fractions, also where the sum cancels nearly all of the product."""
    product = np.float32(a) * np.float32(b)
    for addend in (np.float32(c), -product, np.nextafter(-product, np.float32(0))):
        got = reference.multiply_add(np.float32(a), np.array([b], np.float32), np.array([addend], np.float32))[0]
        exact = Fraction(a) * Fraction(b) + Fraction(float(addend))
        assert got == nearest_float32(exact), (a, b, float(addend))


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 nearest to `exact`, the even one of two."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.int32)) & 1))


def test_adding_the_float_below_half_rounds_half_up() -> None:
    """What the kernels do (`rounded` in pixels.cuh), around every half and every whole number of the 16-bit range, and below 1 densely."""
    halves = np.arange(0, 65536 * 2, dtype=np.float32) / np.float32(2)
    near = (halves.view(np.int32)[:, None] + np.arange(-8, 9, dtype=np.int32)).view(np.float32).ravel()
    dense = np.arange(0x3D000000, 0x3F900000, 7, dtype=np.int32).view(np.float32)
    for values in (near[near >= 0], dense):
        kernel = np.floor(values + np.float32(0.49999997)).astype(np.int64)
        np.testing.assert_array_equal(kernel, np.floor(values.astype(np.float64) + 0.5).astype(np.int64))
