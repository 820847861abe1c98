"""What a checked launch on the simulator found, in the words of its source: the scene, the findings, the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridstride.errors import KernelFault
from gridstride.findings import Finding, Site
from gridstride.lower.kernel import shared_layout
from gridstride.machine.launch_options import LaunchOptions
from gridstride.machine.memory import Memory
from gridstride.machine.program import Program
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks import launch_shape
from gridstride.observers.checks.scene import Scene, SharedVariable, plain_variable
from gridstride.observers.checks.tell import tell_all
from gridstride.passes.analyse_shapes import LaneLayout
from gridstride.passes.select_operations import select_operations
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.device import LaunchShape

if TYPE_CHECKING:
    from gridstride.frontends.source import LoadedSource
    from gridstride.runtime.module import Kernel


def tell_launch(
    kernel: Kernel,
    program: Program,
    shape: LaunchShape,
    options: LaunchOptions,
    memory: Memory,
    names: Mapping[int, str],
    raw: Sequence[object],
) -> list[Finding]:
    """The findings of one launch, from what native code noted down. Call it while the launch's memory is still there."""
    noted = [one for one in raw if isinstance(one, RawFinding)]
    if not noted:
        return []
    return tell_all(noted, scene_of(kernel, program, shape, options, memory, names))


def scene_of(
    kernel: Kernel, program: Program, shape: LaunchShape, options: LaunchOptions, memory: Memory, names: Mapping[int, str]
) -> Scene:
    """The launch as findings see it."""
    code = program.entry(kernel.entry).code(LaneLayout.of(shape.block), options.profile, options.checks).code
    variables = select_operations(program.module, kernel.entry).shared
    offsets, _ = shared_layout(variables)
    shared = [SharedVariable(plain_variable(n), offset, variables[n].size or 0) for n, offset in sorted(offsets.items(), key=lambda item: item[1])]
    return Scene(kernel.name, shape.grid, shape.block, code.sites, program.file_names, memory, names, shared, source_lines(kernel.module.source).line)


def shape_findings(kernel: Kernel, program: Program, shape: LaunchShape) -> list[Finding]:
    """The warning for a launch in dimensions that the kernel never looks at."""
    found = launch_shape.duplicate_work(
        launch_shape.index_use(program.module, kernel.entry), kernel.name, shape.grid, shape.block, kernel_site(kernel, program)
    )
    return [] if found is None else [found]


def kernel_site(kernel: Kernel, program: Program) -> Site:
    """Where the kernel begins."""
    function = program.entry(kernel.entry).function
    first = next((i.loc for i in function.body if i.loc is not None and i.loc.inlined_at is None), None)
    if first is None:
        return Site(ptx_line=function.line)
    return Site(program.file_names.get(first.file), first.line, function.line)


def source_lines(source: LoadedSource) -> SourceLines:
    """Finds the lines of a module's source, whether it was a file or a text."""
    files = dict(source.compiled.files) if source.compiled is not None else {}
    texts = {str(name): text for name, text in files.items()}
    if source.path is None:
        texts[source.name] = source.text
    return SourceLines(source.path.parent if source.path is not None else None, texts)


_IN_PYTHON = {
    "__syncthreads()": "cuda.syncthreads()",
    "__syncwarp()": "cuda.syncwarp()",
    "__syncwarp:": "syncwarp:",
    "__threadfence()": "cuda.threadfence()",
    "atomicAdd": "cuda.atomic.add",
}
"""What findings call by the names of CUDA C++, as Numba has it."""


def in_its_language(finding: Finding, source: LoadedSource) -> Finding:
    """The finding in the words of the language that the kernel is written in."""
    if source.python is None:
        return finding
    message, advice = finding.message, finding.advice
    for theirs, ours in _IN_PYTHON.items():
        message, advice = message.replace(theirs, ours), advice.replace(theirs, ours)
    return replace(finding, message=message, advice=advice)


def fault_finding(fault: KernelFault) -> list[Finding]:
    """What stopped a kernel, as a finding."""
    return [fault.fault] if isinstance(fault.fault, Finding) else []
