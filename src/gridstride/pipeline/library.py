"""The implementation `library`, on a GPU only: the same stages as calls of CuPy's functions, and the histogram by `cuda.compute` where that is there.

It is what one would write without kernels of one's own. Libraries add in an order of their own, so its stages agree with the reference within
`reference.TOLERANCE` and not in every bit; `verify` and `differences` know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gridstride as gs
from gridstride.errors import UnsupportedError
from gridstride.pipeline.images import Samples
from gridstride.pipeline.parameters import Parameters
from gridstride.pipeline.reference import LUMA
from gridstride.pipeline.results import BINS, LIBRARY, STAGES, EdgeResult, PipelineRun, StageRun

_MODES = {"replicate": "nearest", "reflect": "reflect", "constant": "constant"}
_SOBEL_ACROSS = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))


@dataclass(frozen=True)
class Libraries:
    """arrays: CuPy, or NumPy; filters: `scipy.ndimage` or CuPy's; to_host: an array as NumPy's; wait: until all that was asked for is done;
    count: the histogram of 8-bit values."""

    arrays: Any
    filters: Any
    to_host: Callable[[Any], Any]
    wait: Callable[[], object]
    count: Callable[[Any], Any]


def libraries(device: gs.Device) -> Libraries:
    """CuPy on a device that is a GPU. Raises `UnsupportedError`, saying what is missing, elsewhere."""
    if device.name.startswith("sim"):
        raise UnsupportedError(f"the implementation `{LIBRARY}` is CuPy on a GPU, and {device} is the simulator: name another, or --device gpu where there is one")
    try:
        import cupy
        from cupyx.scipy import ndimage
    except ImportError:
        raise UnsupportedError(f"the implementation `{LIBRARY}` needs CuPy, which is not installed: pip install cupy-cuda13x") from None
    index = int(device.name.partition(":")[2] or 0)
    cupy.cuda.Device(index).use()
    return Libraries(cupy, ndimage, cupy.asnumpy, cupy.cuda.Device(index).synchronize, _counting(cupy))


def _counting(cupy: Any) -> Callable[[Any], Any]:
    """`cuda.compute`'s histogram where it is installed, else CuPy's."""
    try:
        from cuda import compute
    except ImportError:
        return lambda edges: cupy.bincount(edges.ravel(), minlength=BINS)

    def count(edges: Any) -> Any:
        histogram = cupy.zeros(BINS, np.int32)
        compute.histogram_even(
            d_samples=edges.ravel(),
            d_histogram=histogram,
            num_output_levels=BINS + 1,
            lower_level=np.float32(0),
            upper_level=np.float32(BINS),
            num_samples=edges.size,
        )
        return histogram

    return count


def run(samples: Samples, parameters: Parameters, use: Libraries) -> PipelineRun:
    """All stages of one image from the host's memory and back, each timed by itself."""
    on_device = use.arrays.asarray(samples)
    use.wait()
    runs: list[StageRun] = []

    def timed(stage: str, called: str, action: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = action()
        use.wait()
        runs.append(StageRun(stage, called, (1, 1), (1, 1), time.perf_counter() - start))
        return made

    stages = chain(on_device, parameters, use, timed)
    host = {name: use.to_host(array) for name, array in stages.items()}
    floats = {name: host[name] for name in ("grey", "blurred_rows", "blurred", "magnitude")}
    output = host["edges"] if parameters.plain else host["output"]
    return PipelineRun(EdgeResult(host["edges"], host["histogram"].astype(np.uint32), output, floats, LIBRARY), tuple(runs))


def chain(image: Any, parameters: Parameters, use: Libraries, timed: Callable[[str, str, Callable[[], Any]], Any] | None = None) -> dict[str, Any]:
    """The stages of an image that lies where `use.arrays` has its arrays. timed: told of each stage, and to call it."""
    step = timed or (lambda stage, called, action: action())
    grey = step(STAGES[0], "matmul", lambda: _grey(image, use.arrays))
    mode, value = _MODES[parameters.border], parameters.border_value
    weights = use.arrays.asarray(np.array(parameters.weights, np.float32))

    def blur(values: Any, axis: int) -> Any:
        return use.filters.correlate1d(values, weights, axis=axis, mode=mode, cval=value)

    rows = step(STAGES[1], "correlate1d", lambda: blur(grey, 1))
    blurred = step(STAGES[2], "correlate1d", lambda: blur(rows, 0))
    across = use.arrays.asarray(np.array(_SOBEL_ACROSS, np.float32))

    def sobel() -> Any:
        gx, gy = (use.filters.correlate(blurred, kernel, mode=mode, cval=value) for kernel in (across, across.T))
        return use.arrays.hypot(gx, gy)

    magnitude = step(STAGES[3], "correlate, hypot", sobel)
    stages = {"grey": grey, "blurred_rows": rows, "blurred": blurred, "magnitude": magnitude}

    def edges_and_histogram() -> tuple[Any, Any]:
        edges = _in_depth(magnitude, 8, use.arrays)
        return edges, use.count(edges)

    stages["edges"], stages["histogram"] = step(STAGES[4], "floor, histogram", edges_and_histogram)
    if not parameters.plain:
        chosen = magnitude >= np.float32(parameters.threshold) if parameters.output == "thresholded" else stages[parameters.output]
        scaled = chosen.astype(np.float32) * np.float32(255) if parameters.output == "thresholded" else chosen
        stages["output"] = step("output", "floor", lambda: _in_depth(scaled, parameters.depth, use.arrays))
    return stages


def _grey(image: Any, arrays: Any) -> Any:
    if image.ndim == 2 or image.shape[2] == 1:
        grey = image.reshape(image.shape[:2]).astype(np.float32)
    else:
        grey = image[..., :3].astype(np.float32) @ arrays.asarray(np.array(LUMA, np.float32))
    return grey / np.float32(257) if image.dtype == np.uint16 else grey


def _in_depth(values: Any, depth: Any, arrays: Any) -> Any:
    """Rounded half up, but for what adding the half itself rounds."""
    if depth == "float":
        return values
    scale, most, kind = (1, 255, np.uint8) if depth == 8 else (257, 65535, np.uint16)
    return arrays.minimum(arrays.floor(values * np.float32(scale) + np.float32(0.5)), np.float32(most)).astype(kind)
