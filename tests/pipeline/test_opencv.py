"""The pipeline beside OpenCV's functions: the same operations in float32, and how far its own Gaussian and its 8-bit ways are from ours."""

from __future__ import annotations

import numpy as np
import pytest

import gridstride as gs
from gridstride.bench.images import opencv_chain
from gridstride.pipeline import EdgePipeline, Parameters, reference
from gridstride.pipeline.parameters import WEIGHTS_OF_SIGMA_ONE
from pipeline import cases

cv2 = pytest.importorskip("cv2")
BORDERS = {"replicate": cv2.BORDER_REPLICATE, "reflect": cv2.BORDER_REFLECT}
SHAPES = ((1, 1), (1, 40), (40, 1), (17, 33), (130, 257))


@pytest.mark.parametrize("impl", ["cuda", "cub"])
@pytest.mark.parametrize("border", BORDERS)
def test_stages_are_those_of_opencv(impl: str, border: str) -> None:
    """With our weights in its separable filter: each stage within the tolerance that is promised against float64."""
    chosen = Parameters(border=border)  # type: ignore[arg-type]
    pipeline = EdgePipeline(gs.device("sim"), chosen, impl)
    weights, kind = np.array(chosen.weights, np.float32), BORDERS[border]
    for shape in SHAPES:
        image = cases.image(*shape, 3, 8)
        result = pipeline.run(image).result
        grey = cv2.cvtColor(image.astype(np.float32), cv2.COLOR_RGB2GRAY)
        rows = cv2.sepFilter2D(grey, -1, weights, np.ones(1, np.float32), borderType=kind)
        blurred = cv2.sepFilter2D(grey, -1, weights, weights, borderType=kind)
        gx, gy = (cv2.Sobel(blurred, cv2.CV_32F, dx, 1 - dx, ksize=3, borderType=kind) for dx in (1, 0))
        for name, theirs in (("grey", grey), ("blurred_rows", rows), ("blurred", blurred), ("magnitude", cv2.magnitude(gx, gy))):
            np.testing.assert_allclose(getattr(result, name), theirs, rtol=0, atol=reference.TOLERANCE, err_msg=f"{name} of {shape}")


def test_grey_is_within_a_rounding_of_opencvs() -> None:
    image = cases.image(130, 257, 3, 8)
    theirs = cv2.cvtColor(image.astype(np.float32), cv2.COLOR_RGB2GRAY)
    assert np.abs(theirs - reference.to_grey(image, np.float64)).max() <= 2.5e-5
    assert np.abs(theirs - reference.to_grey(image)).max() <= 5e-5


def test_opencvs_gaussian_is_sampled_and_ours_averaged() -> None:
    """`GaussianBlur((5, 5), 1)` takes the density at the middle of each pixel; the two differ by their weights, once for each direction."""
    image = cases.image(130, 257, 3, 8)
    theirs = cv2.GaussianBlur(reference.to_grey(image), (5, 5), 1, borderType=cv2.BORDER_REPLICATE)
    sampled = np.exp(-0.5 * np.arange(-2.0, 3.0) ** 2)
    np.testing.assert_allclose(cv2.getGaussianKernel(5, 1).ravel(), sampled / sampled.sum(), atol=1e-7)
    bound = 255 * 2 * np.abs(np.array(WEIGHTS_OF_SIGMA_ONE) - sampled / sampled.sum()).sum()
    assert np.abs(reference.run(image).blurred - theirs).max() < bound < 16


def test_opencvs_8_bit_blur_rounds_on_its_way() -> None:
    """Which is why it is compared in float32: from bytes to bytes a part of the pixels is one off its own float32 blur, and none two."""
    grey = cases.image(130, 257, 1, 8)[..., 0]
    in_bytes, in_floats = (cv2.GaussianBlur(values, (5, 5), 1, borderType=cv2.BORDER_REPLICATE) for values in (grey, grey.astype(np.float32)))
    off = np.abs(in_bytes.astype(int) - reference.to_eight_bits(in_floats))
    assert off.max() == 1 and 0.02 < off.mean() < 0.3


def test_the_chain_of_the_benchmark_makes_edges() -> None:
    image = cases.image(130, 257, 3, 8)
    edges, histogram = opencv_chain(cv2, image)
    ours = reference.run(image).edges
    assert edges.shape == ours.shape and edges.dtype == np.uint8 and histogram.sum() == edges.size
    assert np.abs(edges.astype(int) - ours).mean() < 4
    flat, counted = opencv_chain(cv2, np.full((9, 11, 3), 77, np.uint8))
    assert not flat.any() and counted[0] == 99
