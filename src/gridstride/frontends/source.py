"""One door for everything that holds kernels: CUDA C++ or PTX, as a file or as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from gridstride.cache import DiskCache, key_of
from gridstride.errors import UnsupportedError, UsageError
from gridstride.frontends import ptx_file
from gridstride.frontends.cuda_cpp import CompiledSource, Defines, compile_cuda, real_arch
from gridstride.frontends.names import KernelNames, demangle
from gridstride.frontends.python_function import CompiledPython
from gridstride.frontends.python_parameters import flat_parameters
from gridstride.frontends.resources import ResourceReport, Resources, assemble_for_resources, find_assembler
from gridstride.frontends.signatures import KernelSignature, Parameter, kernel_signatures

_CUDA_SUFFIXES = frozenset({".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".h", ".c"})
_cache = DiskCache("ptxas")


@dataclass(frozen=True)
class LoadedSource:
    """Kernels ready to be parsed: PTX text, and what the source says about it.

    `text` is the source as it was given, `path` its file (None for text), `name` what messages call it; `log` holds the compiler's warnings.
    """

    kind: Literal["cuda", "ptx", "python"]
    name: str
    path: Path | None
    text: str
    ptx: str
    arch: str
    log: str = ""
    compiled: CompiledSource | None = None
    python: CompiledPython | None = None

    @cached_property
    def parameters_by_entry(self) -> Mapping[str, tuple[str, ...]]:
        """The entries in order, each with the parameter names of the PTX."""
        return ptx_file.entries(self.ptx)

    @cached_property
    def signatures(self) -> tuple[KernelSignature, ...]:
        """The kernels as CUDA C++ declares them: for a PTX file, in the source that its line information names, if it lies beside it."""
        if self.compiled is not None:
            return kernel_signatures([self.text, *self.compiled.files.values()])
        if self.path is None or self.python is not None:
            return ()
        beside = (self.path.parent / PurePosixPath(file).name for file in self.files.values())
        return kernel_signatures(_read(file) for file in beside if file.suffix in _CUDA_SUFFIXES and file.is_file())

    @cached_property
    def names(self) -> KernelNames:
        """How people's names for kernels lead to entries."""
        lowered = {} if self.compiled is None else self.compiled.names
        templates = frozenset(s.name for s in self.signatures if s.is_template) if self.kind == "cuda" else frozenset()
        return KernelNames(tuple(self.parameters_by_entry), lowered, self.name, templates)

    @cached_property
    def files(self) -> Mapping[int, str]:
        """The source files of the line information by number."""
        return ptx_file.files(self.ptx)

    def entry(self, kernel: str) -> str:
        """The PTX entry that a kernel's name means. Raises UsageError when nothing or several fit."""
        return self.names.entry(kernel)

    def with_instances(self, expressions: Sequence[str]) -> LoadedSource:
        """The same CUDA source compiled with more template instances. Raises UsageError for PTX, which has none."""
        if self.compiled is None:
            raise UsageError(f"{self.name} is PTX: templates can only be instantiated from CUDA C++")
        options = self.compiled.options
        compiled = compile_cuda(
            self.text,
            file_name=self.name,
            source_folder=None if self.path is None else self.path.parent,
            arch=options.arch,
            include_dirs=options.include_dirs,
            defines=options.defines,
            options=options.options,
            name_expressions=tuple(dict.fromkeys((*self.compiled.names, *expressions))),
            line_info=options.line_info,
        )
        return LoadedSource(self.kind, self.name, self.path, self.text, compiled.ptx, self.arch, compiled.log, compiled)

    def with_kernel(self, kernel: str) -> LoadedSource:
        """This source if it has the kernel, else the same source with the template instance that the name spells.

        Raises UsageError when the name means nothing here, CompileError when its instance does not compile.
        """
        if self.names.find(kernel) is not None:
            return self
        base, angle, arguments = kernel.partition("<")
        written = tuple(base.strip().removeprefix("::").split("::"))
        paths = {s.path for s in self.signatures if s.is_template and s.path[-len(written) :] == written}
        if angle and len(paths) == 1:
            return self.with_instances(["::".join(paths.pop()) + angle + arguments])
        if angle and paths:
            raise UsageError(f"{kernel!r} means {len(paths)} templates of {self.name}: {', '.join(sorted(map('::'.join, paths)))}")
        self.names.entry(kernel)
        return self

    def parameters(self, kernel: str) -> tuple[Parameter, ...] | None:
        """The parameters of a kernel with their C++ types as the source spells them; None where no source or more than one reading is there."""
        if self.python is not None:
            return flat_parameters(self.python.arguments)
        entry = self.entry(kernel)
        count = len(self.parameters_by_entry[entry])
        plain = demangle(entry)
        fits = [s for s in self.signatures if s.name == plain.base and not s.variadic and len(s.parameters) == count]
        exact = [s for s in fits if s.path == plain.path]
        readings = {s.parameters for s in exact or fits}
        if len(readings) > 1 and plain.parameters is not None:
            readings = {r for r in readings if [_bare(p.type) for p in r] == [_bare(text) for text in plain.parameters]} or readings
        return readings.pop() if len(readings) == 1 else None

    def parameter_names(self, kernel: str) -> tuple[str, ...] | None:
        """The names of a kernel's parameters by position: the source's, or those that hand-written PTX gives; None where nobody named them."""
        if self.python is not None:
            return tuple(parameter.name for parameter in flat_parameters(self.python.arguments))
        entry = self.entry(kernel)
        own = ptx_file.own_parameter_names(entry, self.parameters_by_entry[entry])
        if own is not None:
            return own
        parameters = self.parameters(kernel)
        if parameters is not None:
            return tuple(parameter.name for parameter in parameters)
        # Overloads may differ in types and still agree in names.
        plain = demangle(entry)
        count = len(self.parameters_by_entry[entry])
        agreed = {tuple(p.name for p in s.parameters) for s in self.signatures if s.name == plain.base and len(s.parameters) == count}
        return agreed.pop() if len(agreed) == 1 else None

    def resource_report(self, arch: str | None = None) -> ResourceReport:
        """What every kernel uses on an architecture (default: the source's own); empty with a reason where nobody can tell.

        CUDA C++ is assembled by the compiler itself; PTX needs NVIDIA's ptxas (`pip install nvidia-cuda-nvcc`).
        """
        if self.compiled is not None:
            return self.compiled.resource_report(arch)
        wanted = self.arch if arch is None else real_arch(arch)
        key = key_of("ptxas", str(find_assembler()), self.ptx, wanted)
        kept = _cache.get(key)
        if kept is not None:
            return ResourceReport(wanted, {name: Resources.from_json(value) for name, value in kept.items()})
        try:
            found = assemble_for_resources(self.ptx, wanted, any_version=self.python is not None)
        except UnsupportedError as error:
            return ResourceReport(wanted, {}, str(error))
        _cache.put(key, {name: resources.to_json() for name, resources in found.items()})
        return ResourceReport(wanted, found)

    def resources(self, kernel: str, arch: str | None = None) -> Resources | None:
        """What one kernel uses; None where nobody can tell (`resource_report().reason` says why)."""
        return self.resource_report(arch).kernels.get(self.entry(kernel))


