"""Tables about counted launches, for every page that has some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Protocol

from gridstride.observers.metrics.advice import Advice
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.report.html.number import Mark, Number
from gridstride.report.html.parts import Cell, ShownAdvice, Table, Word
from gridstride.report.profile_text import LIMITERS
from gridstride.report.source_lines import SourceLines


class Timed(Protocol):
    """A launch with its time on the device."""

    @property
    def metrics(self) -> LaunchMetrics | None: ...
    @property
    def tflops(self) -> float | None: ...
    @property
    def bandwidth_share(self) -> float | None: ...
    @property
    def device_mark(self) -> Mark: ...


def work_table(name: str, caption: str, launches: Sequence[tuple[str, Timed]]) -> Table:
    """Bytes, FLOPs, intensity, and where that is under the roof."""
    headings = ("Kernel", "Bytes in sectors", "Bytes needed", "FLOPs", "FLOP/byte", "Bound by", "Roof there", "Reached", "Of the bandwidth", "Verdict")
    rows: list[tuple[Cell, ...]] = []
    for called, timed in launches:
        launch = timed.metrics
        if launch is None:
            continue
        floating = bool(launch.flops)
        moved = counter_mark(launch)
        roof = launch.roofline
        share = timed.bandwidth_share
        rows.append(
            (
                called,
                Number(launch.bytes_moved, moved, "B"),
                Number(launch.bytes_needed, "modelled", "B"),
                Number(launch.flops, "modelled" if launch.floating.expanded else "exact"),
                Number(launch.sector_intensity if floating else None, moved),
                Word({"memory": "memory", "compute": "arithmetic", "neither": "nothing"}[roof.bound] if floating else "memory", "soft"),
                Number(roof.attainable_tflops if floating else None, "exact", "TFLOP/s"),
                Number(timed.tflops, timed.device_mark, "TFLOP/s"),
                Number(None if share is None else 100 * share, timed.device_mark, "%"),
                _verdict(share, timed.tflops, roof.attainable_tflops if floating else None, roof.bound),
            )
        )
    return Table(name, caption, headings, rows)


NEAR, HALFWAY = 0.75, 0.4
"""Shares of what the device can do from which a kernel is near to it, and halfway."""


def _verdict(share: float | None, tflops: float | None, attainable: float | None, bound: str) -> Word:
    """How far a kernel is from what limits it: the bandwidth, for the bytes that it needs, or the peak."""
    reached = share if bound != "compute" else None if tflops is None or attainable is None else tflops / attainable
    if reached is None:
        return Word("unknown", "soft")
    limit = "peak" if bound == "compute" else "bandwidth"
    if reached >= NEAR:
        return Word(f"near the {limit}", "good")
    return Word(f"halfway to the {limit}", "warn") if reached >= HALFWAY else Word(f"far from the {limit}", "bad")


def counters_table(name: str, caption: str, launches: Sequence[tuple[str, LaunchMetrics]]) -> Table:
    """What the memory, the lanes and the multiprocessors did."""
    headings = (
        *("Kernel", "Load requests", "Sectors a load", "Store requests", "Sectors a store", "Bank conflicts", "Warp instructions (PTX)", "Lanes an instruction"),
        *("Divergent branches", "Occupancy", "Limited by", "Registers", "Shared memory"),
    )
    rows: list[tuple[Cell, ...]] = []
    for called, launch in launches:
        counted = counter_mark(launch)
        rows.append(
            (
                called,
                Number(launch.load_requests, counted),
                Number(launch.sectors_per_load, counted),
                Number(launch.store_requests, counted),
                Number(launch.sectors_per_store, counted),
                Number(launch.bank_conflicts, counted),
                Number(launch.warp_instructions, "exact"),
                Number(launch.lanes_per_instruction, "exact"),
                Number(launch.divergent_branches, "modelled"),
                Number(launch.occupancy_percent, "exact", "%"),
                LIMITERS[launch.occupancy.limiter],
                Number(launch.profile.registers, "exact"),
                Number(launch.shared_bytes, "exact", "B"),
            )
        )
    return Table(name, caption, headings, rows)


def counter_mark(launch: LaunchMetrics) -> Mark:
    """Counts of accesses are the hardware's unless the machine compiler changed some of them."""
    return "modelled" if launch.changed_lines else "exact"


def shown_advice(given: Sequence[Advice], sources: SourceLines | None) -> list[ShownAdvice]:
    """Pieces of advice, with their source lines where `sources` have them. Of those that say the same of several lines, one with all the places."""
    alike: dict[Advice, list[Advice]] = {}
    for advice in given:
        alike.setdefault(replace(advice, line=None, ptx_line=None, weight=0.0), []).append(advice)
    return [_shown(same, sources) for same in alike.values()]


def _shown(same: Sequence[Advice], sources: SourceLines | None) -> ShownAdvice:
    advice = same[0]
    lines = [] if sources is None else [(one.line, sources.line(one.file, one.line)) for one in same]
    return ShownAdvice(
        code=advice.code,
        name=advice.name,
        where=", ".join(filter(None, map(_place, same))),
        message=advice.message,
        source="\n".join(f"{number} | {text}" for number, text in lines if text),
        metric=advice.metric.replace("_", " "),
        now=Number(advice.now, "modelled"),
        then=Number(advice.then, "modelled"),
        at_best=advice.at_best,
        how=advice.how,
    )


def _place(advice: Advice) -> str:
    if advice.line is not None:
        return f"{PurePath(advice.file or '').name}:{advice.line}"
    return "" if advice.ptx_line is None else f"PTX line {advice.ptx_line}"
