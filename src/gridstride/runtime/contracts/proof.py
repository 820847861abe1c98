"""Proof runs: a kernel with a contract is run in the simulator for sizes around the borders of its blocks, with all checks on.

What such a proof shows is what its runs showed: for these sizes and these arguments each element had its one thread. It says nothing of others.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from gridstride.errors import KernelFault, UsageError
from gridstride.findings import Dim3, Finding
from gridstride.machine.limits import AXES, as_dim3, format_dim3
from gridstride.observers.checks import CHECKS
from gridstride.observers.checks.tell import fold
from gridstride.runtime.array import Array
from gridstride.runtime.checking import session
from gridstride.runtime.contracts.bound import BoundContract
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.contracts.for_each import usual_block
from gridstride.runtime.contracts.proof_arguments import default_argument, extent_scalars
from gridstride.runtime.contracts.sizes import boundary_extents
from gridstride.runtime.device import Device
from gridstride.runtime.opening import device as open_device
from gridstride.runtime.simulated_module import SimulatedModule
from gridstride.runtime.simulator import Simulator

if TYPE_CHECKING:
    from gridstride.runtime.module import Kernel, Module

MakeArguments = Callable[..., Sequence[Any]]
"""`make(device, *extent)`: the arguments for one size, their arrays made on `device`."""
_SIZES_SHOWN = 12


@dataclass(frozen=True)
class ProvenLaunch:
    """One run of a proof. covered: elements of each output that had to be written by one thread each."""

    extent: tuple[int, ...]
    grid: Dim3
    block: Dim3
    covered: Mapping[str, int]

    @property
    def shape(self) -> str:
        return f"grid {format_dim3(self.grid)}, block {format_dim3(self.block)}"


@dataclass(frozen=True)
class Counterexample:
    """The first run that did not keep the contract, and what was found in it."""

    launch: ProvenLaunch
    finding: Finding


@dataclass(frozen=True)
class Proof:
    """What the runs of a proof showed, up to the first that failed."""

    kernel: str
    contract: Contract
    device: str
    launches: tuple[ProvenLaunch, ...]
    counterexample: Counterexample | None
    checks: tuple[str, ...]
    warnings: tuple[Finding, ...] = field(default=(), repr=False)

    @property
    def passed(self) -> bool:
        return self.counterexample is None

    def __bool__(self) -> bool:
        return self.passed

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes that were run without an error, the smallest first."""
        return tuple(sorted({launch.extent for launch in self.launches}, key=lambda extent: (math.prod(extent), extent)))

    @property
    def covered(self) -> dict[str, int]:
        """Elements of each output over all runs without an error."""
        total = dict.fromkeys(self.contract.outputs, 0)
        for launch in self.launches:
            for name, count in launch.covered.items():
                total[name] += count
        return total

    def size(self, extent: Sequence[int]) -> str:
        """ "n = 257", "width = 31, height = 1"."""
        return ", ".join(f"{text} = {n:,}" for text, n in zip(self.contract.extent, extent, strict=True))

    def __str__(self) -> str:
        sizes = [self._short(extent) for extent in self.sizes]
        shown = sizes if len(sizes) <= _SIZES_SHOWN else [*sizes[: _SIZES_SHOWN - 2], "…", sizes[-1]]
        runs = f"{len(sizes)} size{'' if len(sizes) == 1 else 's'} ({', '.join(shown)}), {len(self.launches)} launch{'' if len(self.launches) == 1 else 'es'}"
        if self.counterexample is not None:
            failed, found = self.counterexample.launch, self.counterexample.finding
            before = f"\n{runs} before it had no error" if sizes else ""
            return f"{self.kernel}: counterexample at {self.size(failed.extent)} ({failed.shape}): {found.kind}: {found.message}{before}"
        lines = [f"{self.kernel}: proved for {runs} on {self.device}"]
        for name, count in self.covered.items():
            how = "each written by exactly one thread, none left out, nothing outside" if name in self.contract.covers else "none written by two threads"
            lines.append(f"  {name}: {count:,} elements, {how}")
        lines.append(f"  no error of these checks: {', '.join(self.checks)}")
        lines += [f"  warning: {found.kind}: {found.message}" for found in self.warnings]
        lines.append("  This is what these runs showed; other sizes and other arguments were not run.")
        return "\n".join(lines)

    def _short(self, extent: tuple[int, ...]) -> str:
        return " × ".join(f"{n:,}" for n in extent)

    def as_json(self) -> dict[str, Any]:
        """The proof as data for programs."""
        failed = self.counterexample
        return {
            "kernel": self.kernel,
            "device": self.device,
            "status": "proved" if self.passed else "counterexample",
            "extent": list(self.contract.extent),
            "launches": [_launch_json(launch) for launch in self.launches],
            "covered": self.covered,
            "checks": list(self.checks),
            "counterexample": None if failed is None else {**_launch_json(failed.launch), "finding": failed.finding.as_json()},
            "warnings": [found.as_json() for found in self.warnings],
        }


