"""The report card as a page."""

from __future__ import annotations

from collections.abc import Iterator

from gridstride.observers.metrics.advice import advise
from gridstride.report.card import Card, Implementation, Stage, Times
from gridstride.report.html import launch_parts
from gridstride.report.html.number import Mark, Number
from gridstride.report.html.page import render
from gridstride.report.html.parts import Cell, ShownAdvice, Table, Word, dimensions, passed
from gridstride.report.html.roofline_svg import roofline
from gridstride.report.html.timeline_svg import timeline
from gridstride.report.roofline_plot import Point, mark
from gridstride.report.timeline_text import summary

_MOST_IMAGES = 200
"""Images that are listed: a page has to stay small."""


def page(card: Card) -> str:
    """The whole page."""
    measured = [_Shown(one, number) for number, one in enumerate(card.implementations)]
    sections = [("verified", "Verified"), ("time", "Time"), ("work", "Work and roofline"), ("counters", "Counters"), ("advice", "Advice"), ("pictures", "Stages")]
    sections += [("timeline", "Timeline")] if any(one.implementation.timeline for one in measured) else []
    sections += [("images", "Images")] if len(card.images) > 1 else []
    sections += [("environment", "Environment"), ("marks", "Marks")]
    return render(
        "card.html",
        title=f"Report card: {card.image}",
        sections=sections,
        card=card,
        shown=measured,
        verdict=_verdict(card),
        images=_images(card),
        environment=Table("t-environment", "Where it was measured", ("What", "Value"), list(card.environment.items()), wide=True),
        footer=f"Made by Gridstride {card.environment.get('gridstride', '')}. This page is one file and asks for nothing from anywhere.",
    )


def _verdict(card: Card) -> str:
    if not card.passed:
        wrong = [f"{check.stage} of {one.name}" for one in card.implementations for check in one.checks if not check.passed]
        return f"{', '.join(wrong)} differ from the reference, so nothing of that implementation was timed."
    count = sum(len(one.checks) for one in card.implementations)
    checks = "The check" if count == 1 else f"All {count} checks"
    verified = f"{checks} against NumPy {'holds' if count == 1 else 'hold'}."
    timed = [(one, one.device_us) for one in card.implementations if one.device_us is not None]
    if not timed:
        return verified
    quickest, times = min(timed, key=lambda one: one[1].median)
    how = "as measured by events" if times.mark == "measured" else f"as estimated for {_gpu(quickest.counted_on)}"
    named = quickest.name if len(card.implementations) == 1 else f"The quickest implementation, {quickest.name},"
    return f"{verified} {named} takes {Number(times.median, times.mark, 'µs').text} of kernels a frame, {how}."


def _gpu(device: str) -> str:
    """H200 for sim:h200."""
    return device.removeprefix("sim:").upper()


