"""`gridstride occupancy`: how many warps of a kernel a multiprocessor holds, what keeps it from more, and the best block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gridstride.cli.options import console, parse_bytes, parse_dim3, simulated_device, write_json
from gridstride.errors import LaunchError, UsageError
from gridstride.findings import Dim3
from gridstride.machine.block_size import BestBlock, SharedOfBlock, best_block, occupancy_curve
from gridstride.machine.devices import DEFAULT_DEVICE, DeviceSpec
from gridstride.machine.limits import check_launch, format_dim3
from gridstride.machine.occupancy import Occupancy, occupancy, shared_allocated

_BAR = 40


@dataclass(frozen=True)
class KernelNeeds:
    """What a kernel takes: registers a thread, bytes of shared memory a block and a thread of it, its own bound on a block."""

    registers: int | None
    shared: int
    shared_per_thread: int = 0
    max_threads: int | None = None
    name: str | None = None
    reason: str | None = None

    def shared_of(self, threads: int) -> int:
        return self.shared + self.shared_per_thread * threads


def command(
    threads: Annotated[str, typer.Option("--threads", "-b", metavar="N|X[xY[xZ]]", help="Threads a block.")] = "256",
    registers: Annotated[
        int | None, typer.Option("--registers", metavar="N", help="Registers a thread \\[default: the kernel's; else none]")
    ] = None,
    shared: Annotated[
        str, typer.Option("--shared", metavar="BYTES", help="Shared memory a block (16384, 16KB); with --kernel beside its static.")
    ] = "0",
    shared_per_thread: Annotated[
        int, typer.Option("--shared-per-thread", metavar="BYTES", help="Shared memory that grows with the block.")
    ] = 0,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="SOURCE:KERNEL", help="Take registers and shared memory from the compiler.")
    ] = None,
    grid: Annotated[str | None, typer.Option("--grid", metavar="N|X[xY[xZ]]", help="Blocks of a launch: shows waves and tail.")] = None,
    carveout: Annotated[
        str | None, typer.Option("--carveout", metavar="BYTES", help="Shared memory that the multiprocessor is set to \\[default: most]")
    ] = None,
    max_threads: Annotated[
        int | None, typer.Option("--max-threads", metavar="N", help="The kernel's bound on its block (`__launch_bounds__`).")
    ] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="A device of `gridstride devices`.")
    ] = f"sim:{DEFAULT_DEVICE}",
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON to FILE (- for standard output).")] = None,
) -> None:
    """Theoretical occupancy of a kernel: all limits and which binds, the curve over block sizes, the best block size."""
    spec = simulated_device(device)
    block = parse_dim3(threads, "the block")
    blocks = parse_dim3(grid, "the grid") if grid is not None else None
    needs = _needs(spec, kernel, registers, parse_bytes(shared, "--shared"), shared_per_thread, max_threads)
    set_to = parse_bytes(carveout, "--carveout") if carveout is not None else None
    answer = Answer(spec, block, blocks, needs, set_to)
    if json is not None:
        write_json(json, answer.describe())
    if json != "-":
        _print(answer)


def _needs(
    spec: DeviceSpec, kernel: str | None, registers: int | None, shared: int, per_thread: int, max_threads: int | None
) -> KernelNeeds:
    if registers is not None and not 0 < registers <= spec.architecture.registers_per_thread:
        raise UsageError(f"{registers} registers a thread are impossible: {spec.name} has 1 to {spec.architecture.registers_per_thread}")
    if per_thread < 0:
        raise UsageError(f"a thread cannot have {per_thread} bytes of shared memory")
    if kernel is None:
        return KernelNeeds(registers, shared, per_thread, max_threads)
    from gridstride.frontends.source import load_source
    from gridstride.ptx.parser import parse

    source, colon, name = kernel.rpartition(":")
    if not colon or not source or not name:
        raise UsageError(f"cannot read --kernel `{kernel}`: write SOURCE:KERNEL, such as saxpy.cu:saxpy")
    loaded = load_source(Path(source), arch=spec.target).with_kernel(name)
    entry = loaded.entry(name)
    report = loaded.resource_report(spec.target)
    module = parse(loaded.ptx)
    found = report.kernels.get(entry)
    bound = math.prod(module.functions[entry].directives.get("maxntid") or (0,)) or None
    static = found.shared_bytes if found is not None else sum(v.size or 0 for v in module.functions[entry].variables.values() if v.space == "shared")
    return KernelNeeds(
        registers=registers if registers is not None else found.registers if found is not None else None,
        shared=static + shared,
        shared_per_thread=per_thread,
        max_threads=max_threads or bound,
        name=loaded.names.display(entry),
        reason=report.reason if registers is None else None,
    )


@dataclass(frozen=True)
class Answer:
    """Everything that the command calculates."""

    spec: DeviceSpec
    block: Dim3
    grid: Dim3 | None
    needs: KernelNeeds
    carveout: int | None

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def shared(self) -> int:
        return self.needs.shared_of(self.threads)

    @property
    def resident(self) -> Occupancy:
        return occupancy(self.spec, self.threads, self.needs.registers, self.shared, self.carveout)

    @property
    def refusal(self) -> str | None:
        """Why the device would refuse this launch for its registers or memory. Raises LaunchError for a block or grid that is none."""
        grid = self.grid or (1, 1, 1)
        check_launch(self.spec, grid, self.block, max_threads=self.needs.max_threads)
        try:
            check_launch(self.spec, grid, self.block, self.shared, self.needs.registers)
        except LaunchError as error:
            return str(error)
        return None

    @property
    def curve(self) -> list[tuple[int, Occupancy]]:
        return occupancy_curve(self.spec, self.needs.registers, self._shared, self.carveout, self.needs.max_threads)

    @property
    def best(self) -> BestBlock:
        return best_block(self.spec, self.needs.registers, self._shared, self.needs.max_threads, carveout=self.carveout)

    @property
    def _shared(self) -> int | SharedOfBlock:
        return self.needs.shared_of

    @property
    def waves(self) -> Waves | None:
        if self.grid is None or self.refusal is not None or self.resident.blocks == 0:
            return None
        return Waves(math.prod(self.grid), self.resident.blocks * self.spec.multiprocessors)

    def describe(self) -> dict[str, Any]:
        """The answer as a JSON document; sizes in bytes."""
        refusal, waves, best = self.refusal, self.waves, self.best
        return {
            "schema": 1,
            "device": f"sim:{self.spec.key}",
            "kernel": self.needs.name,
            "block": self.block,
            "threads": self.threads,
            "registers": self.needs.registers,
            "shared_bytes": self.shared,
            "shared_bytes_allocated": shared_allocated(self.spec.architecture, self.shared),
            "carveout_bytes": self.carveout or self.spec.architecture.shared_per_multiprocessor,
            "refused": refusal,
            "occupancy": self.resident.as_json(),
            "blocks_per_multiprocessor": self.resident.blocks,
            "warps_per_multiprocessor": self.resident.warps,
            "limiters": self.resident.limiters,
            "one_more_block": self.one_more_block(),
            "waves": None if waves is None else waves.describe(),
            "curve": [
                {"threads": threads, "blocks": o.blocks, "theoretical_pct": round(o.percent, 2), "limiter": o.limiter} for threads, o in self.curve
            ],
            "best": {"threads": best.threads, "min_grid": best.min_grid, "theoretical_pct": round(best.occupancy.percent, 2)},
        }

    def one_more_block(self) -> dict[str, int]:
        """What each binding resource may be at most for one more block to fit; empty where no saving helps or where none is enough."""
        resident, needs = self.resident, self.needs
        found: dict[str, int] = {}
        if "warps" in resident.limiters or "blocks" in resident.limiters:
            return found
        if "registers" in resident.limiters and needs.registers is not None:
            fewer = (r for r in range(needs.registers - 1, 0, -1) if self._with(r, self.shared).limit_registers > resident.blocks)
            if (registers := next(fewer, None)) is not None:
                found["registers"] = registers
        if "shared" in resident.limiters:
            available = self.carveout or self.spec.architecture.shared_per_multiprocessor
            granularity = self.spec.architecture.shared_granularity
            most = available // (resident.blocks + 1) // granularity * granularity - self.spec.architecture.reserved_shared_per_block
            if 0 <= most < self.shared:
                found["shared"] = most
        return found

    def _with(self, registers: int | None, shared: int) -> Occupancy:
        return occupancy(self.spec, self.threads, registers, shared, self.carveout)


@dataclass(frozen=True)
class Waves:
    """How a launch of `blocks` runs on a device that holds `capacity` of them at once."""

    blocks: int
    capacity: int

    @property
    def number(self) -> float:
        return self.blocks / self.capacity

    @property
    def last(self) -> int:
        """Blocks of the last wave."""
        return self.blocks % self.capacity or self.capacity

    @property
    def efficiency(self) -> float:
        """Of the block slots of all waves, the part that is used if all blocks take equally long."""
        return self.number / math.ceil(self.number)

    def describe(self) -> dict[str, Any]:
        return {
            "blocks": self.blocks,
            "capacity": self.capacity,
            "waves": round(self.number, 4),
            "last_wave_blocks": self.last,
            "last_wave_pct": round(100 * self.last / self.capacity, 2),
            "tail_waste_pct": round(100 * (1 - self.efficiency), 2),
        }


def _print(answer: Answer) -> None:
    from rich.table import Table
    from rich.text import Text

    refusal, resident, needs = answer.refusal, answer.resident, answer.needs
    out = console()
    registers = "unknown registers" if needs.registers is None else f"{needs.registers} registers a thread"
    title = f"{format_dim3(answer.block)} threads, {registers}, {answer.shared:,} bytes of shared memory a block on {answer.spec.name}"
    out.print(Text(f"{needs.name}: {title}" if needs.name else title, style="bold"))
    table = Table()
    table.add_column("limit")
    table.add_column("blocks that fit", justify="right")
    table.add_column("because")
    table.add_column("")
    for name, blocks, because in _limits(answer):
        binds = name in resident.limiters
        fits = "?" if name == "registers" and needs.registers is None else str(blocks)
        table.add_row(name, fits, because, "binds" if binds else "", style="bold yellow" if binds else "")
    out.print(table)
    if refusal is not None:
        out.print(Text(f"cannot be launched: {refusal}", style="bold red"))
    held = f"{_counted(resident.blocks, 'block')} × {_counted(resident.warps_per_block, 'warp')} = {resident.warps} of {resident.warps_per_multiprocessor} warps"
    lines = [f"occupancy {resident.percent:.1f} %: {held} a multiprocessor, limited by {' and '.join(resident.limiters)}"]
    units = {"registers": "registers a thread", "shared": "bytes of shared memory a block"}
    if more := answer.one_more_block():
        lines.append("one more block needs at most " + " and ".join(f"{most:,} {units[resource]}" for resource, most in more.items()))
    if needs.reason is not None:
        lines.append(f"registers unknown: {needs.reason}")
    if (waves := answer.waves) is not None:
        lines.append(
            f"waves {waves.number:.2f}: {waves.blocks:,} blocks, {waves.capacity:,} at once on {answer.spec.multiprocessors} multiprocessors; "
            f"the last wave has {waves.last:,} ({100 * waves.last / waves.capacity:.1f} %), tail {100 * (1 - waves.efficiency):.1f} %"
        )
    best = answer.best
    lines.append(
        f"best block: {best.threads} threads ({best.occupancy.percent:.1f} %), grid of at least {best.min_grid:,} blocks "
        "(as cudaOccupancyMaxPotentialBlockSize: most resident threads, of several the largest block)"
    )
    for line in lines:
        out.print(Text(line))
    out.print(_curve(answer, best))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _limits(answer: Answer) -> list[tuple[str, int, str]]:
    architecture, resident, needs = answer.spec.architecture, answer.resident, answer.needs
    per_block = resident.warps_per_block
    allocated = shared_allocated(architecture, answer.shared)
    available = answer.carveout or architecture.shared_per_multiprocessor
    if needs.registers is None:
        registers = "not known"
    else:
        granularity = architecture.register_granularity
        per_warp = -(-needs.registers * architecture.warp_size // granularity) * granularity
        registers = f"{per_warp:,} a warp × {_counted(per_block, 'warp')} = {per_warp * per_block:,} of {architecture.registers_per_multiprocessor:,}"
    return [
        ("warps", resident.limit_warps, f"{_counted(per_block, 'warp')} of {architecture.warps_per_multiprocessor}"),
        ("registers", resident.limit_registers, registers),
        (
            "shared",
            resident.limit_shared,
            f"{allocated:,} bytes of {available:,}, {architecture.reserved_shared_per_block:,} of them the system's",
        ),
        ("blocks", resident.limit_blocks, "as many as a multiprocessor has slots"),
    ]


def _curve(answer: Answer, best: BestBlock) -> Any:
    """One bar a block size."""
    from rich.text import Text

    from gridstride.report.bars import bar

    text = Text("\nthreads  occupancy\n", style="bold")
    for threads, resident in answer.curve:
        marks = [word for word, here in (("this block", threads == answer.threads), ("best", threads == best.threads)) if here]
        note = f"  ◀ {', '.join(marks)}" if marks else ""
        line = f"{threads:7}  {resident.percent:5.1f} % {bar(resident.percent / 100, _BAR):{_BAR}} {resident.limiter}{note}\n"
        text.append(line, style="bold green" if marks else "not bold")
    return text
