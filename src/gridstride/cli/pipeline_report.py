"""`gridstride pipeline --report FILE.html`: the report card of the first image of a run that could be done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from gridstride.bench import environment
from gridstride.errors import UsageError
from gridstride.pipeline import batch, reference
from gridstride.pipeline.batch import Task
from gridstride.pipeline.images import Samples
from gridstride.pipeline.implementations import EdgePipeline
from gridstride.pipeline.inputs import STANDARD
from gridstride.pipeline.measure import FRAMES, Measured, MeasuredStage, measure
from gridstride.pipeline.pictures import small_picture
from gridstride.report import files
from gridstride.report.card import Card, Check, ImageRow, Implementation, Stage, Times
from gridstride.report.html import card as card_page
from gridstride.report.html.parts import Picture

PICTURES_BYTES = 270_000
"""Bytes of all pictures together, a third more in the page: with everything else it stays below half a megabyte."""

_TITLES = {"grey": "grey", "blurred_rows": "blurred along rows", "blurred": "blurred", "magnitude": "magnitude of the gradient, 255 and more white"}


def make_card(tasks: Sequence[Task], pipelines: Sequence[EdgePipeline], entries: Sequence[dict[str, Any]]) -> Card:
    """Measure each implementation on the first image that `entries` (of the JSON result) say was done. Raises `UsageError` where there is none."""
    done = {entry["image"] for entry in entries if entry["status"] in ("ok", "failed", "skipped")}
    chosen = next((task for task in tasks if str(task.source) in done and task.source != STANDARD and not task.is_video), None)
    if chosen is None:
        raise UsageError("--report measures an image file, and none could be done")
    image, _ = batch.decode(chosen, pipelines[0].parameters)
    measured = [measure(pipeline, image) for pipeline in pipelines]
    samples = measured[0].samples
    return Card(
        image=chosen.source.name,
        layout=batch.layout_of(image),
        height=samples.shape[0],
        width=samples.shape[1],
        whole=samples.shape[:2] == image.shape[:2],
        implementations=tuple(map(_implementation, measured)),
        pictures=_pictures(chosen.source.name, samples, measured[0]),
        environment={**environment.describe(), "processors": str(os.cpu_count()), "device": str(pipelines[0].device)},
        images=[_row(entry) for entry in entries],
    )


def write(card: Card, path: Path) -> None:
    """The page, whole or not at all. Raises `UsageError` where it cannot be written."""
    page = card_page.page(card).encode()
    files.write(path, lambda file: file.write(page))


def _implementation(found: Measured) -> Implementation:
    launches = [] if found.counts is None else list(found.counts.launches)
    counted = len(launches) == len(found.stages)
    return Implementation(
        name=found.pipeline.impl,
        device=str(found.pipeline.device),
        checks=tuple(Check(c.stage, c.max_error, c.tolerance, c.differing, c.passed) for c in found.checks),
        stages=tuple(_stage(stage, launches[k] if counted else None) for k, stage in enumerate(found.stages)),
        counted_on=found.counted_on if counted else "",
        timeline=None if found.recording is None else found.recording.timeline,
        frames=FRAMES,
    )


def _stage(stage: MeasuredStage, launch: Any) -> Stage:
    device = None
    if stage.device_us:
        device = Times(stage.device_us, "measured")
    elif launch is not None:
        device = Times((launch.kernel_us,), "estimated")
    return Stage(stage.run.stage, stage.run.kernel, stage.run.grid, stage.run.block, Times(stage.host_seconds, "measured"), device, launch)


def _pictures(name: str, samples: Samples, found: Measured) -> tuple[Picture, ...]:
    """The image, the stages in between, and the edges; where an implementation keeps no stages, as NumPy makes them."""
    kept = found.result.floats
    by = f"as `{found.pipeline.impl}` made it" if kept else "as NumPy makes it, for it is not kept"
    floats = kept or {stage: getattr(reference.run(samples, parameters=found.pipeline.parameters), stage) for stage in _TITLES}
    shown: list[tuple[npt.NDArray[Any], str, str]] = [(samples, f"{name}, the image itself", "The image")]
    shown += [(floats[stage], f"{name} {title}", f"{title.capitalize()}, {by}") for stage, title in _TITLES.items() if stage in floats]
    shown.append((found.result.edges, f"{name}: its edges, white on black", "Edges"))
    if found.result.output is not found.result.edges:
        shown.append((found.result.output, f"{name}: the output that was chosen", f"Output: {found.pipeline.parameters.output.replace('_', ' ')}"))
    small = [(small_picture(values, PICTURES_BYTES // len(shown)), alt, caption) for values, alt, caption in shown]
    return tuple(Picture(one.data, "jpeg", one.width, one.height, alt, caption) for one, alt, caption in small)


def _row(entry: dict[str, Any]) -> ImageRow:
    size = f"{entry['width']:,} × {entry['height']:,}" if "width" in entry else ""
    note = entry["error"]["message"] if entry["error"] else str(entry["output"])
    return ImageRow(Path(entry["image"]).name, size, entry["status"], note)
