"""The image pipeline on the simulator against OpenCV: the same frame, one core, processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.bench import environment
from gridstride.bench.report import facts_table, goal_table, sample_as_json
from gridstride.bench.results import Goal, Options
from gridstride.bench.stats import Sample
from gridstride.errors import UnsupportedError

OPENCV, COUNTED = "OpenCV, float32, one thread", "fused, with counters"
BOUND = 4.0
_HEIGHT, _WIDTH = 2160, 3840
_QUICK = 4
"""By what a quick run divides each side."""

Image = npt.NDArray[np.uint8]


@dataclass
class ImageResults:
    """Processor seconds of one frame, by what made it. error: what was wrong with it, which then is not timed."""

    environment: dict[str, str]
    options: Options
    height: int
    width: int
    seconds: dict[str, Sample] = field(default_factory=dict)
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def ratio(self) -> float:
        """How many times as long as OpenCV the simulator takes with counters: least against least, since whatever else a machine does only adds."""
        return self.seconds[COUNTED].best / self.seconds[OPENCV].best

    def goals(self) -> list[Goal]:
        """The bound with what this run measured."""
        if self.failed:
            return []
        text = f"`fused` with counters: at most {BOUND:g} times OpenCV's float32 chain with one thread, on a frame of {self.width} × {self.height}"
        return [Goal(text, f"{self.ratio:.2f}", None if self.options.quick else self.ratio <= BOUND)]


def run(options: Options, progress: Callable[[str], None] = lambda _: None) -> ImageResults:
    """Measure OpenCV's chain and `fused` plain and with counters, a round of each in turn. Raises UnsupportedError where OpenCV is missing."""
    import gridstride as gs
    from gridstride.pipeline import EdgePipeline, reference
    from gridstride.pipeline.frames import Kind

    cv2 = _opencv()
    divide = _QUICK if options.quick else 1
    image = _frame(_HEIGHT // divide, _WIDTH // divide)
    height, width = image.shape[:2]
    facts = environment.describe() | {"opencv": cv2.__version__}
    results = ImageResults(facts, options, height, width)
    with environment.one_core():
        progress("compiling")
        device = gs.device("sim", threads=1)
        frame = EdgePipeline(device, impl="fused").frame(Kind.of(image))
        frame.source.copy_from(image.reshape(frame.source.shape))
        stream = device.default_stream

        def simulated(session: Callable[[], AbstractContextManager[object]]) -> float:
            with session():
                begin = time.process_time()
                frame.launch(stream)
                device.synchronize()
                return time.process_time() - begin

        def native() -> float:
            begin = time.process_time()
            opencv_chain(cv2, image)
            return time.process_time() - begin

        ways: dict[str, Callable[[], float]] = {
            OPENCV: native,
            "fused": lambda: simulated(nullcontext),
            COUNTED: lambda: simulated(gs.profiling),
        }
        progress("verifying")
        for way in ways.values():
            way()  # makes native code, or reads it from the cache
        expected = reference.run(image)
        theirs, counted = opencv_chain(cv2, image)
        if not np.array_equal(frame.edges.numpy(), expected.edges) or not np.array_equal(frame.histogram.numpy(), expected.histogram):
            results.error = "the edges of fused are not those of the reference"
        elif counted.sum() != height * width or np.mean(np.abs(theirs.astype(int) - expected.edges)) > 2:
            results.error = "OpenCV's edges are not those of the same chain"
        else:
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for number in range(options.rounds):
                progress(f"round {number + 1} of {options.rounds}")
                for name, way in ways.items():
                    seconds[name].append(way())
            results.seconds = {name: Sample.of(found) for name, found in seconds.items()}
        frame.free()
    results.environment["load after"] = environment.load()
    return results


def opencv_chain(cv2: Any, image: Image) -> tuple[Image, npt.NDArray[Any]]:
    """Edges and histogram as OpenCV's user would make them, in float32: `cvtColor`, `GaussianBlur`, `Sobel` twice, `magnitude`."""
    border = cv2.BORDER_REPLICATE
    grey = cv2.cvtColor(image.astype(np.float32), cv2.COLOR_RGB2GRAY)
    blurred = cv2.GaussianBlur(grey, (5, 5), 1, borderType=border)
    across = cv2.Sobel(blurred, cv2.CV_32F, 1, 0, ksize=3, borderType=border)
    down = cv2.Sobel(blurred, cv2.CV_32F, 0, 1, ksize=3, borderType=border)
    edges = cv2.convertScaleAbs(cv2.magnitude(across, down))
    return edges, cv2.calcHist([edges], [0], None, [256], [0, 256]).ravel()


def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        raise UnsupportedError("the pipeline is measured against OpenCV, which is not installed: pip install opencv-python-headless") from None
    cv2.setNumThreads(1)
    return cv2


def _frame(height: int, width: int) -> Image:
    """The photograph that comes with the package, mirrored until it is large enough."""
    from gridstride.pipeline import batch, images

    with batch.demo_photograph() as path:
        photograph = images.read_image(path)[:height, :width]
    down, across = height - photograph.shape[0], width - photograph.shape[1]
    return np.ascontiguousarray(np.pad(photograph, ((0, down), (0, across), (0, 0)), mode="symmetric"), np.uint8)


def render(results: ImageResults) -> RenderableType:
    """Tables of environment, times and the goal."""
    parts: list[RenderableType] = [facts_table(results.environment)]
    parts.append(Text(f"\nProcessor time of one frame of {results.width} × {results.height}, one core; copies to and from the device not included.\n"))
    if results.error:
        parts.append(Text(results.error, style="red"))
        return Group(*parts)
    table = Table(title="the image pipeline against OpenCV", title_justify="left")
    table.add_column("by")
    for column in ("least", "median", "spread", "Mpixel/s", "times OpenCV"):
        table.add_column(column, justify="right")
    for name, sample in results.seconds.items():
        rate = results.height * results.width / sample.best / 1e6
        times = sample.best / results.seconds[OPENCV].best
        table.add_row(name, f"{sample.best * 1e3:,.1f} ms", f"{sample.median * 1e3:,.1f} ms", f"{sample.spread:.0%}", f"{rate:,.1f}", f"{times:.2f}")
    parts += [table, goal_table(results.goals())]
    return Group(*parts)


def as_json(results: ImageResults) -> dict[str, Any]:
    """All measurements, plain enough for `json.dump`. Times in seconds."""
    return {
        "schema": 1,
        "environment": results.environment,
        "options": asdict(results.options),
        "height": results.height,
        "width": results.width,
        "seconds": {name: sample_as_json(sample) for name, sample in results.seconds.items()},
        "error": results.error,
        "goals": [asdict(goal) for goal in results.goals()],
    }
