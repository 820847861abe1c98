"""A run as text for a terminal: what came out, how long it took, and each fault with its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gridstride.report.model import CaseResult, RunResult

_FIRST = 6
"""Elements of an output shown."""


def summary(run: RunResult, *, detailed: bool) -> RenderableType:
    """One launch with its outputs (`detailed`), or one line a case."""
    if detailed:
        return Group(*[_launch(case, run.device) for case in run.cases])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (("case", "left"), ("kernel", "left"), ("status", "left"), ("time", "right"), ("outputs", "right")):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    for case in run.cases:
        status = Text(case.failure.code, style="red") if case.failure else Text("ok", style="green")
        table.add_row(Text(case.name), Text(case.kernel), status, duration(case.seconds), str(len(case.outputs)))
    failed = sum(case.failure is not None for case in run.cases)
    total = sum(case.seconds or 0.0 for case in run.cases)
    ending = f"{len(run.cases)} case{'' if len(run.cases) == 1 else 's'} on {run.device}: {len(run.cases) - failed} ok, {failed} failed; kernels ran {duration(total)}"
    return Group(table, Text(ending))


def _launch(case: CaseResult, device: str) -> RenderableType:
    head = f"{case.kernel} on {device}: {case.receipt.threads:,} threads in {duration(case.seconds)} on this machine's processor"
    if not device.startswith("sim"):
        head = f"{case.kernel} on {device}: {case.receipt.threads:,} threads in {duration(case.seconds)}"
    if not case.outputs:
        return Text(head)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("output", "type", "first elements", "min", "mean", "max"):
        table.add_column(heading)
    for position, values in case.outputs.items():
        name = case.output_names.get(position, f"p{position}")
        shape = ",".join(map(str, values.shape))
        table.add_row(Text(name), Text(f"{values.dtype}[{shape}]"), Text(first_elements(values)), *_statistics(values))
    return Group(Text(head), table)


def first_elements(values: npt.NDArray[Any]) -> str:
    """The first few elements in memory order, with … where there are more."""
    flat = values.reshape(-1)
    shown = " ".join(_number(value) for value in flat[:_FIRST])
    return shown + (" …" if flat.size > _FIRST else "")


def _statistics(values: npt.NDArray[Any]) -> tuple[str, str, str]:
    """Minimum, mean and maximum; NaNs show, as they do in NumPy."""
    if values.size == 0:
        return "-", "-", "-"
    with np.errstate(all="ignore"):
        mean = values.mean(dtype=np.float64)
        return _number(values.min()), _number(mean), _number(values.max())


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, np.integer) else f"{float(value):.6g}"


def duration(seconds: float | None) -> str:
    """A time with three digits and its unit; "-" where there is none."""
    if seconds is None:
        return "-"
    for limit, scale, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"
