"""`gridstride prove`: kernels with a launch contract, run in the simulator for sizes around the borders of their blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from gridstride import arguments
from gridstride.cases import upload
from gridstride.cli import options, running
from gridstride.errors import GridstrideError, UsageError
from gridstride.report import findings_text
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.contracts.notation import parse_contract
from gridstride.runtime.contracts.proof import Proof
from gridstride.runtime.contracts.proof_arguments import default_argument, extent_scalars
from gridstride.runtime.device import Device
from gridstride.runtime.expressions import Number
from gridstride.runtime.module import Kernel, Module
from gridstride.runtime.opening import device as open_device
from gridstride.runtime.pointer import pointer
from gridstride.runtime.python_kernel import PythonKernel
from gridstride.runtime.python_module import PythonModule
from gridstride.runtime.request import Buffer, RawPointer, Scalar


def command(
    source: running.SourceArgument,
    kernel: Annotated[str | None, typer.Argument(metavar="KERNEL", help="Which kernel; left out: all that have a contract.", show_default=False)] = None,
    contract: Annotated[
        str | None, typer.Option(metavar="CLAUSES", help="The contract, where the source has none: 'extent=n block=256 covers=y'.", show_default=False)
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An argument, as for launch; sizes may use the extent: w=f32\\[2*n]. Others are made. Repeat for each."),
    ] = None,
    size: Annotated[list[str] | None, typer.Option(metavar="N|WxH", help="One more size to prove it for. Repeat for more.")] = None,
    only_sizes: Annotated[bool, typer.Option("--only-sizes", help="Only the sizes of --size, none around the borders of blocks.")] = False,
    block: Annotated[
        list[str] | None, typer.Option(metavar="X[,Y[,Z]]", help="Threads a block to try, where the contract leaves it open. Repeat for more.")
    ] = None,
    include: running.IncludeOption = None,
    define: running.DefineOption = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Which GPU to simulate: sim, sim:NAME.")] = "sim",
    seed: running.SeedOption = None,
    budget: running.BudgetOption = None,
    json: running.JsonOption = None,
) -> None:
    """Run kernels in the simulator for sizes around the borders of their blocks, all checks on, and see that each run keeps the launch contract.

    Each element of the outputs that the contract covers has to be written by exactly one thread. The result is what these runs showed: the sizes, the
    elements, or the first counterexample with both threads and lines.

    Exit status: 0 proved for these sizes, 1 there is a counterexample, 2 bad input, 3 something unsupported, 130 interrupted.
    """
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        running.require_writable(json)
        if device != "auto" and not device.startswith("sim"):
            raise UsageError(f"a proof runs in the simulator, not on `{device}`: name a simulated device, such as sim:h200")
        target = open_device("sim" if device == "auto" else device, seed=seed, budget=budget, blocking=True)
        module = running.WhatToRun(source, kernel, include=include or (), define=define or ()).load(target)
        sizes, blocks = [_size(text) for text in size or ()], [options.parse_dim3(text, "--block") for text in block or ()]
        with _progress() as step:
            proofs = [
                chosen.prove(arguments=_Given.of(chosen, arg or ()).arguments, sizes=sizes, boundaries=not only_sizes, blocks=blocks, step=step)
                for chosen in _chosen(module, kernel, contract)
            ]
        if json is not None:
            options.write_json(str(json), {"schema": 1, "proofs": [proof.as_json() for proof in proofs]})
    except GridstrideError as error:
        errors.print(Text(f"gridstride: {error}"))
        raise typer.Exit(error.exit_status) from None
    if json != running.STANDARD_OUTPUT:
        _show(proofs, errors, Path(source))
    raise typer.Exit(int(not all(proof.passed for proof in proofs)))


def _chosen(module: Module | PythonModule, name: str | None, contract: str | None) -> list[Kernel | PythonKernel]:
    """The kernels to prove. Raises UsageError where there are none."""
    if name is None and isinstance(module, PythonModule):
        name = module.function
    if name is not None:
        kernel = module[name]
        return [kernel if contract is None else kernel.with_contract(parse_contract(contract))]
    if contract is not None:
        raise UsageError("--contract is about one kernel: say which")
    kernels: list[Kernel | PythonKernel] = [module[each] for each in module]
    found = [each for each in kernels if each.contract is not None]
    if not found:
        raise UsageError(
            "no kernel of the source has a contract; write one above it, as in `// gridstride: contract extent=n block=256 covers=y` "
            "(or `@gs.contract(…)`), or give --contract"
        )
    return found


def _size(text: str) -> tuple[int, ...]:
    parts = text.lower().replace("×", "x").replace(",", "x").split("x")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--size {text}: write a whole number for each axis, as in 1000 or 640x480")
    return tuple(int(part) for part in parts)


def _names_of(kernel: Kernel | PythonKernel) -> tuple[str, ...]:
    return kernel.function.parameters if isinstance(kernel, PythonKernel) else tuple(p.name for p in kernel.parameters)


@dataclass(frozen=True)
class _Given:
    """What --arg says, by the parameters' names: the text as given, and what stands right of the `=`."""

    kernel: Kernel | PythonKernel
    values: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, kernel: Kernel | PythonKernel, texts: Sequence[str]) -> _Given:
        """Raises UsageError for a text that is wrong."""
        if isinstance(kernel, PythonKernel):
            names = {name: name for name in kernel.function.parameters}
        else:
            names = {name: p.name for p in reversed(kernel.parameters) for name in (f"p{p.position}", p.ptx_name, p.name)}
        values: dict[str, tuple[str, str]] = {}
        extent = kernel.contract.extent if kernel.contract is not None else ()
        for text in texts:
            name, equals, value = text.partition("=")
            known = names.get(name.strip())
            if not equals or known is None:
                raise UsageError(f"--arg {text}: write NAME=VALUE with a parameter of {kernel.name}: {', '.join(_names_of(kernel))}")
            if known in values:
                raise UsageError(f"--arg {text}: the parameter {known!r} already has an argument")
            if known in extent:
                raise UsageError(f"--arg {text}: {known} is the extent, which goes through many sizes; more of them are given by --size")
            values[known] = text, value.strip()
        return cls(kernel, values)

    def arguments(self, device: Device, *extent: int) -> list[Any]:
        """The arguments for a size; those that --arg leaves out are made. Sizes may use the extent: by its parameters, and as width, height, depth."""
        kernel = self.kernel
        assert kernel.contract is not None
        scalars: dict[str, Number] = dict(zip(("width", "height", "depth"), extent, strict=False))
        scalars |= {"n": extent[0]} if len(extent) == 1 else {}
        scalars |= zip(kernel.contract.extent, extent, strict=True)
        values = {name: self._read(device, name, position, scalars) for position, name in enumerate(self.values)}
        if isinstance(kernel, PythonKernel):
            return [self._of_python(name, values, scalars) for name in kernel.function.parameters]
        assert kernel.bound is not None
        own = extent_scalars(kernel.bound, extent) if len(values) < len(kernel.parameters) else {}
        own |= {name: value for name, value in scalars.items() if name in self.values}
        bound = kernel.bound
        return [values[p.name] if p.name in values else default_argument(bound, p, own, device) for p in kernel.parameters]

    def _of_python(self, name: str, values: Mapping[str, Any], scalars: Mapping[str, Number]) -> Any:
        assert self.kernel.contract is not None
        if name in values:
            return values[name]
        if name in self.kernel.contract.extent:
            return scalars[name]
        raise UsageError(f"{self.kernel.name} is Python, whose parameters have any type: give --arg {name}=…, as in --arg '{name}=f32[n]:uniform'")

    def _read(self, device: Device, name: str, position: int, scalars: dict[str, Number]) -> Any:
        text, value = self.values[name]
        try:
            argument = arguments.parse_value(value, position, scalars)
        except UsageError as error:
            raise UsageError(f"--arg {text}: {error}") from None
        match argument:
            case Scalar(number):
                scalars[name] = number.item() if isinstance(number, np.generic) else number
                return number
            case RawPointer(address):
                return pointer(address)
            case Buffer():
                return upload(device, argument, name)


def _show(proofs: Sequence[Proof], errors: Console, source: Path) -> None:
    out = options.console()
    for proof in proofs:
        out.print(Text(str(proof)), highlight=False, soft_wrap=True)
        if proof.counterexample is not None:
            errors.print(findings_text.finding(proof.counterexample.finding, SourceLines(source.parent, running.ptx_text(source))))


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """Say on a terminal which size is running."""
    notes = Console(stderr=True)
    if not notes.is_terminal:
        yield lambda size: None
        return
    with notes.status("starting") as status:
        yield lambda size: status.update(f"size {size}")

