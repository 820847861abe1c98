"""`gridstride compile`: CUDA C++ and Python to PTX, what each kernel needs, and the machine code beside its source."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gridstride.arguments import parse_arguments
from gridstride.cli.options import console, write_json
from gridstride.errors import UsageError
from gridstride.frontends.cuda_cpp import real_arch
from gridstride.frontends.numba_compile import compile_function
from gridstride.frontends.numba_cuda import fitting, python_function
from gridstride.frontends.python_module import find_function, kernel_names, load_functions, python_reference
from gridstride.frontends.resources import ResourceReport
from gridstride.frontends.sass import machine_code
from gridstride.frontends.source import LoadedSource, load_source, python_source
from gridstride.ptx.parser import parse
from gridstride.report import sass as sass_report
from gridstride.report.source_lines import SourceLines
from gridstride.runtime.python_module import request_types

_WIDE = 110
"""Characters that the table needs to have a column for each number."""


def command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A .cu or .ptx file, or module.py:function for a Python kernel.")],
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="Compute capability to compile for: sm_90, sm_80, 7.5, …")] = "sm_90",
    include: Annotated[
        list[Path] | None, typer.Option("-I", "--include", metavar="FOLDER", help="Look for headers here. Repeat for more.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="Define a macro. Repeat for more.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="OPTION", help="An option for the compiler, such as --use_fast_math. Repeat for more."),
    ] = None,
    kernel: Annotated[str | None, typer.Option("--kernel", metavar="NAME", help="Only this kernel.")] = None,
    template: Annotated[
        list[str] | None, typer.Option("--template", metavar="'NAME<…>'", help="Compile this template instance. Repeat for more.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="NAME=VALUE", help="An argument of a Python kernel, for its type: n=1000, x=f32\\[n]. Repeat for each; not where it declares its types."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the PTX to FILE.")] = None,
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX instead of the table; with --kernel, that kernel's alone.")] = False,
    sass: Annotated[
        bool,
        typer.Option(
            "--sass", help="Print the machine code instead of the table, beside source and PTX: strides decoded, changed accesses marked."
        ),
    ] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON to FILE (- for standard output).")
    ] = None,
) -> None:
    """Compile CUDA C++ or a Python kernel to PTX and show what each kernel needs: registers, spills, stack, shared memory, barriers.

    --sass needs NVIDIA's nvdisasm (`pip install 'gridstride\\[sass]'`), and for a .ptx file ptxas (`pip install nvidia-cuda-nvcc`). Host code in the file is left out. Warnings go to standard error. Exit status 2 when the source does not compile.
    """
    if python_reference(source) is not None:
        for given, name in ((include, "--include"), (define, "--define"), (option, "--option"), (template, "--template")):
            if given:
                raise UsageError(f"{name} is for CUDA C++; {source} is Python")
        loaded = _compiled_python(source, kernel, arg or (), real_arch(arch))
        kernel = None
    elif arg:
        raise UsageError(f"--arg gives a Python kernel its types; {source} has its own")
    else:
        loaded = load_source(
            Path(source), arch=arch, include_dirs=include or (), defines=define or (), options=option or (), name_expressions=template or ()
        )
    if template and loaded.compiled is None:
        raise UsageError(f"{source} is PTX: templates can only be instantiated from CUDA C++")
    if kernel is not None:
        loaded = loaded.with_kernel(kernel)
    entries = list(loaded.names.entries) if kernel is None else [loaded.entry(kernel)]
    if loaded.log:
        print(loaded.log, file=sys.stderr)
    if output is not None:
        _write(output, loaded.ptx)
    if ptx:
        sys.stdout.write(loaded.ptx if kernel is None else entry_text(loaded.ptx, entries[0]))
        if json is None and not sass:
            return
    machine = _machine_code(loaded, arch, entries) if sass else None
    if machine is not None and json != "-":
        _print_machine_code(loaded, machine, arch)
        if json is None:
            return
    report = loaded.resource_report(None if loaded.kind != "ptx" else arch)
    if json is not None:
        document = describe(loaded, report, entries)
        if machine is not None:
            document["sass"] = [sass_report.describe(listing, loaded.names.display(entry)) for entry, listing in machine.items()]
        write_json(json, document)
    if json != "-" and not ptx and not sass:
        _print(loaded, report, entries)


def _compiled_python(source: str, kernel: str | None, texts: Sequence[str], arch: str) -> LoadedSource:
    """A kernel of a Python file as PTX for an architecture. texts: its arguments as `--arg` has them, for their types; none of them where it
    declares one signature. Raises UsageError, CompileError, UnsupportedError."""
    reference = python_reference(source)
    assert reference is not None
    file, named = reference
    names = load_functions(file)
    known = kernel_names(names)
    name = kernel or named or (known[0] if len(known) == 1 else None)
    if name is None:
        raise UsageError(f"say which kernel of {file} to compile, as in {file}:{known[0] if known else 'saxpy'}")
    function = python_function(find_function(names, name, file))
    if not texts and len(function.signatures) == 1:
        return python_source(compile_function(function, function.signatures[0], arch))
    parsed = parse_arguments(texts, name, [(parameter,) for parameter in function.parameters])
    return python_source(compile_function(function, fitting(function, request_types(function, parsed.arguments)), arch))


def describe(loaded: LoadedSource, report: ResourceReport, entries: list[str]) -> dict[str, Any]:
    """The report as a JSON document; sizes are in bytes. A kernel's `resources` are null where nobody can tell, and `reason` says why."""
    return {
        "schema": 1,
        "source": loaded.name,
        "kind": loaded.kind,
        "arch": report.arch,
        "reason": report.reason,
        "log": loaded.log,
        "kernels": [
            {
                "name": loaded.names.display(entry),
                "entry": entry,
                "parameters": _parameters(loaded, entry),
                "resources": report.kernels[entry].to_json() if entry in report.kernels else None,
            }
            for entry in entries
        ],
    }


