"""`gridstride devices`: the device table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gridstride.cli.options import console, simulated_device, write_json
from gridstride.machine.devices import DEVICES, KIB, MIB, DeviceSpec

COLUMNS = ("device", "name", "cc", "SMs", "warps/SM", "blocks/SM", "shared/SM", "L2", "GB/s", "FP32 TFLOP/s", "FP64 TFLOP/s")
_LEAVE_FIRST = (10, 5, 4, 7, 9, 6, 2, 8, 3, 1)
"""Columns that a narrow terminal does without, in this order."""


def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one device in full.")] = None,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the table as JSON to FILE (- for standard output).")] = None,
) -> None:
    """The GPUs that can be simulated, and their limits."""
    devices = [simulated_device(name)] if name else list(DEVICES)
    if json is not None:
        write_json(json, {"schema": 1, "devices": [describe(spec) for spec in devices]})
    if json == "-":
        return
    if name:
        _print_one(devices[0])
    else:
        _print_table(devices)


def describe(spec: DeviceSpec) -> dict[str, Any]:
    """Everything known of a device under names that carry their units."""
    architecture = spec.architecture
    return {
        "key": spec.key,
        "name": spec.name,
        "architecture": architecture.name,
        "compute_capability": ".".join(map(str, spec.compute_capability)),
        "multiprocessors": spec.multiprocessors,
        "boost_clock_mhz": spec.boost_clock_mhz,
        "memory_bytes": spec.memory_bytes,
        "memory_bandwidth_gbs": spec.memory_bandwidth_gbs,
        "l2_bytes": spec.l2_bytes,
        "l1_and_shared_bytes": architecture.l1_and_shared,
        "fp32_tflops": round(spec.fp32_tflops, 2),
        "fp64_tflops": round(spec.fp64_tflops, 2),
        "warps_per_multiprocessor": architecture.warps_per_multiprocessor,
        "blocks_per_multiprocessor": architecture.blocks_per_multiprocessor,
        "threads_per_multiprocessor": architecture.threads_per_multiprocessor,
        "threads_per_block": architecture.threads_per_block,
        "registers_per_multiprocessor": architecture.registers_per_multiprocessor,
        "registers_per_block": architecture.registers_per_block,
        "registers_per_thread": architecture.registers_per_thread,
        "register_granularity_per_warp": architecture.register_granularity,
        "shared_per_multiprocessor_bytes": architecture.shared_per_multiprocessor,
        "shared_per_block_bytes": architecture.shared_per_block,
        "shared_per_block_optin_bytes": architecture.shared_per_block_optin,
        "shared_granularity_bytes": architecture.shared_granularity,
        "reserved_shared_per_block_bytes": architecture.reserved_shared_per_block,
        "shared_carveouts_bytes": list(architecture.shared_carveouts),
        "source": spec.source,
    }


def _print_table(devices: list[DeviceSpec]) -> None:
    from rich.table import Table

    rows = [COLUMNS]
    for spec in devices:
        architecture = spec.architecture
        row = (
            spec.key,
            spec.name,
            ".".join(map(str, spec.compute_capability)),
            str(spec.multiprocessors),
            str(architecture.warps_per_multiprocessor),
            str(architecture.blocks_per_multiprocessor),
            f"{architecture.shared_per_multiprocessor // KIB} KB",
            f"{spec.l2_bytes // MIB} MB",
            f"{spec.memory_bandwidth_gbs:,.0f}",
            f"{spec.fp32_tflops:.1f}",
            f"{spec.fp64_tflops:.1f}",
        )
        rows.append(row)
    out = console()
    kept = _columns_that_fit([max(len(row[k]) for row in rows) for k in range(len(COLUMNS))], out.width)
    caption = "SM: streaming multiprocessor. Peaks at boost clock, outside tensor cores. Use as --device sim:DEVICE."
    if len(kept) < len(COLUMNS):
        caption += " A wider terminal shows more columns, `gridstride devices NAME` all."
    table = Table(title="Devices", caption=caption)
    for k in kept:
        table.add_column(COLUMNS[k], style="bold" if k == 0 else None, justify="left" if k < 2 else "right", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*(row[k] for k in kept))
    out.print(table)


def _columns_that_fit(widths: list[int], room: int) -> list[int]:
    """The columns that are shown whole in `room` characters, in their order; the first always, the others as `_LEAVE_FIRST` says."""
    kept = list(range(len(widths)))
    for k in _LEAVE_FIRST:
        if sum(widths[column] + 3 for column in kept) + 1 <= room:  # a space on both sides and a line between, one line more at the end
            break
        kept.remove(k)
    return kept


def _print_one(spec: DeviceSpec) -> None:
    from rich.table import Table

    table = Table(title=spec.name, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for key, value in describe(spec).items():
        shown = ", ".join(f"{part:,}" for part in value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(key.replace("_", " "), shown)
    console().print(table)
