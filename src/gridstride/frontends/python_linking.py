"""What a kernel written in Python calls and its compiler leaves to a linker: functions in CUDA C++ or PTX, brought to one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridstride.errors import UnsupportedError, UsageError
from gridstride.frontends.cuda_cpp import compile_cuda
from gridstride.frontends.ptx_file import is_ptx
from gridstride.frontends.ptx_link import link, undefined

PROVIDED = frozenset({"vprintf", "__assertfail", "malloc", "free"})
"""What the simulator and a GPU's driver have themselves."""
GRID_SYNC = Path(__file__).with_name("grid_sync.cu")


@dataclass(frozen=True)
class Linkable:
    """Code to be linked: CUDA C++ or PTX text. include_dirs: where its headers are."""

    name: str
    text: str
    include_dirs: tuple[str, ...] = ()


def linked(
    kernel: str, texts: Sequence[str], codes: Sequence[Linkable], providers: Mapping[str, Callable[[], Linkable]], arch: str, *, debug: bool
) -> str:
    """The kernel's own texts and everything they call as one text.

    codes: what the kernel was told to link. providers: by the beginning of a function's name, where functions come from that nobody was told of.
    Raises UnsupportedError that names the function which nothing defines, CompileError for CUDA C++ that does not compile.
    """
    parts = [*texts, *(_ptx_of(code, arch, debug) for code in codes)]
    used: set[str] = set()
    while True:
        text = link(parts)
        missing = undefined(text, provided=PROVIDED)
        found = {start for name in missing for start in providers if name.startswith(start)} - used
        if not found:
            break
        used |= found
        parts += [_ptx_of(providers[start](), arch, debug) for start in sorted(found)]
    if missing:
        raise UnsupportedError(
            f"{kernel} calls {_shown(missing[0])}, which is defined nowhere: link its CUDA C++ or PTX with @cuda.jit(link=[…])"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
        )
    return text


def _shown(name: str) -> str:
    return f"the function {name}"


def _ptx_of(code: Linkable, arch: str, debug: bool) -> str:
    if is_ptx(code.text):
        return code.text
    options = ("--relocatable-device-code=true", *(("--device-debug",) if debug else ()))
    made = compile_cuda(code.text, file_name=code.name, arch=arch, include_dirs=code.include_dirs, options=options, line_info=not debug)
    return made.ptx


def limit_registers(ptx: str, most: int) -> str:
    """The text with a bound on the registers of its kernels' threads (PTX ISA 11.4, `.maxnreg`)."""
    return re.sub(r"(\.entry\s+[\w$]+\s*\([^)]*\))", rf"\1\n.maxnreg {most}", ptx)


def linkable_file(path: str) -> Linkable:
    """A .cu or .ptx file. Raises UsageError for one that cannot be read, UnsupportedError for machine code."""
    file = Path(path)
    if file.suffix not in (".cu", ".ptx"):
        raise UnsupportedError(f"{path} cannot be linked: Python kernels link CUDA C++ (.cu) and PTX (.ptx), no machine code")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}, which a kernel links, cannot be read: {error.strerror}") from None
    return Linkable(str(file), text, (str(file.absolute().parent),))
