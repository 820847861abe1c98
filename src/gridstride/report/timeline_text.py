"""A timeline as text: a row a stream with its operations as bars, then the list of operations, then how much overlapped and why no more."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.events.operations import Kind
from gridstride.events.schedule import Placed, Waited
from gridstride.events.timeline import Timeline

_MARKS = {
    Kind.KERNEL: "K",
    Kind.TO_DEVICE: ">",
    Kind.TO_HOST: "<",
    Kind.ON_DEVICE: "=",
    Kind.FILL: "0",
    Kind.HOST: "h",
    Kind.PREFETCH_TO_DEVICE: "p",
    Kind.PREFETCH_TO_HOST: "q",
}
_LEGEND = "K kernel   > copy to device   < copy to host   = copy on device   0 fill   h host function   p/q prefetch to device/host   w host waits"
_BAR = 72
_MOST_ROWS = 40


def render(timeline: Timeline) -> RenderableType:
    """The timeline for a terminal."""
    return Group(_bars(timeline), Text(_LEGEND, style="dim"), Text(), _table(timeline), Text(), Text(summary(timeline)))


def plain(timeline: Timeline, width: int = 120) -> str:
    """The same as text without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(render(timeline), highlight=False)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def summary(timeline: Timeline) -> str:
    """The totals in sentences."""
    how = "measured" if timeline.measured else "modelled"
    lines = [
        f"{timeline.device}: {timeline.total_us:,.1f} µs in all ({how}); copies run for {timeline.copy_us:,.1f} µs, kernels for {timeline.kernel_us:,.1f} µs"
    ]
    if timeline.possible_us:
        lines.append(f"copies and kernels at once: {timeline.overlap_us:,.1f} µs of the {timeline.possible_us:,.1f} µs that could be ({timeline.overlap_share:.0%})")
    lines += [f"{reason.what}: {reason.sentence}" for reason in timeline.reasons]
    return "\n".join(lines)


def _bars(timeline: Timeline) -> Table:
    operations = timeline.operations
    table = Table.grid(padding=(0, 1))
    if not operations:
        return table
    begin, end = min(p.start for p in operations), max(p.end for p in operations)
    waits = [w for w in timeline.host_waits if w.end > begin]
    if waits:
        table.add_row("host", _bar([], waits, begin, end))
    for name, row in timeline.rows():
        table.add_row(_short(name), _bar(row, [], begin, end))
    return table


def _bar(operations: Sequence[Placed], waits: Sequence[Waited], begin: float, end: float) -> Text:
    cells = ["·"] * _BAR
    scale = _BAR / max(end - begin, 1e-9)
    spans = [(p.start, p.end, _MARKS.get(p.operation.kind, "?")) for p in operations] + [(w.start, w.end, "w") for w in waits]
    for start, stop, mark in spans:
        first = min(_BAR - 1, int((max(start, begin) - begin) * scale))
        last = max(first + 1, min(_BAR, round((stop - begin) * scale)))
        for k in range(first, last):
            cells[k] = mark
    return Text("".join(cells))


def _table(timeline: Timeline) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, justify in (("operation", "left"), ("stream", "left"), ("start µs", "right"), ("end µs", "right"), ("takes µs", "right"), ("bytes", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    operations = timeline.operations
    for p in operations[:_MOST_ROWS]:
        o = p.operation
        table.add_row(o.name, _short(o.where), f"{p.start:,.1f}", f"{p.end:,.1f}", f"{p.end - p.start:,.1f}", f"{o.nbytes:,}" if o.nbytes else "")
    if len(operations) > _MOST_ROWS:
        table.add_row(f"… and {len(operations) - _MOST_ROWS:,} more")
    return table


def _short(stream: str) -> str:
    return stream.removeprefix("the ").replace("`", "")
