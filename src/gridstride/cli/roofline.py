"""`gridstride roofline`: a device's roofs, kernels under them, and the laws that bound speed-up."""

from __future__ import annotations

import json as json_format
import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from gridstride.cli.options import console, simulated_device, write_json
from gridstride.errors import UsageError
from gridstride.machine import laws
from gridstride.machine.devices import DEFAULT_DEVICE
from gridstride.observers.metrics.derived import SECTOR_BYTES
from gridstride.observers.metrics.roof import Roofline, intensity_by_sectors
from gridstride.report.roofline_plot import Point, mark, plot
from gridstride.runtime.expressions import evaluate

_FLOPS = {"add": 1, "mul": 1, "fma": 2}


def command(
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="A device of `gridstride devices`.")
    ] = f"sim:{DEFAULT_DEVICE}",
    double: Annotated[bool, typer.Option("--double", help="Under the roof of double precision.")] = False,
    peak: Annotated[float | None, typer.Option("--peak", metavar="TFLOPS", help="Another peak than the device's.")] = None,
    bandwidth: Annotated[float | None, typer.Option("--bandwidth", metavar="TBS", help="Another bandwidth, in TB/s.")] = None,
    intensity: Annotated[
        list[str] | None, typer.Option("--intensity", metavar="[NAME=]FLOP/BYTE", help="A kernel by its intensity: 1/12, mine=0.5. Repeat for more.")
    ] = None,
    flops: Annotated[str | None, typer.Option("--flops", metavar="N", help="A kernel by its operations, with --bytes.")] = None,
    bytes_: Annotated[str | None, typer.Option("--bytes", metavar="N", help="The bytes that it moves.")] = None,
    time_us: Annotated[float | None, typer.Option("--time-us", metavar="US", help="How long it took: shows what it reached.")] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="Kernels of a result that `--profile --json FILE` wrote.")
    ] = None,
    vector_add: Annotated[bool, typer.Option("--vector-add", help="The vector sum of floats: 1/12.")] = False,
    matrix: Annotated[int | None, typer.Option("--matrix", metavar="N", help="The product of N×N matrices of floats: N/6.")] = None,
    amdahl: Annotated[
        str | None, typer.Option("--amdahl", metavar="SERIAL", help="Amdahl's law for a serial fraction: 0.02, 10/110.")
    ] = None,
    gustafson: Annotated[str | None, typer.Option("--gustafson", metavar="SERIAL", help="Gustafson's law for a serial fraction.")] = None,
    processors: Annotated[
        list[int] | None, typer.Option("--processors", "-p", metavar="P", help="For this many processors. Repeat for more.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="LAUNCHES,KERNEL_US,HOST_US", help="What a graph of launches saves: 500,2,5.")
    ] = None,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON to FILE (- for standard output).")] = None,
) -> None:
    """The roofline of a device: peak, bandwidth, ridge, and kernels under it; or, with --amdahl, --gustafson, --graph, those laws."""
    law = _laws(amdahl, gustafson, processors, graph)
    if law:
        if json is not None:
            write_json(json, {"schema": 1, **{name: values for name, values, _ in law}})
        if json != "-":
            for _, _, lines in law:
                print("\n".join(lines))
        return
    spec = simulated_device(device)
    roofs = Roofs(
        spec.name if peak is None and bandwidth is None else f"{spec.name}, as given",
        _positive(peak, "--peak") or (spec.fp64_tflops if double else spec.fp32_tflops),
        (_positive(bandwidth, "--bandwidth") or spec.memory_bandwidth_gbs / 1000) * 1000,
    )
    points = _points(intensity or [], flops, bytes_, time_us, vector_add, matrix)
    if profile is not None:
        points += profile_points(profile)
    if json is not None:
        write_json(json, roofs.describe(points, f"sim:{spec.key}"))
    if json != "-":
        _print(roofs, points, "double" if double else "single")


def _positive(value: float | None, what: str) -> float | None:
    if value is not None and not value > 0:
        raise UsageError(f"{what} must be more than 0, not {value:g}")
    return value


