"""`library` on a GPU: verified with every choice, beside the other implementations, on arrays that stay there; and its time per frame.

usage: python bench/library_on_gpu.py [OUT.json]

Needs a GPU, CuPy and Gridstride with its extra `image`; `cuda.compute` (cuda-cccl) is used where it is installed. Exit status 1 where anything is wrong.
Device time is between events of CuPy's stream, over frames of 3840 x 2160 in turn that together are larger than the cache.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np

import gridstride as gs
from gridstride.bench import environment
from gridstride.pipeline import EdgePipeline, Parameters, differences, edges, library, reference
from gridstride.pipeline.verify import verify

CHOICES: list[dict[str, Any]] = [
    {},
    {"sigma": 2.0, "border": "reflect", "output": "blurred", "depth": "float"},
    {"sigma": 3.3, "border": "constant", "border_value": 99.5, "output": "magnitude", "depth": 16},
    {"output": "thresholded", "threshold": 61.25},
    {"radius": 0, "output": "grey", "depth": 8},
]
SHAPES = ((1, 1), (1, 300), (300, 1), (17, 33), (515, 1027))
FRAME, FRAMES, ROUNDS = (2160, 3840, 3), 6, 20


def images() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    made = [random.integers(0, 256, (*shape, channels)).astype(np.uint8) for shape in SHAPES for channels in (1, 3, 4)]
    made += [random.integers(0, 65536, (*shape, 3)).astype(np.uint16) for shape in SHAPES]
    return [*made, np.full((40, 70, 3), 77, np.uint8)]


def wrong_results(device: gs.Device) -> list[str]:
    found = []
    for choice in CHOICES:
        chosen = Parameters(**choice)
        ours, theirs = (EdgePipeline(device, chosen, impl) for impl in ("cuda", "library"))
        for image in images():
            result = theirs.run(image).result
            what = f"{choice} of {image.shape} {image.dtype}"
            found += [f"{what}: {check.stage}, {check.max_error} over {check.tolerance}" for check in verify(image, result, chosen) if not check.passed]
            found += [f"{what}: {difference}" for difference in differences(ours.run(image).result, result)]
    return found


def wrong_arrays() -> list[str]:
    """CuPy's arrays through our kernels and back, in its memory all the time."""
    found = []
    for impl in ("cuda", "fused", "cub"):
        for image in images():
            made = edges(cupy.asarray(image), impl=impl)
            expected = reference.run(image)
            there = cupy.asarray(made.edges), cupy.from_dlpack(made.histogram)
            if not all(np.array_equal(cupy.asnumpy(got), want) for got, want in zip(there, (expected.edges, expected.histogram), strict=True)):
                found.append(f"`{impl}` of CuPy's {image.shape} {image.dtype}")
    return found


def microseconds(device: gs.Device) -> list[float]:
    """Device time of one frame, for each round over all frames."""
    use = library.libraries(device)
    random = np.random.default_rng(2)
    frames = [cupy.asarray(random.integers(0, 256, FRAME).astype(np.uint8)) for _ in range(FRAMES)]
    for frame in frames:
        library.chain(frame, Parameters(), use)
    found = []
    for _ in range(ROUNDS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for frame in frames:
            library.chain(frame, Parameters(), use)
        stop.record()
        stop.synchronize()
        found.append(cupy.cuda.get_elapsed_time(start, stop) * 1e3 / FRAMES)
    return found


def main(out: str | None = None) -> int:
    device = gs.device("gpu")
    wrong = [*wrong_results(device), *wrong_arrays()]
    times = microseconds(device)
    told = {
        "environment": environment.describe() | {"device": device.spec.name, "cupy": cupy.__version__},
        "cuda_compute": importlib.util.find_spec("cuda.compute") is not None,
        "wrong": wrong,
        "images": len(images()) * len(CHOICES),
        "microseconds_a_frame": {"median": float(np.median(times)), "p10": float(np.percentile(times, 10)), "p90": float(np.percentile(times, 90)), "all": times},
    }
    text = json.dumps(told, indent=1)
    print(text)
    if out is not None:
        Path(out).write_text(text + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
