"""The benchmark's results as tables for a terminal and as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.bench.results import Goal, KernelResult, Results
from gridstride.bench.stats import Sample

_METHOD = (
    "Outputs verified against the C++ loops first (equal bits, but for math_mix, nbody_tile and dot_double_atomic); medians after a "
    "warm-up, ± half the distance of the quartiles; one core, one thread; bounds checked. Ratio: simulator's time over the C++ loops'."
)


def render(results: Results) -> RenderableType:
    """Tables of environment, saxpy, kernels and goals, and what was skipped."""
    return Group(*_parts(results))


def _parts(results: Results) -> Iterator[RenderableType]:
    yield facts_table(results.environment)
    yield Text(f"\n{_METHOD}\n")
    if results.options.quick:
        yield Text("Quick run: an eighth of the work, three repetitions. A look, not a measurement to quote.\n")
    if math.isfinite(results.load_seconds + results.start_seconds):
        yield Text(
            f"PTX of all kernels read in {results.load_seconds:.2f} s; first launch (what all share, and saxpy) {results.start_seconds:.2f} s\n"
        )
    if results.saxpy:
        yield _saxpy_table(results)
    if results.kernels:
        yield _kernel_table(results)
        if ratios := sorted(results.ratios.values()):
            slow = sum(ratio > 2 for ratio in ratios)
            yield Text(
                f"ratios: median {statistics.median(ratios):.2f}, {slow} of {len(ratios)} kernels above 2, the largest {ratios[-1]:.1f}\n"
            )
    for result in (*results.kernels, results.saxpy):
        if result and result.error:
            yield Text(f"{result.kernel}: {result.error}", style="red")
    for skipped in results.skipped:
        yield Text(f"skipped: {skipped}", style="yellow")
    yield goal_table(results.goals())


def _saxpy_table(results: Results) -> Table:
    assert results.saxpy is not None
    saxpy = results.saxpy
    table = Table(title=f"saxpy, {saxpy.threads:,} elements", title_justify="left")
    table.add_column("run by")
    for column in ("time", "spread", "elements/s", "simulator is … times as fast"):
        table.add_column(column, justify="right")
    if saxpy.error or saxpy.simulated is None or saxpy.rate is None:
        table.add_row("Gridstride", Text("failed", style="red"))
        return table
    table.add_row("Gridstride", _time(saxpy.simulated), _spread(saxpy.simulated), f"{saxpy.rate:,.0f}", "1")
    others = [(f"NumPy, {form}", sample) for form, sample in results.numpy.items()]
    if saxpy.native:
        others.insert(0, ("C++ loops", saxpy.native))
    for name, sample in others:
        times = sample.median / saxpy.simulated.median
        table.add_row(name, _time(sample), _spread(sample), f"{saxpy.threads / sample.median:,.0f}", f"{times:.2f}")
    for rival in results.rivals:
        name = f"{rival.version} ({rival.threads:,} elements)"
        table.add_row(name, _time(rival.sample), _spread(rival.sample), f"{rival.rate:,.0f}", f"{saxpy.rate / rival.rate:,.0f}")
    return table


def _kernel_table(results: Results) -> Table:
    table = Table(title="kernels of the truth set, scaled up", title_justify="left")
    table.add_column("kernel")
    for column in ("threads", "MB", "launches", "compile", "simulator", "spread", "C++ loops", "spread", "ratio"):
        table.add_column(column, justify="right")
    for result in results.kernels:
        table.add_row(*_kernel_row(result))
    return table


def _kernel_row(result: KernelResult) -> list[RenderableType]:
    row: list[RenderableType] = [result.kernel, f"{result.threads:,}", f"{result.bytes / 1e6:.0f}"]
    if result.error or result.simulated is None:
        return [*row, "", "", Text("failed", style="red")]
    row += [str(result.launches), f"{result.compile_seconds:.2f} s", _time(result.simulated), _spread(result.simulated)]
    if result.native and result.ratio is not None:
        row += [_time(result.native), _spread(result.native), Text(f"{result.ratio:.2f}", style=_colour(result.ratio))]
    return row


def facts_table(facts: Mapping[str, str]) -> Table:
    """Where it was measured."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def goal_table(goals: Iterable[Goal]) -> Table:
    """Bounds, what was measured, and whether they are kept."""
    table = Table(title="goals", title_justify="left")
    table.add_column("goal")
    table.add_column("measured", justify="right")
    table.add_column("")
    marks = {True: Text("met", style="green"), False: Text("missed", style="red"), None: Text("not measured", style="yellow")}
    for goal in goals:
        table.add_row(goal.text, goal.measured, marks[goal.met])
    return table


def _time(sample: Sample) -> str:
    return f"{sample.median * 1e3:,.1f} ms"


def _spread(sample: Sample) -> str:
    return f"±{sample.spread:.1%}"


def _colour(ratio: float) -> str:
    return "green" if ratio <= 2 else "yellow" if ratio <= 10 else "red"


def as_json(results: Results) -> dict[str, Any]:
    """All measurements, plain enough for `json.dump`. Times in seconds."""
    return {
        "schema": 1,
        "environment": results.environment,
        "options": asdict(results.options),
        "load_seconds": _number(results.load_seconds),
        "start_seconds": _number(results.start_seconds),
        "saxpy": _kernel(results.saxpy) if results.saxpy else None,
        "numpy": {form: sample_as_json(sample) for form, sample in results.numpy.items()},
        "rivals": [{"name": r.name, "version": r.version, "threads": r.threads, **sample_as_json(r.sample)} for r in results.rivals],
        "kernels": [_kernel(result) for result in results.kernels],
        "skipped": results.skipped,
        "goals": [asdict(goal) for goal in results.goals()],
    }


def _kernel(result: KernelResult) -> dict[str, Any]:
    return {
        "kernel": result.kernel,
        "threads": result.threads,
        "bytes": result.bytes,
        "launches": result.launches,
        "compile_seconds": _number(result.compile_seconds),
        "simulated": sample_as_json(result.simulated) if result.simulated else None,
        "native": sample_as_json(result.native) if result.native else None,
        "ratio": result.ratio,
        "error": result.error,
    }


def sample_as_json(sample: Sample) -> dict[str, Any]:
    """Every measurement, in seconds, and what is made of them."""
    return {"median": sample.median, "best": sample.best, "spread": sample.spread, "seconds": list(sample.seconds)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
