"""A run of `launch`, `check` or `profile` as a page: what came out, what is wrong with both sides and their source, what was counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from gridstride.findings import Finding, Site
from gridstride.machine.occupancy import occupancy
from gridstride.observers.metrics.advice import advise
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.observers.metrics.nsight import COUNTERS
from gridstride.report import findings_text, profile_text
from gridstride.report.html import launch_parts
from gridstride.report.html.number import Mark, Number
from gridstride.report.html.occupancy_svg import occupancy_curve
from gridstride.report.html.page import render
from gridstride.report.html.parts import Cell, ShownAdvice, Table, Word, dimensions
from gridstride.report.html.roofline_svg import roofline
from gridstride.report.model import CaseResult, RunResult
from gridstride.report.roofline_plot import Point
from gridstride.report.source_lines import SourceLines
from gridstride.report.text import duration, first_elements

MOST_DETAILED, MOST_FINDINGS, LINES = 25, 100, 12
"""Launches shown in detail, findings of each, and lines of each: a page has to stay readable."""

_STYLES = {"error": "bad", "warning": "warn", "note": "soft"}


def page(run: RunResult, sources: SourceLines, title: str) -> str:
    """The whole page; title: what was run."""
    cases = [_Case(case, number, sources) for number, case in enumerate(run.cases[:MOST_DETAILED])]
    sections = [("summary", "Summary")] + [(case.anchor, case.result.name) for case in cases if case.has_detail] + [("marks", "Marks")]
    return render(
        "run.html",
        title=title,
        sections=sections if len(sections) < 30 else [sections[0], sections[-1]],
        device=run.device,
        good=run.exit_status == 0,
        verdict=findings_text.verdict(run.cases).plain.splitlines(),
        summary=_summary(run),
        cases=[case for case in cases if case.has_detail],
        left_out=len(run.cases) - len(cases),
        footer="Made by Gridstride. This page is one file and asks for nothing from anywhere.",
    )


def _summary(run: RunResult) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for case in run.cases:
        status = Word(case.failure.code, "bad") if case.failure else Word("ok", "good")
        estimate = Number(case.estimate_us, "estimated", "µs")
        rows.append((case.name, case.kernel, status, duration(case.seconds), estimate, Number(len(case.findings), "exact"), case.failure.message if case.failure else ""))
    headings = ("Launch", "Kernel", "Status", "Time here", "Time on the GPU", "Findings", "What went wrong")
    return Table("t-summary", f"{len(run.cases):,} launch{'' if len(run.cases) == 1 else 'es'} on {run.device}", headings, rows, wide=True)


@dataclass(frozen=True)
class ShownSite:
    """One side of a finding: where, which thread, and the line of source."""

    where: str
    who: str
    line: str


@dataclass(frozen=True)
class ShownFinding:
    style: str
    code: str
    kind: str
    severity: str
    message: str
    what: str
    sides: tuple[ShownSite, ...]
    times: Number
    advice: str


class _Case:
    """What the template asks of one launch."""

    def __init__(self, result: CaseResult, number: int, sources: SourceLines) -> None:
        self.result = result
        self.anchor = f"launch-{number}"
        self._number, self._sources = number, sources

    @property
    def has_detail(self) -> bool:
        return bool(self.result.findings or self.result.metrics is not None or self.result.outputs)

    @property
    def findings(self) -> list[ShownFinding]:
        return [self._finding(found) for found in self.result.findings[:MOST_FINDINGS]]

    @property
    def findings_left_out(self) -> int:
        return max(0, len(self.result.findings) - MOST_FINDINGS)

    def _finding(self, found: Finding) -> ShownFinding:
        sides = [self._side(found.site)] + ([self._side(found.other)] if found.other is not None else [])
        what = findings_text.target(found) if found.buffer is not None or found.address is not None else ""
        return ShownFinding(
            _STYLES[found.severity], found.code, found.kind, found.severity, found.message, what, tuple(sides), Number(found.count, "exact"), found.advice
        )

    def _side(self, site: Site) -> ShownSite:
        if site.line is not None:
            where, number, text = f"{site.file}:{site.line}", site.line, self._sources.line(site.file, site.line)
        elif site.ptx_line is not None:
            where, number, text = f"PTX line {site.ptx_line}", site.ptx_line, self._sources.line(findings_text.PTX, site.ptx_line)
        else:
            where, number, text = "", 0, None
        who = [f"{name} {value}" for name, value in (("block", site.block), ("thread", site.thread)) if value is not None]
        return ShownSite(where, ", ".join(who), f"{number} | {text}" if text else "")

    @property
    def outputs(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (self.result.output_names.get(position, f"p{position}"), f"{values.dtype}[{','.join(map(str, values.shape))}]", first_elements(values))
            for position, values in self.result.outputs.items()
        ]
        return Table(f"t-outputs-{self._number}", f"Outputs of {self.result.name}", ("Output", "Type", "First elements"), rows, wide=True)

    @property
    def metrics(self) -> LaunchMetrics | None:
        return self.result.metrics

    @property
    def shape(self) -> str:
        assert self.metrics is not None
        profile = self.metrics.profile
        return f"grid {dimensions(profile.grid)}, block {dimensions(profile.block)}, {profile.blocks * profile.threads_per_block:,} threads on {self.metrics.spec.name}"

    @property
    def work(self) -> Table:
        assert self.metrics is not None
        return launch_parts.work_table(f"t-work-{self._number}", f"What {self.result.kernel} does, and its place under the roof", [(self.result.kernel, _Estimated(self.metrics))])

    @property
    def plot(self) -> Markup:
        assert self.metrics is not None
        launch = self.metrics
        points = [Point(self.result.kernel, launch.sector_intensity, _Estimated(launch).tflops)] if launch.flops else []
        return roofline(launch.roofline.peak_tflops, launch.roofline.bandwidth_gbs, points)

    @property
    def counters(self) -> Table:
        """Nsight's counters that are not zero."""
        assert self.metrics is not None
        rows: list[tuple[Cell, ...]] = []
        for counter in COUNTERS:
            value = self.result.counters.get(counter.nsight)
            if value:
                rows.append((counter.plain, Number(value, counter.mark_for(self.metrics).value), counter.nsight))
        return Table(f"t-counters-{self._number}", f"Counters of {self.result.name} that are not zero", ("Counter", "Value", "Nsight Compute's name"), rows)

    @property
    def lines(self) -> Table:
        assert self.metrics is not None
        return Table(f"t-lines-{self._number}", "The lines that cost most", ("Line", "Cost", "Sectors a request", "Passes", "Lanes", "Source"), list(self._lines(self.metrics)), wide=True)

    def _lines(self, launch: LaunchMetrics) -> Iterator[tuple[Cell, ...]]:
        counted = launch_parts.counter_mark(launch)
        for line, share in profile_text.costliest(launch, LINES):
            requests = line.load_requests + line.store_requests + line.reduction_requests + line.atomic_requests
            shared = line.shared_loads + line.shared_stores
            yield (
                f"{line.line}" if line.line is not None else f"PTX {line.ptx_lines[0]}",
                Number(100 * share, "estimated", "%", 2),
                Number(line.bytes_moved / 32 / requests if requests else None, counted),
                Number((line.shared_load_wavefronts + line.shared_store_wavefronts) / shared if shared else None, counted),
                Number(line.lanes_per_instruction, "exact"),
                self._sources.line(line.file, line.line) or line.instructions[0].opcode,
            )

    @property
    def advice(self) -> list[ShownAdvice]:
        assert self.metrics is not None
        return launch_parts.shown_advice(advise(self.metrics), self._sources)

    @property
    def occupancy(self) -> Markup:
        """The curve, with the launch in it."""
        launch = self.metrics
        assert launch is not None
        sizes = range(32, launch.spec.architecture.threads_per_block + 1, 32)
        curve = [(size, occupancy(launch.spec, size, launch.profile.registers, launch.shared_bytes).percent) for size in sizes]
        return occupancy_curve(curve, launch.profile.threads_per_block, launch.occupancy_percent)

    @property
    def limits(self) -> Table:
        assert self.metrics is not None
        resident = self.metrics.occupancy
        rows: list[tuple[Cell, ...]] = [
            (profile_text.LIMITERS[name], Number(limit, "exact"), Word("limits", "warn") if name in resident.limiters else "") for name, limit in resident.limits.items()
        ]
        return Table(f"t-limits-{self._number}", "Blocks that a multiprocessor holds at most, by each resource", ("Resource", "Blocks", ""), rows)


@dataclass(frozen=True)
class _Estimated:
    """A launch with the time that is estimated for it, as `work_table` asks."""

    launch: LaunchMetrics

    @property
    def metrics(self) -> LaunchMetrics:
        return self.launch

    @property
    def tflops(self) -> float | None:
        return self.launch.flops / self.launch.kernel_us / 1e6 if self.launch.flops else None

    @property
    def bandwidth_share(self) -> float:
        return self.launch.bytes_needed / (self.launch.kernel_us * self.launch.roofline.bandwidth_gbs * 1e3)

    @property
    def device_mark(self) -> Mark:
        return "estimated"
