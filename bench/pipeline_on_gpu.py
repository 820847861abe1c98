"""Times of the image pipeline on a GPU, per 3840 x 2160 RGB frame.

    python bench/pipeline_on_gpu.py pipeline-CARD-DATE.json

Device times: each of 24 frames has memory of its own (together more than any L2 cache holds), a graph launches one after the other, and an
event stands on each side. Every frame's edges are compared with the first implementation's, and those of one frame with the NumPy reference,
before anything is timed. The copy bandwidth is measured in the same run: bytes read and written by copies within the device.
Streaming: three slots, pinned memory on both sides, with one stream each for copies in, kernels and copies out, or with a graph of all three
for each slot; against the same copies in alone. What the host needs to ask for a frame is beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gridstride as gs
from gridstride.bench.environment import describe
from gridstride.gallery.measuring import copy_bandwidth
from gridstride.pipeline import EdgePipeline, reference
from gridstride.pipeline.batch import demo_photograph
from gridstride.pipeline.frames import Kind
from gridstride.pipeline.images import read_image

HEIGHT, WIDTH, FRAMES, REPETITIONS, STREAMED = 2160, 3840, 24, 30, 240
IMPLEMENTATIONS = ("fused", "cuda", "cub", "python")


def main(outfile: str) -> None:
    device = gs.device("gpu")
    results: dict[str, Any] = {"card": device.spec.name, "date": time.strftime("%Y-%m-%d"), "environment": describe(), "frame": [HEIGHT, WIDTH, 3]}
    results["copy_tb_per_s"] = copy_bandwidth(device) / 1000
    roof = HEIGHT * WIDTH * 4 / results["copy_tb_per_s"] / 1e6
    results["roof_us"] = roof
    images = {"photograph": photographs(), "noise": np.random.default_rng(0).integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3)).astype(np.uint8)}
    for name, frames in images.items():
        expected: list[np.ndarray] = []
        for impl in IMPLEMENTATIONS:
            times, edges = device_times(device, impl, frames)
            if not expected:
                expected = edges
                assert np.array_equal(edges[0], reference.run(frames[0]).edges), "the edges differ from the reference's"
            assert all(map(np.array_equal, edges, expected)), f"the edges of {impl} differ"
            results.setdefault("device_us", {}).setdefault(name, {})[impl] = spread(times)
            print(name, impl, spread(times), f"{spread(times)['median'] / roof:.2f} times the roof", flush=True)
    results["streaming_us"] = {impl: streaming_times(device, impl, images["photograph"]) for impl in IMPLEMENTATIONS[:2]}
    print(results["streaming_us"])
    Path(outfile).write_text(json.dumps(results, indent=1) + "\n")


def photographs() -> np.ndarray:
    """Frames out of the photograph that comes with the package, mirrored and moved."""
    with demo_photograph() as path:
        photograph = read_image(path)
    wide = np.concatenate([photograph, photograph[:, ::-1]] * 2, axis=1)
    tall = np.concatenate([wide, wide[::-1]] * 2, axis=0)[:HEIGHT]
    return np.stack([np.roll(tall, 97 * k, axis=1)[:, :WIDTH] for k in range(FRAMES)])


def device_times(device: gs.Device, impl: str, images: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Microseconds a frame, of `REPETITIONS` replays of all; and the edges."""
    pipeline = EdgePipeline(device, impl=impl)
    frames = [pipeline.frame(Kind.of(image)) for image in images]
    for frame, image in zip(frames, images, strict=True):
        frame.source.copy_from(image.reshape(frame.source.shape))
    stream = device.stream()
    with stream.capture() as graph:
        for frame in frames:
            frame.launch(stream)
    replay = graph.instantiate()
    for _ in range(3):
        replay.launch(stream)
    stream.synchronize()
    times = []
    for _ in range(REPETITIONS):
        start, stop = device.event(), device.event()
        stream.record(start)
        replay.launch(stream)
        stream.record(stop)
        stop.synchronize()
        times.append(start.elapsed_ms(stop) * 1e3 / len(frames))
    edges = [frame.edges.numpy() for frame in frames]
    for frame in frames:
        frame.free()
    return times, edges


def streaming_times(device: gs.Device, impl: str, images: np.ndarray) -> dict[str, float]:
    """Microseconds a frame from pinned memory to pinned memory, and of the copies in alone: three streams, or a graph for each slot."""
    pipeline = EdgePipeline(device, impl=impl)
    kind = Kind.of(images[0])
    slots = [pipeline.frame(kind) for _ in range(3)]
    sources, outs = [device.pinned(kind.rows, kind.dtype) for _ in slots], [device.pinned((kind.height, kind.width), np.uint8) for _ in slots]
    for source, image in zip(sources, images, strict=False):
        source[:] = image.reshape(source.shape)
    into, work, out = (device.stream() for _ in range(3))
    streams, replays = [device.stream() for _ in slots], []
    for stream, frame, source, edges in zip(streams, slots, sources, outs, strict=True):
        with stream.capture() as graph:
            frame.source.copy_from(source, stream=stream)
            frame.launch(stream)
            frame.edges.copy_to(edges, stream=stream)
        replays.append(graph.instantiate())

    def copies(k: int) -> None:
        slots[k % 3].source.copy_from(sources[k % 3], stream=into)

    emptied: list[gs.Event | None] = [None] * 3

    def three_streams(k: int) -> None:
        frame, previous = slots[k % 3], emptied[k % 3]
        if previous is not None:
            into.wait(previous)
        copies(k)
        work.wait(into.record())
        frame.launch(work)
        out.wait(work.record())
        frame.edges.copy_to(outs[k % 3], stream=out)
        emptied[k % 3] = out.record()

    def graphs(k: int) -> None:
        replays[k % 3].launch(streams[k % 3])

    def microseconds(ask: Callable[[int], None]) -> tuple[float, float]:
        """A frame's time, and what of it the host needs to ask."""
        device.synchronize()
        start = time.perf_counter()
        for k in range(STREAMED):
            ask(k)
        asked = time.perf_counter()
        device.synchronize()
        return (time.perf_counter() - start) * 1e6 / STREAMED, (asked - start) * 1e6 / STREAMED

    microseconds(three_streams)
    times = {ask.__name__: min(microseconds(ask) for _ in range(3)) for ask in (copies, three_streams, graphs)}
    for frame in slots:
        frame.free()
    return {name: value for ask, (whole, host) in times.items() for name, value in ((ask, whole), (f"{ask}: of the host", host))}


def spread(times: list[float]) -> dict[str, float]:
    low, median, high = np.percentile(times, [10, 50, 90])
    return {"p10": float(low), "median": float(median), "p90": float(high)}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
