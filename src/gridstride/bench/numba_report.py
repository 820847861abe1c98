"""Python kernels on Gridstride and on Numba's simulator, as a table for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.bench.numba_kernels import GRIDSTRIDE, NUMBA, NumbaResults
from gridstride.bench.report import facts_table, goal_table, sample_as_json

_METHOD = (
    "The same Python source and the same launching lines on both; processor time of a launch and the wait for it, arrays on the device, medians after a "
    "warm-up that compiles, ± half the distance of the quartiles; one core, one thread; every result verified against NumPy. Sizes differ, so work per second is compared."
)


def render(results: NumbaResults) -> RenderableType:
    """Tables of environment, kernels and goals."""
    return Group(*_parts(results))


def _parts(results: NumbaResults) -> Iterator[RenderableType]:
    yield facts_table(results.environment)
    yield Text(f"\n{_METHOD}\n")
    if results.options.quick:
        yield Text("Quick run: less work, three repetitions. A look, not a measurement to quote.\n")
    table = Table(title="kernels in Python", title_justify="left")
    table.add_column("kernel")
    table.add_column("run by")
    for column in ("size", "time", "spread", "work", "times"):
        table.add_column(column, justify="right")
    for one in results.measured:
        for by, name in ((GRIDSTRIDE, "Gridstride"), (NUMBA, f"Numba's simulator ({one.versions[NUMBA]})")):
            sample = one.samples[by]
            rate = f"{one.rate(by):,.0f} {one.comparison.unit}"
            times = f"{one.times:,.0f}" if by == GRIDSTRIDE else "1"
            table.add_row(one.comparison.kernel, name, f"{one.sizes[by]:,}", f"{sample.median * 1e3:,.2f} ms", f"±{sample.spread:.1%}", rate, times)
    yield table
    for error in results.errors:
        yield Text(error, style="red")
    yield goal_table(results.goals())


def as_json(results: NumbaResults) -> dict[str, Any]:
    """All measurements, plain enough for `json.dump`. Times in seconds."""
    return {
        "schema": 1,
        "environment": results.environment,
        "options": asdict(results.options),
        "kernels": [
            {
                "kernel": one.comparison.kernel,
                "unit": one.comparison.unit,
                "times": one.times,
                "by": {
                    by: {"version": one.versions[by], "size": one.sizes[by], "rate": one.rate(by), **sample_as_json(sample)}
                    for by, sample in one.samples.items()
                },
            }
            for one in results.measured
        ],
        "errors": results.errors,
        "goals": [asdict(goal) for goal in results.goals()],
    }
