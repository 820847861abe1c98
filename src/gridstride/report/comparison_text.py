"""A comparison for a terminal: each launch's outputs, times and counters side by side, and the sums at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.report.comparison import CaseComparison, Comparison, CounterPair, OutputPair, totals

_VERDICTS = {"same": "green", "differs": "red", "error": "red"}


def comparison(compared: Comparison) -> RenderableType:
    """All of it."""
    head = f"{compared.simulator} and {compared.gpu} ({compared.arch}, driver for CUDA {compared.cuda})"
    parts: list[RenderableType] = [Text(head, style="bold")]
    parts += [Text(f"note: {note}", style="yellow") for note in compared.notes]
    if compared.not_read:
        parts.append(Text(f"No counters of the GPU: {compared.not_read}. Outputs and times only.", style="yellow"))
    for case in compared.cases:
        parts += [Text(), *_case(case, compared.tolerance)]
    return Group(*parts, Text(), *(Text(line) for line in _sums(compared)))


def _case(case: CaseComparison, tolerance: float) -> Iterator[RenderableType]:
    verdict = case.verdict(tolerance)
    called = case.name if case.name == case.kernel else f"{case.name} ({case.kernel})"
    yield Text.assemble((called, "bold"), ": ", (verdict, _VERDICTS[verdict]))
    if case.simulator_error:
        yield Text(f"  stopped on the simulator, so not launched on the GPU: {case.simulator_error}")
    if case.gpu_error:
        yield Text(f"  no result from the GPU: {case.gpu_error}")
    for output in case.outputs:
        yield Text(f"  {_output(output)}")
    if case.median_us is not None:
        estimate = "" if case.estimate_us is None else f"; estimated {case.estimate_us:.3g} µs"
        yield Text(f"  time: {case.median_us:.3g} µs (median of {len(case.gpu_us)} by events, launch included){estimate}")
    if case.counters:
        yield _counters(case)


def _output(output: OutputPair) -> str:
    what = f"output {output.name} ({output.dtype}[{output.count}])"
    if output.first is None:
        return f"{what}: equal to the last bit"
    index, ours, theirs = output.first
    return (
        f"{what}: {output.differing:,} of {output.count:,} elements differ, the first at {index}: simulator {_value(ours)}, GPU {_value(theirs)}; "
        f"largest relative difference {output.largest_relative:.2g}"
    )


def _value(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _counters(case: CaseComparison) -> RenderableType:
    """The counters that are not zero on both sides."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  counter")
    table.add_column("mark")
    for heading in ("simulator", "ncu", "difference"):
        table.add_column(heading, justify="right")
    table.add_column("Nsight's name", style="dim")
    shown = [pair for pair in case.counters if pair.simulator or pair.gpu]
    for pair in shown:
        style = "red" if pair.equal is False and pair.mark == "exact" else ""
        row = (f"  {pair.plain}", pair.mark, number(pair.simulator), number(pair.gpu), difference(pair))
        table.add_row(*(Text(cell, style=style) for cell in row), Text(pair.name))
    zero = len(case.counters) - len(shown)
    return Group(table, Text(f"  and {zero} that are 0 on both sides", style="dim")) if zero else table


def number(value: float | None) -> str:
    """A counter's value; "-" where a side does not have it."""
    if value is None:
        return "-"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def difference(pair: CounterPair) -> str:
    """"=", how many percent the simulator is off, the factor from ten times on, or by how much where the GPU's value is 0; empty where there is
    nothing to compare."""
    if pair.equal is None:
        return ""
    if pair.equal:
        return "="
    if pair.relative is None:
        assert pair.simulator is not None
        return f"+{number(pair.simulator)}"
    return f"{100 * pair.relative:+.3g} %" if pair.relative < 9 else f"×{1 + pair.relative:,.0f}"


def _sums(compared: Comparison) -> Iterator[str]:
    cases = [case for case in compared.cases if case.verdict(compared.tolerance) != "error"]
    outputs = [output for case in cases for output in case.outputs]
    equal = sum(output.equal for output in outputs)
    if outputs:
        near = sum(not output.equal and output.within(compared.tolerance) for output in outputs)
        within = f", {near} within the tolerance of {compared.tolerance:g}" if compared.tolerance else ""
        yield f"outputs: {equal} of {len(outputs)} equal to the last bit{within}"
    for mark in ("exact", "modelled", "estimated"):
        same, count, median = totals(cases, mark)
        if count:
            off = "" if median is None or same == count else f"; median difference {100 * median:.3g} %"
            yield f"{mark} counters: {same:,} of {count:,} equal{off}"
    failed = len(compared.cases) - len(cases)
    if failed:
        yield f"{failed} of {len(compared.cases)} launches could not be compared"