def _bare(type_text: str) -> str:
    """A type without what the two spellings of it differ in: blanks and the place of `const`."""
    return "".join(sorted(type_text.replace(" ", "")))


def load_source(
    source: str | Path,
    *,
    arch: str = "sm_90",
    include_dirs: Sequence[str | Path] = (),
    defines: Defines = (),
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    line_info: bool = True,
    name: str | None = None,
) -> LoadedSource:
    """Load a .cu or .ptx file, CUDA C++ text, or PTX text (which begins with `.version`).

    A string with a line break, a brace or a semicolon is text, any other a path. The compiler's options mean nothing to PTX.
    `name` is what messages call a text.

    Raises UsageError (no such file, no such architecture), CompileError, UnsupportedError (CUDA C++ without a compiler).
    """
    path = None if isinstance(source, str) and _is_text(source) else Path(source).expanduser()
    if path is None:
        text = str(source)
        shown = name or ("kernel.ptx" if ptx_file.is_ptx(text) else "kernel.cu")
    else:
        text = _read(path)
        shown = name or str(path)
    if ptx_file.is_ptx(text):
        return LoadedSource("ptx", shown, path, text, text, ptx_file.target(text) or real_arch(arch))
    if path is not None and path.suffix == ".ptx":
        raise UsageError(f"{path} is no PTX: PTX begins with .version")
    if path is not None and path.suffix == ".py":
        raise UsageError(f"{path} is Python, whose kernels have types only with their arguments: launch, check, profile and compile take {path}:FUNCTION")
    if path is not None and path.suffix not in _CUDA_SUFFIXES:
        raise UsageError(f"{path} is neither CUDA C++ (.cu, .cuh, .cpp) nor PTX, which begins with .version")
    compiled = compile_cuda(
        text,
        file_name=shown,
        source_folder=None if path is None else path.absolute().parent,
        arch=arch,
        include_dirs=include_dirs,
        defines=defines,
        options=options,
        name_expressions=name_expressions,
        line_info=line_info,
    )
    return LoadedSource("cuda", shown, path, text, compiled.ptx, compiled.options.arch, compiled.log, compiled)


def python_source(compiled: CompiledPython) -> LoadedSource:
    """A Python function that was compiled, as a source with one kernel."""
    file = compiled.function.file
    path = Path(file) if Path(file).is_file() else None
    arch = ptx_file.target(compiled.ptx) or "sm_90"
    return LoadedSource("python", file, path, compiled.function.text, compiled.ptx, arch, python=compiled)


def _is_text(source: str) -> bool:
    return any(mark in source for mark in "\n{};") or ptx_file.is_ptx(source)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: give a .cu or .ptx file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
