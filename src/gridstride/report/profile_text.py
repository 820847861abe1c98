"""A profiled launch for a terminal: the counters in short, the roofline, the lines that cost most with their source, and advice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePath

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gridstride.observers.metrics.advice import Advice, advise
from gridstride.observers.metrics.derived import SECTOR_BYTES, LineMetrics, Metrics, ratio
from gridstride.observers.metrics.launch_metrics import LaunchMetrics
from gridstride.report.bars import bar
from gridstride.report.source_lines import SourceLines

LINES_SHOWN = 8
_MODELLED, _ESTIMATED = "~", "≈"
LIMITERS = {"registers": "registers", "shared": "shared memory", "warps": "warps (the block's size)", "blocks": "the number of blocks"}


def profile(launch: LaunchMetrics, sources: SourceLines, *, lines: int = LINES_SHOWN) -> RenderableType:
    """Everything about one launch; the `lines` costliest lines."""
    profiled = launch.profile
    head = (
        f"{profiled.kernel} on {profiled.device} ({launch.spec.name}): grid {_dim(profiled.grid)}, block {_dim(profiled.block)}, "
        f"{profiled.blocks * profiled.threads_per_block:,} threads"
    )
    parts: list[RenderableType] = [Text(head, style="bold"), _counters(launch), Text(), _roofline(launch)]
    worst = costliest(launch, lines)
    if worst:
        parts += [Text(), Text("The lines that cost most", style="bold"), _lines(worst, launch, sources)]
    found = advise(launch)
    parts += [Text(), Text("Advice" if found else "No advice: nothing stands out.", style="bold"), *(_advice(advice, sources) for advice in found)]
    parts += [Text(), Text(_legend(launch), style="dim")]
    return Group(*parts)


# ---- counters --------------------------------------------------------------------------------------------------


def _counters(launch: LaunchMetrics) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    for name, value in _rows(launch):
        table.add_row(Text(name), Text(value))
    return table


def _rows(launch: LaunchMetrics) -> Iterator[tuple[str, str]]:
    yield "time", f"{_ESTIMATED} {launch.estimate_us:.3g} µs, {launch.estimate.bound} the most of it ({launch.estimate.statement})"
    for access, requests, sectors, asked in (
        ("loads", launch.load_requests, launch.load_sectors, launch.load_bytes_asked),
        ("stores", launch.store_requests, launch.store_sectors, launch.store_bytes_asked),
    ):
        if requests:
            used = f"{100 * ratio(asked, SECTOR_BYTES * sectors):.3g} % of the bytes used"
            yield f"global {access}", f"{requests:,} requests, {sectors:,} sectors: {sectors / requests:.3g} each, {used}"
    for access, requests, sectors in (
        ("reductions", launch.reduction_requests, launch.reduction_sectors),
        ("atomics", launch.atomic_requests, launch.atomic_sectors),
    ):
        if requests:
            yield f"global {access}", f"{requests:,} requests, {_MODELLED} {sectors:,} sectors: {sectors / requests:.3g} each"
    if launch.local_requests:
        yield "local memory", f"{launch.local_requests:,} requests, {launch.local_sectors:,} sectors"
    for access, count, wavefronts in (
        ("loads", launch.shared_loads, launch.shared_load_wavefronts),
        ("stores", launch.shared_stores, launch.shared_store_wavefronts),
    ):
        if count:
            yield f"shared {access}", f"{count:,} instructions, {wavefronts:,} wavefronts: {wavefronts / count:.3g} each"
    if launch.bank_conflicts:
        yield "bank conflicts", f"{launch.bank_conflicts:,} wavefronts more than needed"
    if launch.constant_loads:
        yield "constant loads", f"{launch.constant_loads:,} requests, {launch.constant_words_per_load:.3g} words each"
    yield from _instruction_rows(launch)
    yield "bytes", f"{launch.bytes_asked:,} asked for, {launch.bytes_moved:,} in sectors, {launch.bytes_needed:,} needed"
    known = [f"{buffer.name} {buffer.reads_of_each:.3g}" for buffer in launch.profile.buffers if buffer.name]
    unknown = [f"{buffer.loaded:,} bytes of buffers that cannot be told apart" for buffer in launch.profile.buffers if not buffer.name]
    if known or unknown:
        yield "buffer reads", "; ".join([*([f"times each element is read: {', '.join(known)}"] if known else []), *unknown])
    yield from _placement_rows(launch)


def _instruction_rows(launch: LaunchMetrics) -> Iterator[tuple[str, str]]:
    mix = ", ".join(f"{group} {100 * count / launch.warp_instructions:.0f} %" for group, count in list(launch.instruction_mix.items())[:5])
    yield "instructions", f"{launch.warp_instructions:,} of PTX by warps, {launch.lanes_per_instruction:.3g} lanes each: {mix}"
    if launch.branches:
        yield "branches", f"{_MODELLED} {launch.branches:,}, {launch.divergent_branches:,} divergent"
    if launch.flops:
        widths = (("half", "h"), ("single", "f"), ("double", "d"))
        kinds = [
            f"{count:,} {kind}" + ("" if name == "single" else f" ({name})")
            for name, width in widths
            for kind in ("add", "mul", "fma")
            if (count := launch.floating.of(width, kind))  # type: ignore[arg-type]
        ]
        less = f"; {_MODELLED} without the parts of {', '.join(launch.floating.expanded)}" if launch.floating.expanded else ""
        yield "FLOPs", f"{launch.flops:,}: {', '.join(kinds)}{less}"
    met = [f"{count:,} {name}" for name, count in (("barriers", launch.barriers), ("shuffles", launch.shuffles), ("votes", launch.votes)) if count]
    if met:
        yield "between lanes", ", ".join(met)


def _placement_rows(launch: LaunchMetrics) -> Iterator[tuple[str, str]]:
    resident = launch.occupancy
    registers = "registers unknown" if resident.registers is None else f"{resident.registers} registers a thread"
    limits = ", ".join(f"{name} {limit}" for name, limit in resident.limits.items() if name != "registers" or resident.registers is not None)
    bound = f"{resident.percent:.3g} %: {resident.blocks} blocks a multiprocessor, limited by {LIMITERS[resident.limiter]}"
    yield "occupancy", f"{bound} (limits: {limits}; {registers}, {launch.shared_bytes:,} bytes of shared memory)"
    yield "waves", f"{launch.waves:.3g}: the device holds {launch.resident_blocks:,} blocks at once, the launch has {launch.profile.blocks:,}"


# ---- roofline --------------------------------------------------------------------------------------------------

_WIDTH = 48
_LOWEST, _HIGHEST = -2.0, 4.0


def _roofline(launch: LaunchMetrics) -> RenderableType:
    """Where the launch stands, on a line of intensities from 0.01 to 10,000 FLOP/byte (logarithmic)."""
    roof = launch.roofline
    if roof.bound == "neither" or not launch.flops:
        floor = launch.bytes_needed / roof.bandwidth_gbs / 1000
        return Text(f"Roofline: no floating-point arithmetic; the bytes needed take {floor:.3g} µs at {roof.bandwidth_gbs:,.0f} GB/s")
    line = ["─"] * (_WIDTH + 1)
    line[_at(roof.ridge)] = "┬"
    line[_at(launch.algorithmic_intensity)] = "○"
    line[_at(roof.intensity)] = "●"
    text = Text()
    text.append(f"Roofline: {roof.bound}-bound", style="bold")
    text.append(f"; the roof over {_intensity(roof.intensity)} FLOP/byte is {_rate(roof.attainable_tflops)}")
    text.append(f", {100 * roof.attainable_tflops / roof.peak_tflops:.3g} % of the peak of {_rate(roof.peak_tflops)}\n")
    text.append(f"  0.01 {''.join(line)} 10,000 FLOP/byte\n")
    text.append(f"  ● by the sectors moved, {_intensity(roof.intensity)}   ○ by the bytes needed, {_intensity(launch.algorithmic_intensity)}   ┬ the ridge, {roof.ridge:.3g}")
    return text


def _at(intensity: float) -> int:
    if not intensity > 0:
        return 0
    place = (math.log10(intensity) - _LOWEST) / (_HIGHEST - _LOWEST) if math.isfinite(intensity) else 1.0
    return round(min(max(place, 0.0), 1.0) * _WIDTH)


def _intensity(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _rate(tflops: float) -> str:
    return f"{tflops:.3g} TFLOP/s" if tflops >= 1 else f"{1000 * tflops:.3g} GFLOP/s"


# ---- lines -----------------------------------------------------------------------------------------------------


def costliest(launch: LaunchMetrics, count: int) -> list[tuple[LineMetrics, float]]:
    """Lines by what they cost, the costliest first, with their cost: the greatest of their shares of the launch's sectors (weighed
    by how much of the time that is), of its wavefronts and of its instructions."""
    sectors = launch.bytes_moved // SECTOR_BYTES + launch.local_sectors
    wavefronts = launch.shared_load_wavefronts + launch.shared_store_wavefronts

    def cost(line: Metrics) -> float:
        of_sectors = (line.bytes_moved // SECTOR_BYTES + line.local_sectors) / sectors if sectors else 0.0
        of_wavefronts = (line.shared_load_wavefronts + line.shared_store_wavefronts) / wavefronts if wavefronts else 0.0
        # a wavefront takes a cycle of a multiprocessor, a sector some three times as long, an instruction a quarter
        total = 3 * sectors + wavefronts + launch.warp_instructions / 4
        return (3 * sectors * of_sectors + wavefronts * of_wavefronts + line.warp_instructions / 4) / total if total else 0.0

    lines = launch.lines if any(line.line is not None for line in launch.lines) else launch.ptx_lines
    ranked = sorted(((line, cost(line)) for line in lines), key=lambda found: -found[1])
    return [(line, share) for line, share in ranked[:count] if share >= 0.01]


def _lines(worst: list[tuple[LineMetrics, float]], launch: LaunchMetrics, sources: SourceLines) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("cost", "", "line", "sectors/request", "passes", "lanes", "source"):
        table.add_column(heading, justify="right" if heading in ("cost", "line", "sectors/request", "passes", "lanes") else "left", overflow="fold")
    for line, share in worst:
        requests = line.load_requests + line.store_requests + line.reduction_requests + line.atomic_requests
        shared = line.shared_loads + line.shared_stores
        source = sources.line(line.file, line.line) if line.line is not None else None
        changed = line.line is not None and line.line in (launch.changed_lines or {})
        table.add_row(
            f"{100 * share:.0f} %",
            bar(share, 8),
            f"{line.line}" if line.line is not None else f"PTX {line.ptx_lines[0]}",
            f"{line.bytes_moved / SECTOR_BYTES / requests:.3g}" if requests else "",
            f"{(line.shared_load_wavefronts + line.shared_store_wavefronts) / shared:.3g}" if shared else "",
            f"{line.lanes_per_instruction:.3g}",
            Text(source or line.instructions[0].opcode).append(f"  {_MODELLED} the compiler changed this access" if changed else "", style="yellow"),
        )
    return table


# ---- advice ----------------------------------------------------------------------------------------------------


def _advice(advice: Advice, sources: SourceLines) -> RenderableType:
    text = Text()
    text.append(f"{advice.code} {advice.name}", style="bold yellow")
    if advice.line is not None:
        text.append(f" at {PurePath(advice.file or '').name}:{advice.line}", style="bold")
    elif advice.ptx_line is not None:
        text.append(f" at PTX line {advice.ptx_line}", style="bold")
    source = sources.line(advice.file, advice.line)
    if source:
        text.append(f"\n{advice.line} | {source}", style="dim")
    text.append(f"\n{advice.message}.")
    text.append(f"\n{advice.metric.replace('_', ' ')}: {_number(advice.now)} → {'at best ' if advice.at_best else ''}{_number(advice.then)}", style="bold")
    text.append(f"\nwhat to do: {advice.how}")
    return Padding(text, (0, 0, 1, 2))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def _legend(launch: LaunchMetrics) -> str:
    text = f"Counts without a sign are exact, {_MODELLED} marks modelled ones, {_ESTIMATED} estimates."
    if launch.changed_lines is None:
        text += " Not compared with the machine code, which may access memory otherwise: that takes pip install 'gridstride[sass]'."
    return text


def _dim(value: tuple[int, int, int]) -> str:
    used = 3 if value[2] > 1 else 2 if value[1] > 1 else 1
    return "×".join(f"{extent:,}" for extent in value[:used])
