"""The machine code of a kernel (SASS): made by NVIDIA's compiler, listed by NVIDIA's nvdisasm, read into data.

The listing carries two places for every instruction: the source line, with the calls that were inlined, and the line of the PTX that
the machine compiler read, which is the text that this package shows and runs. By the second each machine instruction belongs to one
PTX instruction. What operations and constants mean: `sass_meaning.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath

from gridstride.cache import DiskCache, key_of
from gridstride.errors import UnsupportedError
from gridstride.frontends.cuda_cpp import real_arch
from gridstride.frontends.resources import find_assembler
from gridstride.frontends.source import LoadedSource

_MISSING = (
    "machine code is listed by NVIDIA's nvdisasm, which is not installed here: on Linux (glibc) or Windows run "
    "`pip install 'gridstride[sass]'` (or `pip install nvidia-cuda-nvdisasm`)"
)
_cache = DiskCache("sass")


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction.

    `address` in bytes from the start of the kernel's code; `guard` the predicate it runs under ("@!P0"; "" for none); `function` the
    label it stands under: the kernel, or a function that was not inlined; `inlined_at` the calls it came through, innermost first.
    """

    address: int
    guard: str
    opcode: str
    operands: str
    function: str
    file: str | None = None
    line: int | None = None
    inlined_at: tuple[tuple[str, int], ...] = ()
    ptx_line: int | None = None

    @property
    def head(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.split(".", 1)[0]

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.guard, self.opcode, self.operands) if part)


@dataclass(frozen=True)
class SassKernel:
    """The machine code of one entry; `labels` are the addresses that something may jump to. Filling at the end is left out."""

    name: str
    instructions: tuple[SassInstruction, ...]
    labels: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SassListing:
    """The machine code of all kernels of a source, for one architecture ("sm_90")."""

    arch: str
    kernels: Mapping[str, SassKernel] = field(repr=False)


_SECTION = re.compile(r"\.text\.(\S+):$")
_PLACE = re.compile(r'\s*//## File "((?:[^"\\]|\\.)*)", line (\d+)(?: inlined at "((?:[^"\\]|\\.)*)", line (\d+))?')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"(\.L[\w$]*|[A-Za-z_$][\w$.]*):$")
_PTX_TEXT = ".nv_debug_ptx_txt"


class _Reader:
    """Reads a listing line by line. A place holds until the next one of its kind; source and PTX places change independently."""

    def __init__(self) -> None:
        self.kernels: dict[str, SassKernel] = {}
        self.kernel = ""
        self._begin("")

    def _begin(self, kernel: str) -> None:
        self.kernel = self.function = kernel
        self.instructions: list[SassInstruction] = []
        self.labels: set[int] = set()
        self.chain: tuple[tuple[str, int], ...] = ()
        self.chain_continues = False
        self.ptx_line: int | None = None
        self.label_waits = False

    def run(self, lines: Iterable[str]) -> dict[str, SassKernel]:
        for line in lines:
            if match := _SECTION.match(line):
                self._end()
                self._begin(match.group(1))
            elif not self.kernel:
                continue
            elif match := _PLACE.match(line):
                self._place(*match.groups())
            elif match := _INSTRUCTION.match(line):
                self._instruction(*match.groups())
            elif match := _LABEL.match(line):
                self._label(match.group(1))
            elif line.startswith("//-----"):
                self._end()
                self._begin("")
        self._end()
        return self.kernels

    def _place(self, file: str, line: str, caller: str | None, _caller_line: str | None) -> None:
        if file.startswith(_PTX_TEXT):
            self.ptx_line = int(line)
            return
        here = (file, int(line))
        # A chain of inlined calls is several places in a row, each but the last with its caller, which is the next.
        self.chain = (*self.chain, here) if self.chain_continues else (here,)
        self.chain_continues = caller is not None

    def _instruction(self, address: str, guard: str | None, opcode: str, operands: str) -> None:
        self.chain_continues = False
        place = self.chain[0] if self.chain else (None, None)
        at = int(address, 16)
        if self.label_waits:
            self.labels.add(at)
            self.label_waits = False
        self.instructions.append(
            SassInstruction(at, (guard or "").strip(), opcode, operands, self.function, place[0], place[1], self.chain[1:], self.ptx_line)
        )

    def _label(self, label: str) -> None:
        self.label_waits = True
        if not label.startswith(".L"):
            self.function = label

    def _end(self) -> None:
        # The code is filled up behind an instruction that jumps to itself, which nothing reaches.
        kept = list(self.instructions)
        while kept and kept[-1].opcode == "NOP":
            kept.pop()
        if len(kept) > 1 and kept[-1].opcode == "BRA" and kept[-2].head in ("EXIT", "RET", "BRA", "BPT"):
            kept.pop()
        if self.kernel:
            self.kernels[self.kernel] = SassKernel(self.kernel, tuple(kept), frozenset(self.labels))


