"""What a kernel costs on the machine: NVIDIA's assembler (ptxas) assigns the registers, its report says how many."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gridstride.errors import UnsupportedError


@dataclass(frozen=True)
class Resources:
    """One kernel's use of an SM, all sizes in bytes.

    `shared_bytes` is static shared memory without what the driver reserves; `stack_bytes` the kernel's own stack frame per thread;
    `constant_bytes` the use of each constant bank where the assembler reports it.
    """

    registers: int
    barriers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    constant_bytes: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "constant_bytes": {str(bank): size for bank, size in self.constant_bytes.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Resources:
        """The inverse of `to_json`."""
        return cls(**{**value, "constant_bytes": {int(bank): size for bank, size in value["constant_bytes"].items()}})


@dataclass(frozen=True)
class ResourceReport:
    """The resources of every kernel by entry name, for one architecture; without an assembler `kernels` is empty and `reason` says why."""

    arch: str
    kernels: Mapping[str, Resources]
    reason: str | None = None


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_BANK = re.compile(r"(\d+)(?:\+\d+)? bytes cmem\[(\d+)\]")


_TOO_OLD = re.compile(r"Unsupported \.version [\d.]+; current version is '([\d.]+)'")


def parse_assembler_log(log: str) -> dict[str, Resources]:
    """The resources of every entry function in what `ptxas -v` prints.

    Functions that are called rather than inlined have a stack frame of their own in the log; it is not added to their callers'.
    """
    found: dict[str, Resources] = {}
    entry = ""
    function = ""
    frames: dict[str, tuple[int, int, int]] = {}
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = function = match.group(1)
        elif match := _PROPERTIES.search(line):
            function = match.group(1)
        elif match := _FRAME.search(line):
            frames[function] = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
        elif (match := _USED.search(line)) and entry:
            rest = match.group(3)
            shared = _SHARED.search(rest)
            found[entry] = Resources(
                registers=int(match.group(1)),
                barriers=int(match.group(2) or 0),
                shared_bytes=int(shared.group(1)) if shared else 0,
                constant_bytes={int(bank): int(size) for size, bank in _BANK.findall(rest)},
            )
    for name, resources in found.items():
        stack, stores, loads = frames.get(name, (0, 0, 0))
        found[name] = replace(resources, stack_bytes=stack, spill_store_bytes=stores, spill_load_bytes=loads)
    return found


def find_assembler() -> Path | None:
    """NVIDIA's ptxas: from the PyPI package nvidia-cuda-nvcc, a toolkit at CUDA_HOME or CUDA_PATH, or the search path."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        found = None
    else:
        found = find_nvidia_binary_utility("ptxas")
    if found is None:
        roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
        found = next((path for root in roots if root and (path := shutil.which("ptxas", path=str(Path(root) / "bin")))), None)
    found = found or shutil.which("ptxas")
    return Path(found) if found else None


def assemble_for_resources(ptx: str, arch: str, *, any_version: bool = False, timeout_seconds: float = 300.0) -> dict[str, Resources]:
    """Run ptxas on PTX text for its report on `arch` ("sm_90"). Raises what `assemble` raises.

    any_version: the text names the version of the compiler that wrote it, not one that it needs: an older ptxas is given it as of its own.
    """
    try:
        return parse_assembler_log(assemble(ptx, arch, timeout_seconds=timeout_seconds)[1])
    except UnsupportedError as error:
        older = _TOO_OLD.search(str(error)) if any_version else None
        if older is None:
            raise
    text = re.sub(r"\.version\s+\S+", f".version {older[1]}", ptx, count=1)
    return parse_assembler_log(assemble(text, arch, timeout_seconds=timeout_seconds)[1])


def assemble(ptx: str, arch: str, *, timeout_seconds: float = 300.0) -> tuple[bytes, str]:
    """Run ptxas on PTX text: machine code for `arch` ("sm_90"), and the assembler's log.

    Raises UnsupportedError where there is no ptxas, or where it refuses the text (a PTX version newer than itself, for one).
    """
    assembler = find_assembler()
    if assembler is None:
        raise UnsupportedError(
            "the registers of a PTX file are assigned by NVIDIA's ptxas, which is not here: `pip install nvidia-cuda-nvcc` brings it"
        )
    with tempfile.TemporaryDirectory(prefix="gridstride-ptxas-") as folder:
        source = Path(folder) / "kernels.ptx"
        code = Path(folder) / "kernels.cubin"
        source.write_text(ptx)
        command = [str(assembler), "-v", f"-arch={arch}", "-o", str(code), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnsupportedError(f"NVIDIA's ptxas ({assembler}) did not run: {error}") from error
        if done.returncode == 0:
            return code.read_bytes(), done.stderr + done.stdout
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    raise UnsupportedError(f"NVIDIA's ptxas ({assembler}) refuses this PTX for {arch}: {lines[0] if lines else 'it gives no reason'}")
