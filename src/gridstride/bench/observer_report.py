"""What observing costs, as a table for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.bench.observers import MODES, PLAIN, ObserverResults
from gridstride.bench.report import facts_table, goal_table, sample_as_json

_METHOD = (
    "Processor time of a launch, the least of the measurements, over that of the plain run; one core, one thread. A profiled launch "
    "includes adding up what was counted, not what is made of it when the profile is read; a checked one includes telling what was found. Compilation is not included."
)


def render(results: ObserverResults) -> RenderableType:
    """Tables of environment, kernels and goals."""
    return Group(*_parts(results))


def _parts(results: ObserverResults) -> Iterator[RenderableType]:
    yield facts_table(results.environment)
    yield Text(f"\n{_METHOD}\n")
    if results.options.quick:
        yield Text("Quick run: an eighth of the work, three repetitions. A look, not a measurement to quote.\n")
    table = Table(title="what observing costs: kernels of the truth set", title_justify="left")
    table.add_column("kernel")
    for column in ("threads", PLAIN, *(mode.name for mode in MODES)):
        table.add_column(column, justify="right")
    for kernel in results.kernels:
        row: list[RenderableType] = [kernel.kernel, f"{kernel.threads:,}"]
        if kernel.error:
            table.add_row(*row, Text("failed", style="red"))
            continue
        ratios = [(kernel.ratio(mode.name), mode.bound) for mode in MODES]
        row.append(f"{kernel.seconds[PLAIN].best * 1e3:,.1f} ms")
        table.add_row(*row, *(Text(f"{ratio:.2f}", style="green" if ratio <= bound else "yellow") for ratio, bound in ratios))
    if results.measured:
        table.add_section()
        table.add_row("geometric mean", "", "", *(f"{results.mean(mode.name):.2f}" for mode in MODES))
    yield table
    for kernel in results.kernels:
        if kernel.error:
            yield Text(f"{kernel.kernel}: {kernel.error}", style="red")
    yield goal_table(results.goals())


def as_json(results: ObserverResults) -> dict[str, Any]:
    """All measurements, plain enough for `json.dump`. Times in seconds."""
    return {
        "schema": 1,
        "environment": results.environment,
        "options": asdict(results.options),
        "kernels": [
            {
                "kernel": kernel.kernel,
                "threads": kernel.threads,
                "bytes": kernel.bytes,
                "seconds": {name: sample_as_json(sample) for name, sample in kernel.seconds.items()},
                "ratios": {} if kernel.error else {mode.name: kernel.ratio(mode.name) for mode in MODES},
                "error": kernel.error,
            }
            for kernel in results.kernels
        ],
        "means": {mode.name: results.mean(mode.name) for mode in MODES} if results.measured else {},
        "goals": [asdict(goal) for goal in results.goals()],
    }