def _launch_json(launch: ProvenLaunch) -> dict[str, Any]:
    return {"size": list(launch.extent), "grid": list(launch.grid), "block": list(launch.block), "covered": dict(launch.covered)}


def prove(
    kernel: Kernel,
    *,
    arguments: MakeArguments | None = None,
    values: Mapping[str, Any] | None = None,
    sizes: Sequence[int | Sequence[int]] = (),
    boundaries: bool = True,
    blocks: Sequence[Any] = (),
    prepare: Callable[[Module], object] | None = None,
    step: Callable[[str], object] = lambda text: None,
) -> Proof:
    """Run a kernel with a contract in the simulator, in memory of its own, for sizes around the borders of its blocks; stop at the first error.

    arguments: `make(device, *extent)` gives the arguments for a size, whose elements along x, y, z it is told. Without it the extent's parameters
    get the size, scalars what `values` says (floats 1.5), inputs random values of as many elements as the contract says (else as the extent has),
    and outputs memory that nobody wrote. sizes: more sizes; boundaries=False: only these. blocks: shapes of the block to try, where the contract
    leaves it open. prepare: called with the module before the first launch, to fill its variables. step: told of each run before it starts.

    Along axes with grid-stride loops smaller grids are tried too. Raises UsageError for a kernel without a contract or an extent, and where
    arguments cannot be guessed.
    """
    contract, bound = kernel.contract, kernel.bound
    if contract is None or bound is None:
        raise UsageError(f"{kernel.name} has no contract to prove; give it one (docs/contracts.md)")
    if not contract.extent:
        raise UsageError(f"the contract of {kernel.name} has no extent, so there are no sizes to prove it for")
    module = _simulated(kernel)
    own = module[kernel.entry].with_contract(contract)
    if prepare is not None:
        prepare(module)
    extra = [_size(kernel.name, size, len(contract.extent)) for size in sizes]
    make = arguments or _maker(bound, own, values or {})
    done: list[ProvenLaunch] = []
    warnings: list[Finding] = []
    checks: set[str] = set()
    for extent, block in _cases(contract, _blocks(kernel, contract, blocks), extra, boundaries):
        step(" × ".join(map(str, extent)))
        for grid in _grids(contract, extent, block):
            launch, found, looked_at = _run(own, module.device, make, extent, grid, block)
            checks |= set(looked_at)
            error = next((one for one in found if one.severity == "error"), None)
            warnings += [one for one in found if one.severity == "warning"]
            if error is not None:
                return Proof(kernel.name, contract, module.device.name, tuple(done), Counterexample(launch, error), _in_order(checks), tuple(fold(warnings)))
            done.append(launch)
    if not done:
        raise UsageError(f"no size was given to prove {kernel.name} for")
    return Proof(kernel.name, contract, module.device.name, tuple(done), None, _in_order(checks), tuple(fold(warnings)))


def _in_order(kinds: set[str]) -> tuple[str, ...]:
    """Kinds of findings as the manual has them."""
    return tuple(check.kind for check in CHECKS if check.kind in kinds)


def _simulated(kernel: Kernel) -> SimulatedModule:
    """The kernel's module on a simulator of its own."""
    module = kernel.module
    if isinstance(module, SimulatedModule):
        spec = module.device.spec
        device = Simulator(spec, seed=module.device.seed, budget=module.device.budget, lockstep=module.device.lockstep, blocking=True)
        return SimulatedModule(device, module.source, module.program)
    opened = open_device("sim", blocking=True)
    assert isinstance(opened, Simulator)
    return SimulatedModule(opened, module.source)


def _size(kernel: str, size: Any, axes: int) -> tuple[int, ...]:
    extent = tuple(size) if isinstance(size, Sequence) else (size,)
    if len(extent) != axes or not all(isinstance(n, int) and n >= 0 for n in extent):
        raise UsageError(f"a size for {kernel} has {axes} whole number{'s' if axes > 1 else ''} of at least 0, not {size!r}")
    return extent


