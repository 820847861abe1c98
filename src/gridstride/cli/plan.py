"""`gridstride plan`: launch arithmetic for a problem size and a block, and how it fills a device."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gridstride.cli.options import console, parse_bytes, parse_dim3, simulated_device, write_json
from gridstride.findings import Dim3
from gridstride.machine.devices import DEFAULT_DEVICE, DeviceSpec
from gridstride.machine.limits import check_launch, format_dim3
from gridstride.machine.occupancy import Occupancy, occupancy
from gridstride.machine.planning import LaunchPlan

# A block of 256 threads in as many dimensions as the problem has; 32 wide, so that a warp reads one row.
DEFAULT_BLOCKS: dict[int, str] = {1: "256", 2: "32x8", 3: "32x4x2"}


def command(
    size: Annotated[str, typer.Argument(metavar="SIZE", help="Elements, one thread each: 1000000, 1e6, 1920x1080 or 64x64x64.")],
    block: Annotated[str | None, typer.Option("--block", "-b", metavar="X[xY[xZ]]", help="Threads a block \\[default: 256, 32x8 or 32x4x2]")] = None,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="A device of `gridstride devices`.")] = f"sim:{DEFAULT_DEVICE}",
    registers: Annotated[int | None, typer.Option("--registers", metavar="N", help="Registers a thread, as the compiler reports them.")] = None,
    shared: Annotated[
        str, typer.Option("--shared", metavar="BYTES", help="Shared memory a block, static and dynamic: 16384, 16KB.")
    ] = "0",
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write the plan as JSON to FILE (- for standard output).")] = None,
) -> None:
    """Launch arithmetic: blocks, idle threads, the last block, occupancy and waves."""
    extent = parse_dim3(size, "the size")
    threads = parse_dim3(block or DEFAULT_BLOCKS[_dimensions(extent)], "the block")
    spec = simulated_device(device)
    plan = LaunchPlan(extent, threads)
    shared_bytes = parse_bytes(shared, "--shared")
    check_launch(spec, plan.grid, plan.block, shared_bytes, registers)
    resident = occupancy(spec, plan.threads_per_block, registers, shared_bytes)
    if json is not None:
        write_json(json, describe(plan, resident, spec))
    if json != "-":
        _print(plan, resident, spec)


def describe(plan: LaunchPlan, resident: Occupancy, spec: DeviceSpec) -> dict[str, Any]:
    """The plan as a JSON document. Ranges are given by their first and last index."""
    return {
        "schema": 1,
        "device": f"sim:{spec.key}",
        "size": plan.extent,
        "block": plan.block,
        "grid": plan.grid,
        "blocks": plan.blocks,
        "threads": plan.threads,
        "idle_threads": plan.idle_threads,
        "idle_pct": round(plan.idle_pct, 4),
        "warps_per_block": plan.warps_per_block,
        "idle_lanes_per_block": plan.idle_lanes_per_block,
        "last_block": {
            "index": plan.last_block,
            "first": [indices[0] for indices in plan.last_block_covers],
            "last": [indices[-1] for indices in plan.last_block_covers],
            "working_threads": plan.last_block_working,
        },
        "occupancy": resident.as_json(),
        "blocks_per_multiprocessor": resident.blocks,
        "waves": round(plan.waves(resident.blocks, spec.multiprocessors), 4),
    }


def _dimensions(extent: Dim3) -> int:
    return 3 if extent[2] > 1 else 2 if extent[1] > 1 else 1


def _print(plan: LaunchPlan, resident: Occupancy, spec: DeviceSpec) -> None:
    from rich.table import Table

    used = max(_dimensions(plan.extent), _dimensions(plan.block))
    per_block = f"{plan.threads_per_block:,} threads, {plan.warps_per_block} {'warp' if plan.warps_per_block == 1 else 'warps'}"
    if plan.idle_lanes_per_block:
        per_block += f", {plan.idle_lanes_per_block} lanes of the last one without a thread"
    last = ", ".join(f"{index:,}" for index in plan.last_block[:used])
    covers = " × ".join(f"{indices[0]:,} to {indices[-1]:,}" for indices in plan.last_block_covers[:used])
    waves = plan.waves(resident.blocks, spec.multiprocessors)
    rows = [
        ("block", f"{format_dim3(plan.block)} = {per_block}" if used > 1 else per_block),
        ("grid", f"{format_dim3(plan.grid)} = {plan.blocks:,} blocks" if used > 1 else f"{plan.blocks:,} blocks"),
        ("threads", f"{plan.threads:,}"),
        ("idle threads", f"{plan.idle_threads:,} ({plan.idle_pct:.3g} %)"),
        ("last block", f"{last}: covers {covers}, {plan.last_block_working:,} of its threads work"),
        ("occupancy", f"{resident.percent:.1f} %: {resident.blocks} blocks a multiprocessor, limited by {' and '.join(resident.limiters)}"),
        ("waves", f"{waves:.2f}: {spec.multiprocessors} multiprocessors hold {resident.blocks * spec.multiprocessors:,} blocks at once"),
    ]
    table = Table(title=f"{format_dim3(plan.extent)} elements on {spec.name}", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    console().print(table)