def _machine_code(loaded: LoadedSource, arch: str, entries: list[str]) -> dict[str, sass_report.KernelListing]:
    """The kernels' machine code by entry: on `arch` for PTX, on the architecture it was compiled for for CUDA C++ (which is the same)."""
    listing = machine_code(loaded, arch)
    module = parse(loaded.ptx)
    return {entry: sass_report.list_kernel(module, listing, entry) for entry in entries if entry in listing.kernels}


def _print_machine_code(loaded: LoadedSource, machine: dict[str, sass_report.KernelListing], arch: str) -> None:
    folder = None if loaded.path is None else loaded.path.absolute().parent
    sources = SourceLines(folder, {} if loaded.path is not None else {loaded.name: loaded.text})
    target = real_arch(arch)
    for entry, listing in machine.items():
        console().print(sass_report.render(listing, loaded.names.display(entry), target, loaded.ptx, sources))


def _parameters(loaded: LoadedSource, entry: str) -> list[dict[str, str | None]]:
    if loaded.python is not None:
        return [{"name": argument.name, "type": argument.spelled} for argument in loaded.python.arguments]
    known = loaded.parameters(entry)
    if known is not None:
        return [{"name": p.name or None, "type": p.type} for p in known]
    names = loaded.parameter_names(entry) or (None,) * len(loaded.parameters_by_entry[entry])
    return [{"name": name, "type": None} for name in names]


def entry_text(ptx: str, entry: str) -> str:
    """The PTX of one entry function, from its linkage to its closing brace. Raises UsageError when the text has no such entry."""
    match = re.search(rf"^[^\n]*\.entry\s+{re.escape(entry)}(?![\w$])", ptx, re.MULTILINE)
    if match is None:
        raise UsageError(f"there is no entry {entry} in this PTX")
    depth = 0
    # Comments and strings of `.file`-like directives inside a function hold no braces of their own in what the compiler writes.
    for brace in re.finditer(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|[{}]", ptx[match.start() :], re.DOTALL):
        if brace.group() == "{":
            depth += 1
        elif brace.group() == "}":
            depth -= 1
            if depth == 0:
                return ptx[match.start() : match.start() + brace.end()] + "\n"
    return ptx[match.start() :]


def _write(output: Path, ptx: str) -> None:
    try:
        output.write_text(ptx, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


def _print(loaded: LoadedSource, report: ResourceReport, entries: list[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not entries:
        templates = ", ".join(sorted(loaded.names.templates))
        more = f"; it has templates ({templates}): name an instance with --template" if templates else ""
        print(f"{loaded.name} compiles for {report.arch} and has no kernels{more}")
        return
    version = re.search(r"^\.version\s+(\S+)", loaded.ptx, re.MULTILINE)
    table = Table(title=f"{loaded.name}: PTX {version.group(1) if version else '?'}, resources on {report.arch}", title_justify="left")
    out = console()
    wide = out.width >= _WIDE
    columns = ("kernel", "registers", "shared B", "stack B", "spill stores B", "spill loads B", "barriers", "parameters")
    if wide:
        for column in columns:
            text = column in ("kernel", "parameters")
            table.add_column(column, justify="left" if text else "right", overflow="fold")
    else:  # a kernel below the other, what is a column otherwise in a row of its own
        table.show_header = False
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
    for entry in entries:
        need = report.kernels.get(entry)
        numbers = ["-"] * 6
        if need is not None:
            numbers = [
                str(n)
                for n in (need.registers, need.shared_bytes, need.stack_bytes, need.spill_store_bytes, need.spill_load_bytes, need.barriers)
            ]
        # Text, not markup: a name may hold brackets.
        row = (Text(loaded.names.display(entry)), *map(Text, numbers), Text(_parameter_text(loaded, entry)))
        if wide:
            table.add_row(*row)
        else:
            for column, cell in zip(columns, row, strict=True):
                table.add_row(column, cell, end_section=column == columns[-1], style="bold" if column == "kernel" else None)
    out.print(table)
    if report.reason is not None:
        print(f"No resources: {report.reason}")


def _parameter_text(loaded: LoadedSource, entry: str) -> str:
    parts = []
    for position, parameter in enumerate(_parameters(loaded, entry)):
        words = [word for word in (parameter["type"], parameter["name"]) if word]
        parts.append(" ".join(words) or f"#{position}")
    return ", ".join(parts)