class Roofs:
    """A peak in TFLOP/s and a bandwidth in GB/s, with the name of who has them."""

    def __init__(self, name: str, peak_tflops: float, bandwidth_gbs: float) -> None:
        self.name, self.peak_tflops, self.bandwidth_gbs = name, peak_tflops, bandwidth_gbs

    def over(self, intensity: float) -> Roofline:
        return Roofline(intensity, self.peak_tflops, self.bandwidth_gbs)

    @property
    def ridge(self) -> float:
        return self.over(1).ridge

    def describe(self, points: list[Point], device: str) -> dict[str, Any]:
        return {
            "schema": 1,
            "device": device,
            "peak_tflops": self.peak_tflops,
            "bandwidth_gbs": self.bandwidth_gbs,
            "ridge": self.ridge,
            "points": [
                {
                    "name": point.name,
                    "intensity": point.intensity,
                    "bound": self.over(point.intensity).bound,
                    "attainable_tflops": self.over(point.intensity).attainable_tflops,
                    "tflops": point.tflops,
                    "reached_pct": None if point.tflops is None else 100 * point.tflops / self.over(point.intensity).attainable_tflops,
                }
                for point in points
            ],
        }


def _points(
    intensities: list[str], flops: str | None, bytes_: str | None, time_us: float | None, vector_add: bool, matrix: int | None
) -> list[Point]:
    points = []
    for text in intensities:
        name, equals, value = text.rpartition("=")
        points.append(Point(name if equals else value, _intensity(float(evaluate(value, {})), text)))
    if (flops is None) != (bytes_ is None):
        raise UsageError("--flops and --bytes go together: the intensity is their quotient")
    if time_us is not None and flops is None:
        raise UsageError("--time-us says how fast --flops and --bytes were: give them too")
    if flops is not None and bytes_ is not None:
        operations, moved = float(evaluate(flops, {})), float(evaluate(bytes_, {}))
        if not moved > 0:
            raise UsageError(f"--bytes must be more than 0, not {moved:g}")
        reached = None if time_us is None else operations / (_positive(time_us, "--time-us") or math.inf) / 1e6
        points.append(Point("kernel", _intensity(operations / moved, flops), reached))
    if vector_add:
        points.append(Point("vector add", float(laws.vector_add_intensity())))
    if matrix is not None:
        points.append(Point(f"matrix product {matrix:,}", float(laws.matrix_product_intensity(matrix))))
    return points


def _intensity(value: float, text: str) -> float:
    if not 0 < value < math.inf:
        raise UsageError(f"an intensity is more than 0 FLOP/byte: `{text}` is {value:g}")
    return value


def profile_points(file: Path) -> list[Point]:
    """The launches of a profiled result, at the intensity that their profile has; where a result has counters alone (a GPU's), by them.

    Launches without floating-point operations or without bytes have no place under a roofline and are left out. Raises UsageError for
    what is no profiled result.
    """
    try:
        document = json_format.loads(file.read_text(encoding="utf-8"))
        cases = [(str(case["name"]), _flops_and_intensity(case), case.get("estimate_us")) for case in document["cases"]]
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{file} is no result of `gridstride … --profile --json`") from None
    points = [
        Point(name, intensity, flops / estimate / 1e6 if estimate else None)
        for name, (flops, intensity), estimate in cases
        if 0 < intensity < math.inf
    ]
    if cases and not points:
        raise UsageError(f"{file} has no counters of floating-point operations and bytes: was it made with --profile?")
    return points


def _flops_and_intensity(case: dict[str, Any]) -> tuple[float, float]:
    """Of one launch of a result. Nsight's counters hold packed halves once, so that a profile's own numbers come first."""
    if "profile" in case:
        intensity = case["profile"]["roofline"]["intensity"]
        return case["profile"]["metrics"]["flops"], math.nan if intensity is None else intensity
    counters = case["counters"]
    flops = sum(
        weight * counters.get(f"smsp__sass_thread_inst_executed_op_{width}{kind}_pred_on.sum", 0) for width in "hfd" for kind, weight in _FLOPS.items()
    )
    sectors = sum(value for key, value in counters.items() if key.startswith("l1tex__t_sectors_pipe_lsu_mem_global_op_"))
    return flops, intensity_by_sectors(flops, SECTOR_BYTES * sectors)