def _blocks(kernel: Kernel, contract: Contract, asked: Sequence[Any]) -> list[Dim3]:
    """The shapes of the block to try: the contract's, those asked for, or a few that it allows."""
    if contract.block is not None:
        return [contract.block]
    if asked:
        return [as_dim3(block, "block") for block in asked]
    usual = usual_block(kernel)
    threads = usual[0] * usual[1] * usual[2]
    others: list[Dim3] = [(64, 1, 1), (48, 1, 1)] if contract.axes == 1 else [(16, 4, 1), (8, 6, 1)] if contract.axes == 2 else [(8, 4, 2), (4, 3, 4)]
    return [usual, *(b for b in others if b[0] * b[1] * b[2] % contract.block_multiple_of == 0 and b[0] * b[1] * b[2] <= threads and b != usual)]


def _cases(
    contract: Contract, blocks: Sequence[Dim3], extra: Sequence[tuple[int, ...]], boundaries: bool
) -> Iterator[tuple[tuple[int, ...], Dim3]]:
    for block in blocks:
        around = boundary_extents(contract.elements_of_block(block), guarded=contract.guard, nonempty=contract.nonempty) if boundaries else []
        # an axis whose length the contract fixes has no other
        fixed = (tuple(int(text) if text.isdecimal() else n for text, n in zip(contract.extent, extent, strict=True)) for extent in around)
        for extent in dict.fromkeys(chain(fixed, extra)):
            yield extent, block


def _grids(contract: Contract, extent: tuple[int, ...], block: Dim3) -> list[Dim3]:
    """The grid that reaches everything, and smaller ones where threads go on a grid further."""
    whole = contract.dimensions(extent, block)
    one, half = ([n if axis not in contract.grid_stride else max(1, shrink(n)) for axis, n in zip(AXES, whole, strict=True)] for shrink in (_one, _half))
    return list(dict.fromkeys([whole, (one[0], one[1], one[2]), (half[0], half[1], half[2])]))


def _one(blocks: int) -> int:
    return 1


def _half(blocks: int) -> int:
    return (blocks + 1) // 2


def _maker(bound: BoundContract, kernel: Kernel, values: Mapping[str, Any]) -> MakeArguments:
    unknown = [name for name in values if name not in bound.positions]
    if unknown:
        raise UsageError(f"{kernel.name} has no parameter {unknown[0]!r} to give a value to")

    def make(device: Device, *extent: int) -> list[Any]:
        scalars = {**values, **extent_scalars(bound, extent)}
        return [default_argument(bound, parameter, scalars, device) for parameter in kernel.parameters]

    return make


def _run(
    kernel: Kernel, device: Simulator, make: MakeArguments, extent: tuple[int, ...], grid: Dim3, block: Dim3
) -> tuple[ProvenLaunch, list[Finding], tuple[str, ...]]:
    """One launch under all checks, on arguments of its own; what was found, double writes first, and what was looked for."""
    arguments = list(make(device, *extent))
    bound = kernel.bound
    assert bound is not None
    told = ProvenLaunch(extent, grid, block, {})
    found: list[Finding] = []
    with session() as findings:
        flat = kernel.flat(arguments)
        scalars = bound.scalars(flat) if len(flat) == len(kernel.parameters) else {}
        command = kernel[grid, block].command(arguments, shared=bound.shared(block, scalars))
        if bound.extent(scalars) != extent:
            raise UsageError(f"the arguments for {kernel.name} at {extent} say that the extent is {bound.extent(scalars)}")
        told = ProvenLaunch(extent, grid, block, {output.parameter: output.elements for output in command.outputs})
        try:
            device.launch(command)
            # reading the outputs tells of undefined values, unless it is known already that some were not written
            if not findings.errors:
                for output in command.outputs:
                    output.array.numpy()
        except KernelFault as fault:
            if fault.code == "interrupted":
                raise
            found = [fault.fault] if isinstance(fault.fault, Finding) else []
    found += [one for one in findings if one not in found]
    found.sort(key=lambda one: one.kind != "double-write")
    for argument in arguments:
        if isinstance(argument, Array):
            with contextlib.suppress(UsageError):  # views of one array
                argument.free()
    return told, found, findings.receipt.checks