def parse_listing(text: str, arch: str) -> SassListing:
    """Read what `nvdisasm -c -gi -gp` prints."""
    return SassListing(arch, _Reader().run(text.splitlines()))


def find_disassembler() -> Path | None:
    """NVIDIA's nvdisasm: from the PyPI package nvidia-cuda-nvdisasm, a toolkit at CUDA_HOME or CUDA_PATH, or the search path."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        found = None
    else:
        found = find_nvidia_binary_utility("nvdisasm")
    if found is None:
        roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
        found = next((path for root in roots if root and (path := shutil.which("nvdisasm", path=str(Path(root) / "bin")))), None)
    found = found or shutil.which("nvdisasm")
    return Path(found) if found else None


@cache
def _disassembler() -> tuple[Path, str]:
    """The program and a text that changes with it."""
    found = find_disassembler()
    if found is None:
        raise UnsupportedError(_MISSING)
    status = found.stat()
    return found, f"{status.st_size} {status.st_mtime_ns}"


def disassemble(cubin: bytes, *, timeout_seconds: float = 300.0) -> str:
    """The listing of a cubin, with source and PTX lines where it has them.

    Raises UnsupportedError where there is no nvdisasm, or where it refuses the cubin.
    """
    program, identity = _disassembler()
    key = key_of("listing", identity, hashlib.sha256(cubin).hexdigest())
    kept = _cache.get(key)
    if kept is not None:
        return str(kept)
    with tempfile.TemporaryDirectory(prefix="gridstride-nvdisasm-") as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        listing = _run([str(program), "-c", "-gi", "-gp", str(file)], timeout_seconds)
    _cache.put(key, listing)
    return listing


def _run(command: list[str], timeout_seconds: float) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"NVIDIA's {name} ({command[0]}) did not run: {error}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise UnsupportedError(f"NVIDIA's {name} ({command[0]}) failed: {lines[0] if lines else 'it gives no reason'}")
    return done.stdout


def assemble(ptx: str, arch: str, *, timeout_seconds: float = 300.0) -> bytes:
    """The cubin of PTX text. Raises UnsupportedError where there is no ptxas, or where it refuses the text."""
    assembler = find_assembler()
    if assembler is None:
        raise UnsupportedError(
            "machine code for a PTX file is made by NVIDIA's ptxas, which is not here: `pip install nvidia-cuda-nvcc` brings it; "
            "for CUDA C++ nothing more is needed"
        )
    with tempfile.TemporaryDirectory(prefix="gridstride-ptxas-") as folder:
        source, cubin = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        _run([str(assembler), "-lineinfo", f"-arch={arch}", "-o", str(cubin), str(source)], timeout_seconds)
        return cubin.read_bytes()


def machine_code(loaded: LoadedSource, arch: str | None = None) -> SassListing:
    """The machine code of every kernel of a source on an architecture (default: the source's own). Files are called as in its PTX.

    Raises UnsupportedError where nvdisasm is missing or, for PTX, ptxas.
    """
    _disassembler()
    target = loaded.arch if arch is None else real_arch(arch)
    cubin = assemble(loaded.ptx, target) if loaded.compiled is None else loaded.compiled.cubin(target)
    listing = parse_listing(disassemble(cubin), target)
    names = set(loaded.files.values())
    renamed = {name: _as_in_ptx(name, names) for name in _files(listing)}
    return SassListing(target, {name: _with_files(kernel, renamed) for name, kernel in listing.kernels.items()})


def _files(listing: SassListing) -> set[str]:
    found = {i.file for kernel in listing.kernels.values() for i in kernel.instructions if i.file is not None}
    return found | {file for kernel in listing.kernels.values() for i in kernel.instructions for file, _ in i.inlined_at}


def _as_in_ptx(name: str, names: set[str]) -> str:
    """The compiler puts its working folder before names that are no paths; the PTX has such names plain."""
    if name in names:
        return name
    alike = [candidate for candidate in names if PurePosixPath(candidate).name == PurePosixPath(name).name]
    return alike[0] if len(alike) == 1 else name


def _with_files(kernel: SassKernel, renamed: Mapping[str, str]) -> SassKernel:
    instructions = (
        replace(
            i,
            file=None if i.file is None else renamed[i.file],
            inlined_at=tuple((renamed[file], line) for file, line in i.inlined_at),
        )
        for i in kernel.instructions
    )
    return replace(kernel, instructions=tuple(instructions))