def _laws(amdahl: str | None, gustafson: str | None, processors: list[int] | None, graph: str | None) -> list[tuple[str, Any, list[str]]]:
    """(name, JSON, lines) of every law that was asked for."""
    if processors and amdahl is None and gustafson is None:
        raise UsageError("--processors goes with --amdahl or --gustafson")
    numbers = processors or [2, 4, 8, 16, 32, 64, 128, 1024]
    found: list[tuple[str, Any, list[str]]] = []
    for name, text, law in (("amdahl", amdahl, laws.amdahl), ("gustafson", gustafson, laws.gustafson)):
        if text is None:
            continue
        serial = _fraction(text)
        speedups = {p: float(law(serial, p)) for p in numbers}
        limit = float(laws.amdahl_limit(serial)) if name == "amdahl" and serial else None
        lines = [f"{name.capitalize()}, serial fraction {float(serial):.4g}" + (f": at most {limit:.4g} times as fast" if limit else "")]
        lines += [f"{p:>8,} processors  {speedup:10.4g} times as fast" for p, speedup in speedups.items()]
        found.append((name, {"serial_fraction": float(serial), "limit": limit, "speedup": {str(p): s for p, s in speedups.items()}}, lines))
    if graph is not None:
        found.append(("graph", *_graph(graph)))
    return found


def _graph(text: str) -> tuple[Any, list[str]]:
    parts = text.split(",")
    try:
        launches, kernel_us, host_us = int(parts[0]), float(parts[1]), float(parts[2])
    except (ValueError, IndexError):
        raise UsageError(f"cannot read --graph `{text}`: give launches, µs a kernel and µs of host time a launch, such as 500,2,5") from None
    saving = laws.GraphSaving(launches, kernel_us, host_us)
    values = {
        "launches": launches,
        "host_saved_us": saving.host_saved_us,
        "one_by_one_us": saving.one_by_one_us,
        "as_graph_us": saving.as_graph_us,
    }
    lines = [
        f"{launches:,} launches as one graph: {saving.host_saved_us / 1000:.4g} ms of host time saved a replay",
        f"one by one {saving.one_by_one_us / 1000:.4g} ms until the last kernel ends, as a graph {saving.as_graph_us / 1000:.4g} ms",
    ]
    return values, lines


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text.replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        pass
    above, slash, below = text.partition("/")
    try:
        return Fraction(above.strip()) / Fraction(below.strip()) if slash else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"cannot read the serial fraction `{text}`: write 0.02 or 10/110") from None


def _print(roofs: Roofs, points: list[Point], precision: str) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(
        Text(
            f"{roofs.name}: {roofs.peak_tflops:.1f} TFLOP/s ({precision} precision, outside tensor cores), {roofs.bandwidth_gbs / 1000:.3g} TB/s, "
            f"ridge at {roofs.ridge:.3g} FLOP/byte"
        )
    )
    out.print(Text(plot(roofs.peak_tflops, roofs.bandwidth_gbs, points)), soft_wrap=True)
    if not points:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "kernel", "FLOP/byte", "bound by", "at most TFLOP/s", "reached", ""):
        table.add_column(heading, justify="right" if heading in ("FLOP/byte", "at most TFLOP/s", "reached") else "left")
    for k, point in enumerate(points):
        over = roofs.over(point.intensity)
        reached = "" if point.tflops is None else f"{point.tflops:.3g}"
        share = "" if point.tflops is None else f"{100 * point.tflops / over.attainable_tflops:.0f} % of the roof"
        table.add_row(
            mark(k), Text(point.name), f"{point.intensity:.4g}", "memory" if over.bound == "memory" else "arithmetic",
            f"{over.attainable_tflops:.3g}", reached, share,
        )  # fmt: skip
    out.print(table)