class _Shown:
    """One implementation's tables and pictures. Names of captions carry its number."""

    def __init__(self, implementation: Implementation, number: int) -> None:
        self.implementation = implementation
        self._number = number
        self._counted = [stage for stage in implementation.stages if stage.metrics is not None]

    @property
    def checks(self) -> Table:
        one = self.implementation
        rows: list[tuple[Cell, ...]] = [
            (c.stage, Number(c.error, "measured"), "exact" if c.tolerance == 0 else Number(c.tolerance, "exact"), Number(c.differing, "measured"), passed(c.passed))
            for c in one.checks
        ]
        headings = ("Stage", "Largest error", "Allowed", "Values unlike float32", "Verdict")
        return Table(f"t-verified-{self._number}", f"{one.name} on {one.device} against NumPy, on the scale of 0 to 255", headings, rows)

    @property
    def times(self) -> Table:
        one = self.implementation
        rows: list[tuple[Cell, ...]] = [
            (stage.stage, stage.kernel, dimensions(stage.grid), dimensions(stage.block), *_spread(stage.host, 1e3, "ms"), *_spread(stage.device, 1.0, "µs"))
            for stage in one.stages
        ]
        if len(one.stages) > 1:
            rows.append((Word("all stages", "soft"), "", "", "", *_spread(one.host, 1e3, "ms"), *_spread(one.device_us, 1.0, "µs")))
        runs = len(one.stages[0].host.values) if one.stages else 0
        device = one.stages[0].device if one.stages else None
        kernel = "kernel"
        if device is not None:
            kernel = f"kernel on {one.device}" if device.mark == "measured" else f"kernel on {_gpu(one.counted_on)}"
        headings = ("Stage", "Kernel", "Grid", "Block", "Host: median", "P10", "P90", f"{kernel}: median", "P10", "P90")
        return Table(f"t-time-{self._number}", f"{one.name}: time of each launch over {runs} runs after warming up", headings, rows)

    @property
    def work(self) -> Table:
        return launch_parts.work_table(f"t-work-{self._number}", f"{self.implementation.name}: what each kernel does, and its place under the roof", list(self._points()))

    def _points(self) -> Iterator[tuple[str, Stage]]:
        floating = 0
        for stage in self._counted:
            assert stage.metrics is not None
            letter = ""
            if stage.metrics.flops and stage.metrics.bytes_moved:
                letter = f" ({mark(floating)})"
                floating += 1
            yield f"{stage.stage}{letter}", stage

    @property
    def plot(self) -> object:
        """The roofline; None without counts."""
        if not self._counted:
            return None
        first = self._counted[0].metrics
        assert first is not None
        points = [Point(stage.stage, stage.metrics.sector_intensity, stage.tflops) for stage in self._counted if stage.metrics is not None and stage.metrics.flops]
        return roofline(first.roofline.peak_tflops, first.roofline.bandwidth_gbs, points)

    @property
    def counters(self) -> Table:
        name = f"{self.implementation.name}: counters of one frame, for {self.implementation.counted_on}"
        return launch_parts.counters_table(f"t-counters-{self._number}", name, [(stage.stage, stage.metrics) for stage in self._counted if stage.metrics is not None])

    @property
    def advice(self) -> list[tuple[str, list[ShownAdvice]]]:
        """By stage, those that have some."""
        given = []
        for stage in self._counted:
            assert stage.metrics is not None
            found = launch_parts.shown_advice(advise(stage.metrics), None)
            if found:
                given.append((stage.stage, found))
        return given

    @property
    def counted(self) -> bool:
        return bool(self._counted)

    @property
    def lanes(self) -> object:
        return None if self.implementation.timeline is None else timeline(self.implementation.timeline)

    @property
    def lanes_caption(self) -> str:
        shown = self.implementation.timeline
        assert shown is not None
        how = "measured by events" if shown.measured else f"estimated for {_gpu(shown.device)}"
        return f"{self.implementation.name}: {self.implementation.frames} frames streamed from pinned memory in three streams, {how}"

    @property
    def lanes_summary(self) -> list[str]:
        assert self.implementation.timeline is not None
        return summary(self.implementation.timeline).splitlines()

    @property
    def lanes_totals(self) -> Table:
        shown = self.implementation.timeline
        assert shown is not None
        how: Mark = "measured" if shown.measured else "estimated"
        parts = (("from first to last", shown.total_us), ("a copy runs", shown.copy_us), ("a kernel runs", shown.kernel_us), ("both run at once", shown.overlap_us))
        rows: list[tuple[Cell, ...]] = [(name, Number(value, how, "µs")) for name, value in parts]
        return Table(f"t-timeline-{self._number}", f"{self.implementation.name}: time in the streams", ("What", "Time"), rows)


def _spread(times: Times | None, scale: float, unit: str) -> tuple[Cell, Cell, Cell]:
    if times is None:
        return "—", "—", "—"
    if times.mark == "estimated":
        return Number(times.median * scale, times.mark, unit), "—", "—"
    return Number(times.median * scale, times.mark, unit), Number(times.p10 * scale, times.mark, unit), Number(times.p90 * scale, times.mark, unit)


def _images(card: Card) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (row.name, row.size, Word(row.status, "good" if row.status in ("ok", "skipped") else "bad"), row.note) for row in card.images[:_MOST_IMAGES]
    ]
    more = len(card.images) - len(rows)
    caption = f"All {len(card.images):,} images of the run" + (f", the first {len(rows)}" if more > 0 else "")
    return Table("t-images", caption, ("Image", "Size", "Status", "Output, or what went wrong"), rows, wide=True)
