"""Running steps: on a device, against NumPy, with checks and counters where the device has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import gridstride as gs
from gridstride.errors import KernelFault
from gridstride.findings import Finding
from gridstride.gallery.columns import Value, values
from gridstride.gallery.model import Action, Fill, Ladder, Launch, Problem, Size, Step
from gridstride.observers.metrics.launch_metrics import LaunchMetrics


@dataclass(frozen=True)
class Run:
    """A step at one size. wrong: in a sentence, where the outputs are not what they must be; None: they are.

    launches: the counters, in order, where they were asked for; findings: of the checks, where these were; finds: kinds that are to be found.
    """

    step: str
    size: Size
    wrong: str | None
    findings: tuple[Finding, ...] = ()
    launches: tuple[LaunchMetrics, ...] = ()
    finds: tuple[str, ...] = ()

    @property
    def complaints(self) -> list[str]:
        """What is not as it must be, a sentence each. A trap must give its findings, whatever its outputs are."""
        if self.finds:
            found = {finding.kind for finding in self.findings}
            told = [f"{finding.kind}: {finding.message}" for finding in self.findings if finding.kind not in self.finds]
            return told + [f"there is no finding {kind}" for kind in self.finds if kind not in found]
        return [*([self.wrong] if self.wrong is not None else []), *(f"{finding.kind}: {finding.message}" for finding in self.findings)]

    @property
    def passed(self) -> bool:
        return not self.complaints

    @cached_property
    def modelled_us(self) -> float:
        """What the device's model says the launches take, one after the other."""
        return sum(launch.estimate_us for launch in self.launches)

    def values(self, names: Sequence[str]) -> dict[str, Value]:
        """Columns (`columns.py`) over all launches."""
        return values(self.launches, names)


class Workshop:
    """A device, and the modules that were compiled for it."""

    def __init__(self, device: gs.Device | str = "sim") -> None:
        self.device = gs.device(device) if isinstance(device, str) else device
        self._modules: dict[tuple[Path, tuple[tuple[str, str], ...]], gs.Module] = {}

    def module(self, source: Path, defines: Mapping[str, str]) -> gs.Module:
        key = (source, tuple(defines.items()))
        if key not in self._modules:
            self._modules[key] = self.device.compile(source, defines=dict(defines))
        return self._modules[key]

    def run(self, ladder: Ladder, step: Step, size: Size, *, check: bool = False, count: bool = False, source: Path | None = None) -> Run:
        """The step at one size, verified. check, count: with all checks, with all counters (the simulator has them, a GPU does not).

        source: a file to take instead of the gallery's own. Raises what compiling and launching raise, but for kernels that are stopped: that is
        the run's finding, or what is wrong where nobody checks.
        """
        problem = ladder.problem_of(step, size)
        module = self.module(source or ladder.source_of(step), ladder.defines)
        findings: tuple[Finding, ...] = ()
        launched: tuple[LaunchMetrics, ...] = ()
        with ExitStack() as looking:
            found = looking.enter_context(gs.checking()) if check else None
            counted = looking.enter_context(gs.profiling()) if count else None
            try:
                actions = step.launches(size)
                with Bench(module, problem, actions, ladder.covered(step, actions) if check else ()) as bench:
                    bench.launch()
                    wrong = bench.difference()
            except KernelFault as fault:
                wrong = str(fault)
        if found is not None:
            findings = tuple(found)
        if counted is not None:
            launched = counted.launches
        return Run(step.name, size, wrong, findings, launched, step.finds)


class Bench:
    """The arrays of a problem in a device's memory, and the launches that work on them. Memory is given back at the end of `with`.

    covers: arrays of which each launch promises to write every element exactly once, which the check `double-write` looks at.
    """

    def __init__(self, module: gs.Module, problem: Problem, actions: Sequence[Action], covers: Sequence[str] = ()) -> None:
        self.problem = problem
        self.actions = actions
        self._module = module
        self._covers = covers
        self._inputs = {name: values for name, data in problem.arrays.items() if (values := data.host()) is not None}
        self.arrays: dict[str, gs.Array] = {}
        try:
            for name, data in problem.arrays.items():
                array = module.device.empty(data.shape, data.numpy_type, name=name)
                self.arrays[name] = array
                if name in self._inputs:
                    array.copy_from(self._inputs[name])
        except BaseException:
            self.free()
            raise

    def launch(self, stream: gs.Stream | None = None) -> None:
        """Ask for all launches; without a stream they are waited for."""
        for action in self.actions:
            if isinstance(action, Fill):
                self.arrays[action.array].fill(action.value, stream=stream)
            else:
                self._launch(action, stream)
        if stream is None:
            self._module.device.synchronize()

    def _launch(self, launch: Launch, stream: gs.Stream | None) -> None:
        arguments = [self.arrays[a] if isinstance(a, str) else a for a in launch.arguments]
        options: dict[str, Any] = {"shared": launch.shared, "cooperative": launch.cooperative, "cluster": launch.cluster}
        kernel = self._module[launch.kernel]
        covered = [parameter for parameter, argument in zip(kernel.argument_names, launch.arguments, strict=True) if argument in self._covers]
        if covered:
            kernel = kernel.with_contract(gs.Contract(covers=tuple(covered)))
        kernel[launch.grid, launch.block](*arguments, stream=stream, **options)

    def difference(self) -> str | None:
        """In a sentence, how the outputs differ from NumPy's; None where they do not."""
        expected = self.problem.reference(self._inputs)
        for name, wanted in expected.items():
            got = self.arrays[name].numpy()
            told = _difference(name, got, np.asarray(wanted), self._tolerance(name), name in self.problem.unordered)
            if told is not None:
                return told
        return None

    def _tolerance(self, name: str) -> float:
        allowed = self.problem.tolerance
        if callable(allowed):
            return allowed(self._inputs)
        return allowed[name] if isinstance(allowed, Mapping) else allowed

    def free(self) -> None:
        for array in self.arrays.values():
            array.free()
        self.arrays.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.free()


def _difference(name: str, got: npt.NDArray[Any], wanted: npt.NDArray[Any], tolerance: float, unordered: bool) -> str | None:
    if wanted.shape != got.shape:
        return f"{name} has the shape {got.shape}, NumPy's {wanted.shape}"
    if unordered:
        got, wanted = np.sort(got, axis=None), np.sort(wanted, axis=None)
    off = ~(np.abs(got.astype(np.float64) - wanted.astype(np.float64)) <= tolerance) if tolerance else got != wanted
    count = int(np.count_nonzero(off))
    if not count:
        return None
    place = tuple(int(index) for index in np.argwhere(off)[0])
    where = f"{name}[{', '.join(map(str, place))}]" if place else name
    more = f"; {count:,} of {off.size:,} elements differ" if count > 1 else ""
    return f"{where} is {got[place]!s}, NumPy says {wanted[place]!s}{more}"


