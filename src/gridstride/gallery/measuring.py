"""Times of the steps: measured on a GPU, predicted by the model from a simulated launch, and both in one table.

`bench/gallery_on_gpu.py` is the front door; `docs/gallery/h200.json` and `modelled.json` are what it wrote.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

import gridstride as gs
from gridstride.errors import GridstrideError
from gridstride.gallery.comparing import format_size
from gridstride.gallery.model import Ladder, Size, Step
from gridstride.gallery.running import Bench, Workshop

REPETITIONS = 21
LEAST_US = 200.0
"""A measurement takes at least so long: shorter steps are repeated within it."""
COPIED_BYTES = 256 << 20
COPIES = 16

Progress = Callable[[str], object]


def sizes(ladder: Ladder, step: Step) -> list[Size]:
    """What a step is timed at: the large size, and the one that is predicted where it is another."""
    large = step.large or ladder.large
    return [large] if step.large or ladder.modelled in (None, large) else [large, ladder.modelled or large]


def measure(ladders: Iterable[Ladder], workshop: Workshop, progress: Progress = lambda said: None, repetitions: int = REPETITIONS) -> dict[str, Any]:
    """Every step of the ladders on the workshop's device: verified first, then timed by events around replays of a graph of its launches."""
    device = workshop.device
    copy_gbs = copy_bandwidth(device, repetitions)
    steps = []
    for ladder in ladders:
        for step in ladder.steps:
            if step.finds:
                continue
            for size in sizes(ladder, step):
                progress(f"{ladder.name}/{step.name} {format_size(size)}")
                steps.append(_measured(ladder, step, size, workshop, repetitions))
    return {
        "schema": 1,
        "card": device.spec.name,
        "date": datetime.now(UTC).date().isoformat(),
        "how": f"events around a replayed graph of a step's launches, median of {repetitions}; outputs verified against NumPy before",
        "copy_gbs": copy_gbs,
        "peak_tflops": device.spec.fp32_tflops,
        "steps": steps,
    }


def _measured(ladder: Ladder, step: Step, size: Size, workshop: Workshop, repetitions: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"ladder": ladder.name, "step": step.name, "size": list(size)}
    try:
        module = workshop.module(ladder.source_of(step), ladder.defines)
        with Bench(module, ladder.problem_of(step, size), step.launches(size)) as bench:
            bench.launch()
            wrong = bench.difference()
            if wrong is not None:
                return {**entry, "wrong": wrong}
            times = _times(bench, workshop.device, repetitions)
    except GridstrideError as error:
        return {**entry, "wrong": str(error)}
    us = statistics.median(times)
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [us] * 3
    return {
        **entry,
        "us": us,
        "spread": (quartiles[2] - quartiles[0]) / 2 / us if us else 0.0,
        "gbs": ladder.bytes(size) / us / 1e3,
        "tflops": ladder.flops(size) / us / 1e6,
    }


def _times(bench: Bench, device: gs.Device, repetitions: int) -> list[float]:
    """Microseconds of all launches together."""
    stream = device.stream()
    with stream.capture() as graph:
        bench.launch(stream)
    replay = graph.instantiate()

    def timed(times: int) -> float:
        start = stream.record()
        for _ in range(times):
            replay.launch(stream)
        end = stream.record()
        stream.synchronize()
        return 1e3 * start.elapsed_ms(end) / times

    timed(1)
    once = timed(2)
    times = max(1, min(50, round(LEAST_US / once))) if once > 0 else 1
    return [timed(times) for _ in range(repetitions)]


def copy_bandwidth(device: gs.Device, repetitions: int = REPETITIONS) -> float:
    """GB/s that copying within the device's memory reaches, bytes read and bytes written; the median of `repetitions`."""
    source, target = device.array(np.ones(COPIED_BYTES // 4, np.float32)), device.empty(COPIED_BYTES // 4)
    stream, times = device.stream(), []
    for _ in range(repetitions + 1):
        start = stream.record()
        for _ in range(COPIES):  # one alone would be timed with the host's way to it
            target.copy_from(source, stream=stream)
        end = stream.record()
        stream.synchronize()
        times.append(start.elapsed_ms(end) / COPIES)
    for array in (source, target):
        array.free()
    milliseconds = statistics.median(times[1:])
    return 2 * COPIED_BYTES / milliseconds / 1e6


def predict(ladders: Iterable[Ladder], workshop: Workshop, progress: Progress = lambda said: None, most: Mapping[str, Size] | None = None) -> dict[str, Any]:
    """The modelled times of the same steps on a simulated device. most: sizes to take instead, by ladder."""
    steps = []
    for ladder in ladders:
        for step in ladder.steps:
            if step.finds:
                continue
            size = (most or {}).get(ladder.name) or step.large or ladder.modelled or ladder.large
            progress(f"{ladder.name}/{step.name} {format_size(size)}")
            run = workshop.run(ladder, step, size, count=True)
            entry: dict[str, Any] = {"ladder": ladder.name, "step": step.name, "size": list(size)}
            steps.append({**entry, "us": run.modelled_us} if run.wrong is None else {**entry, "wrong": run.wrong})
    return {"schema": 1, "device": workshop.device.name, "steps": steps}


def table(measured: Mapping[str, Any], predicted: Mapping[str, Any], ladders: Sequence[Ladder]) -> str:
    """Predicted and measured times as a page of the documentation."""
    times = {(one["ladder"], one["step"], tuple(one["size"])): one["us"] for one in predicted["steps"] if "us" in one}
    copy, peak = measured["copy_gbs"], measured["peak_tflops"]
    lines = [
        f"# Predicted and measured: {measured['card']}",
        "",
        "Made by `python -m gridstride.gallery docs/gallery` from `h200.json` and `modelled.json`, which `bench/gallery_on_gpu.py` writes; do not edit.",
        "",
        (
            f"Measured {measured['date']}: {measured['how']}. A copy within the card's memory reaches {copy:,.0f} GB/s (bytes read and written), "
            f"its published peak of single precision is {peak:.1f} TFLOP/s. Predicted by the model of `gridstride profile`, of a simulated launch of the same size; "
            "– where a simulation would take too long. Useful: the bytes and FLOPs that the problem needs, whatever the step moves."
        ),
        "",
    ]
    for ladder in ladders:
        rows = [one for one in measured["steps"] if one["ladder"] == ladder.name]
        if not rows:
            continue
        reasons = {step.name: step.claim for step in ladder.steps}
        lines += [f"## [{ladder.title}]({ladder.name}.md)", "", "| step | size | predicted µs | measured µs | useful GB/s | of the copy | TFLOP/s | of the peak | why |"]
        lines += ["|---|---:|---:|---:|---:|---:|---:|---:|---|"]
        for one in rows:
            size = tuple(one["size"])
            cells = [one["step"], format_size(size), _number(times.get((ladder.name, one["step"], size)))]
            if "us" not in one:
                lines.append("| " + " | ".join([*cells, f"wrong: {one['wrong']}", "", "", "", "", ""]) + " |")
                continue
            by_bytes = [f"{one['gbs']:,.0f}", f"{one['gbs'] / copy:.0%}"] if one["gbs"] else ["", ""]
            by_flops = [f"{one['tflops']:.2f}", f"{one['tflops'] / peak:.0%}"] if one["tflops"] else ["", ""]
            lines.append("| " + " | ".join([*cells, _number(one["us"]), *by_bytes, *by_flops, reasons.get(one["step"], "")]) + " |")
        lines.append("")
    return "\n".join(lines)


def _number(us: float | None) -> str:
    if us is None:
        return "–"
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"
