"""CUDA C++ to PTX, with the compiler's resource report beside it."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from gridstride.cache import DiskCache, key_of
from gridstride.errors import UsageError
from gridstride.frontends import nvrtc
from gridstride.frontends.diagnostics import Diagnostic, compile_error, explained, outside, parse_log
from gridstride.frontends.host_code import DeviceCode, device_code
from gridstride.frontends.host_headers import HOST_ONLY, empty_headers
from gridstride.frontends.includes import Inclusions, include_folder, inclusions
from gridstride.frontends.names import normalised
from gridstride.frontends.resources import ResourceReport, Resources, parse_assembler_log

_STAND_INS = Path(__file__).parent / "headers"
_cache = DiskCache("cuda")
Defines = Mapping[str, str | int | float | bool | None] | Sequence[str]


@dataclass(frozen=True)
class CompileOptions:
    """How a source is compiled.

    `arch` is the target ("sm_90", "compute_90", "9.0"); `defines` are "NAME" or "NAME=VALUE"; `options` go to NVRTC as they are
    (nvcc's `-O2` and `--expt-relaxed-constexpr`, which NVRTC has no use for, are left out).
    """

    arch: str = "sm_90"
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    line_info: bool = True

    @classmethod
    def of(
        cls,
        *,
        arch: str = "sm_90",
        include_dirs: Sequence[str | Path] = (),
        defines: Defines = (),
        options: Sequence[str] = (),
        line_info: bool = True,
    ) -> CompileOptions:
        """The options in one spelling. Raises UsageError for an architecture that is none, or a folder that is not there."""
        folders = tuple(Path(folder).expanduser().absolute() for folder in include_dirs)
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"the include folder {folder} does not exist")
        return cls(real_arch(arch), folders, _define_list(defines), tuple(options), line_info)

    @property
    def virtual_arch(self) -> str:
        return self.arch.replace("sm_", "compute_")


def real_arch(arch: str) -> str:
    """ "sm_90" for "sm_90", "compute_90", "90" or "9.0". Raises UsageError for anything else."""
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)([af]?)", arch.strip().lower())
    if match is None:
        raise UsageError(f"{arch!r} is no compute capability: write it as sm_90, compute_90 or 9.0")
    return f"sm_{match.group(1)}{match.group(2)}{match.group(3)}"


def _define_list(defines: Defines) -> tuple[str, ...]:
    if not isinstance(defines, Mapping):
        return tuple(defines)
    spelled = []
    for name, value in defines.items():
        if value is None:
            spelled.append(name)
        else:
            spelled.append(f"{name}={int(value) if isinstance(value, bool) else value}")
    return tuple(spelled)


@dataclass(frozen=True)
class CompiledSource:
    """A source that compiled.

    `names` maps the name expressions to their entries in the PTX, `files` are the person's own headers with their texts,
    `warnings` what the compiler had to say all the same, `host_functions` the lines of the host functions that were left out.
    """

    source_text: str
    file_name: str
    options: CompileOptions
    ptx: str
    names: Mapping[str, str]
    warnings: tuple[Diagnostic, ...]
    files: Mapping[Path, str]
    host_functions: Mapping[str, int]
    _unit: _Unit = field(repr=False)

    @property
    def log(self) -> str:
        """The warnings, rendered; empty when there were none."""
        return "\n".join(warning.render() for warning in self.warnings)

    @cached_property
    def resources(self) -> Mapping[str, Resources]:
        """The resources of every entry on the source's own architecture; compiled when first asked for."""
        return self.resource_report().kernels

    def resource_report(self, arch: str | None = None) -> ResourceReport:
        """Registers, stack, spills, shared memory and barriers of every entry on an architecture (default: the source's own).

        The compiler assembles machine code for it, so the first call takes as long as the compilation did.
        """
        target = self.options.arch if arch is None else real_arch(arch)
        return ResourceReport(target, self._unit.resources(target, tuple(self.names)))

    def cubin(self, arch: str | None = None) -> bytes:
        """The machine code on an architecture (default: the source's own), with line information if the source was compiled with it."""
        return self._unit.cubin(self.options.arch if arch is None else real_arch(arch), tuple(self.names))


def compile_cuda(
    source_text: str,
    *,
    file_name: str = "kernel.cu",
    source_folder: Path | None = None,
    arch: str = "sm_90",
    include_dirs: Sequence[str | Path] = (),
    defines: Defines = (),
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    line_info: bool = True,
) -> CompiledSource:
    """Compile CUDA C++ text to PTX.

    `file_name` is what messages and line information call the source; with `source_folder`, quoted includes are looked for there and
    line information holds the full path. `name_expressions` ("scale<float>", "ns::kernel") are the template instances to make.
    Host code in the text is left out (see `host_code`). Results are kept on disk.

    Raises CompileError (with lines and carets), UsageError (options, architecture), UnsupportedError (no compiler).
    """
    settings = CompileOptions.of(arch=arch, include_dirs=include_dirs, defines=defines, options=options, line_info=line_info)
    unit = _Unit(source_text, file_name, source_folder, settings)
    return unit.compile(tuple(name_expressions))


@cache
def own_identity() -> str:
    """Changes with this package's stand-in headers and with how it prepares sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


_NO_USE_FOR = re.compile(r"-O[0-3s]?|--optimize=\d|--?expt-relaxed-constexpr|-expt-relaxed-constexpr|--generate-line-info|-lineinfo")
_OTHER_NAME = {"--expt-extended-lambda": "--extended-lambda", "-expt-extended-lambda": "--extended-lambda"}
# A person's macros come after the compiler's own declarations, so that `-D T=float` does not rename what those call T.
_DEFINES_HEADER = "gridstride_defines.h"
# Stand-ins that hand on to NVIDIA's C++ library.
_ON_LIBCUXX = frozenset({"array", "functional", "tuple", "type_traits"})
_OWN_STDINT = re.compile(r"\b(?:typedef|using)\b[^;{}]*\bu?int(?:8|16|32|64)_t\b\s*(?:=|;)")
# What the compiler calls the place of the name expressions.
_NAME_MAP = "__nv_name_map"
_EXPRESSION_REFUSED = re.compile(r'Input name expression was: "\s*(.*?)\s*"')


@dataclass(frozen=True)
class _Unit:
    """One source with its options, prepared for the compiler."""

    text: str
    file_name: str
    source_folder: Path | None
    options: CompileOptions

    @property
    def compiler_file_name(self) -> str:
        """The full path for a file, so that line information leads to it from anywhere."""
        return self.file_name if self.source_folder is None else str(self.source_folder.absolute() / Path(self.file_name).name)

    @cached_property
    def included(self) -> Inclusions:
        return inclusions(self.text, self.source_folder, (*self.options.include_dirs, include_folder()))

    @cached_property
    def device(self) -> DeviceCode:
        if any(option.lstrip("-").startswith(("default-device", "device-as-default-execution-space")) for option in self.options.options):
            return DeviceCode(self.text, {}, ())
        return device_code(self.text, headers=self.included.files.values())

    @cached_property
    def device_headers(self) -> dict[str, str]:
        """Texts for the compiler to take in place of files: headers with host code in them, and host-only headers."""
        replaced = empty_headers(self.included.standard)
        own = [define.partition("=") for define in self.options.defines if not _speaks_to_the_compiler(define)]
        replaced[_DEFINES_HEADER] = "".join(f"#define {name} {value if equals else 1}\n" for name, equals, value in own)
        for name, path in self.included.names.items():
            if path is None:
                continue
            others = [text for other, text in self.included.files.items() if other != path]
            stripped = device_code(self.included.files[path], headers=[self.text, *others]).text
            if stripped != self.included.files[path]:
                replaced[name] = stripped
        return replaced

    @property
    def header_options(self) -> tuple[str, ...]:
        """NVIDIA's headers, where the source may include any of them: unpacking them takes a quarter of a second, once."""
        own = (name for name in self.included.standard if name not in HOST_ONLY)
        if self.included.complete and all((_STAND_INS / name).is_file() and name not in _ON_LIBCUXX for name in own):
            return ()
        return nvrtc.header_options()

    def command(self, arch: str) -> list[str]:
        """The compiler's options."""
        options = self.options
        command = [f"--gpu-architecture={arch}", *(f"-D{define}" for define in options.defines if _speaks_to_the_compiler(define))]
        command += [f"-I{folder}" for folder in options.include_dirs]
        if self.source_folder is not None:
            command.append(f"-I{self.source_folder.absolute()}")
        command += [f"-I{include_folder()}", f"-I{_STAND_INS}", "--pre-include=nvcc_implicit.h", f"--pre-include={_DEFINES_HEADER}"]
        if sys.platform == "linux" and not any(o.lstrip("-").startswith("device-int128") for o in options.options):
            command.append("--device-int128")  # as nvcc with a host compiler that has __int128
        if options.line_info:
            command.append("--generate-line-info")
        if _OWN_STDINT.search(self.text) or any(_OWN_STDINT.search(text) for text in self.included.files.values()):
            command.append("-DGRIDSTRIDE_SOURCE_HAS_OWN_STDINT")
        if self.device.host_functions:
            # What the host part alone used is unused now.
            command.append("--diag-suppress=177")
        command += [_OTHER_NAME.get(option, option) for option in options.options if not _NO_USE_FOR.fullmatch(option)]
        return command

    def key(self, product: str, arch: str, expressions: tuple[str, ...]) -> str:
        headers = {str(path): text for path, text in self.included.files.items()}
        folder = None if self.source_folder is None else str(self.source_folder.absolute())
        compiler = [nvrtc.build_identity(), own_identity(), self.command(arch), self.options.defines]
        return key_of(product, compiler, self.text, self.file_name, folder, headers, expressions)

    def compile(self, expressions: tuple[str, ...]) -> CompiledSource:
        arch = self.options.virtual_arch
        key = self.key("ptx", arch, expressions)
        kept = _cache.get(key) if self.included.complete else None
        if kept is not None:
            warnings = tuple(Diagnostic(**{**d, "context": tuple(d["context"])}) for d in kept["warnings"])
            return self._result(kept["ptx"], kept["names"], warnings)
        launched = tuple(name for name in self.device.launched_templates if name not in expressions)
        output, used = self._run(arch, "ptx", expressions, launched, ())
        diagnostics = self._diagnostics(output.log)
        if output.code is None:
            refused = [name for name in expressions if normalised(name) in _refused(output.log)]
            if refused and not any(d.severity == "error" for d in diagnostics):
                raise UsageError(f"{', '.join(map(repr, refused))} names no kernel of {self.file_name} and no instance of a template there")
            raise compile_error(self.file_name, diagnostics, output.log)
        ptx = self._with_plain_file_names(output.code.decode())
        names = {name: output.lowered_names[name] for name in used}
        if self.included.complete:
            _cache.put(key, {"ptx": ptx, "names": names, "warnings": [vars(d) for d in diagnostics]})
        return self._result(ptx, names, diagnostics)

    def resources(self, arch: str, expressions: tuple[str, ...]) -> dict[str, Resources]:
        key = self.key("resources", arch, expressions)
        kept = _cache.get(key) if self.included.complete else None
        if kept is not None:
            return {name: Resources.from_json(value) for name, value in kept.items()}
        output, _ = self._run(arch, "cubin", expressions, (), ("--ptxas-options=-v",))
        if output.code is None:
            raise compile_error(self.file_name, self._diagnostics(output.log), output.log)
        found = parse_assembler_log(output.log)
        if self.included.complete:
            _cache.put(key, {name: resources.to_json() for name, resources in found.items()})
        return found

    def cubin(self, arch: str, expressions: tuple[str, ...]) -> bytes:
        key = self.key("cubin", arch, expressions)
        kept = _cache.get(key) if self.included.complete else None
        if kept is not None:
            return base64.b64decode(kept)
        output, _ = self._run(arch, "cubin", expressions, (), ())
        if output.code is None:
            raise compile_error(self.file_name, self._diagnostics(output.log), output.log)
        if self.included.complete:
            _cache.put(key, base64.b64encode(output.code).decode())
        return output.code

    def _run(
        self, arch: str, product: str, asked: tuple[str, ...], launched: tuple[str, ...], more_options: tuple[str, ...]
    ) -> tuple[nvrtc.NvrtcOutput, tuple[str, ...]]:
        """Compile; instances that the host part launches (rather than a person asked for) are dropped if they mean nothing here."""
        command = [*self.command(arch), *more_options, *self.header_options]
        wanted = (*asked, *launched)
        while True:
            output = nvrtc.compile_program(
                self.device.text,
                self.compiler_file_name,
                command,
                "ptx" if product == "ptx" else "cubin",
                headers=self.device_headers,
                name_expressions=wanted,
            )
            if output.invalid_option and "--gpu-architecture" in output.log:
                raise UsageError(f"this compiler has no target {arch}: it takes {', '.join(nvrtc.supported_architectures())}")
            if output.invalid_option:
                raise UsageError(f"the compiler does not take these options for {self.file_name}: {_option_complaint(output.log)}")
            refused = _refused(output.log)
            remaining = tuple(name for name in wanted if name in asked or normalised(name) not in refused)
            if output.code is not None or remaining == wanted:
                return output, wanted
            wanted = remaining

    def _diagnostics(self, log: str) -> tuple[Diagnostic, ...]:
        lines = self.text.splitlines()
        folders = [_STAND_INS, *(Path(option.partition("=")[2]) for option in self.header_options if "=" in option)]
        shown: list[Diagnostic] = []
        for diagnostic in outside(parse_log(log), folders):
            if diagnostic.file == _NAME_MAP:
                continue
            if diagnostic.file == self.compiler_file_name:
                shown.append(replace(explained(diagnostic, self.device.host_functions, lines), file=self.file_name))
            else:
                shown.append(explained(diagnostic, self.device.host_functions, ()))
        return tuple(shown)

    def _with_plain_file_names(self, ptx: str) -> str:
        """The compiler puts its working folder before every name that is no path; names of texts stay names, headers get their paths."""
        here = Path.cwd()
        plain = {str(here / self.compiler_file_name): self.compiler_file_name}
        for name in self.device_headers:
            if path := self.included.names.get(name):
                plain[str(here / name)] = str(path)
        return re.sub(
            r'^(\s*\.file\s+\d+\s+)"([^"]*)"', lambda m: f'{m.group(1)}"{plain.get(m.group(2), m.group(2))}"', ptx, flags=re.MULTILINE
        )

    def _result(self, ptx: str, names: Mapping[str, str], warnings: tuple[Diagnostic, ...]) -> CompiledSource:
        return CompiledSource(
            self.text, self.file_name, self.options, ptx, names, warnings, self.included.files, self.device.host_functions, self
        )


def _refused(log: str) -> set[str]:
    """The name expressions that the compiler found no meaning for."""
    return {normalised(name) for name in _EXPRESSION_REFUSED.findall(log)}


def _speaks_to_the_compiler(define: str) -> bool:
    """Is it a macro that the compiler's own declarations look at?"""
    return define.startswith("_") or define.partition("=")[0] == "NDEBUG"


def _option_complaint(log: str) -> str:
    lines = [line.strip().removeprefix("nvrtc: error: ") for line in log.splitlines() if line.strip()]
    return "; ".join(lines) if lines else "it gives no reason"
