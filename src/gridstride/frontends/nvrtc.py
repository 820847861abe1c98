"""NVIDIA's run-time compiler (NVRTC), reached through cuda.bindings: no driver, no toolkit, no host compiler.

Everything of NVIDIA's is imported when it is first used, so that PTX files run where NVRTC does not exist (macOS, musl).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from gridstride.cache import cache_directory
from gridstride.errors import UnsupportedError

# The first release that carries the CUDA headers inside the compiler.
_FIRST_WITH_HEADERS = (13, 3)
_MISSING = (
    "CUDA C++ needs NVIDIA's run-time compiler, which is not installed here: on Linux (glibc) or Windows run "
    "`pip install cuda-bindings nvidia-cuda-nvrtc`; PTX files run without it"
)


@dataclass(frozen=True)
class NvrtcOutput:
    """What one compilation gave: `code` is None when it failed, and `log` says why. `invalid_option` tells a refused option from a refused source."""

    code: bytes | None
    log: str
    lowered_names: dict[str, str]
    invalid_option: bool


@cache
def _bindings() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise UnsupportedError(_MISSING) from error
    try:
        status, *_ = nvrtc.nvrtcVersion()
    except (RuntimeError, OSError) as error:
        # The bindings look for the library only now; on unsupported platforms pip installs them with an empty placeholder of it.
        raise UnsupportedError(f"{_MISSING} ({error})") from error
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise UnsupportedError(_MISSING)
    return nvrtc


@cache
def version() -> tuple[int, int]:
    """Release of the compiler, as (13, 5). Raises UnsupportedError when there is none."""
    nvrtc = _bindings()
    _, major, minor = nvrtc.nvrtcVersion()
    return int(major), int(minor)


@cache
def build_identity() -> str:
    """A text that changes with the compiler; found without loading it where it came from PyPI (loading takes a tenth of a second)."""
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            found = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
        if not found.startswith("0.0.0"):
            return f"{distribution} {found}"
    major, minor = version()
    return f"nvrtc {major}.{minor}"


def supported_architectures() -> tuple[str, ...]:
    """The targets that the compiler knows, as "sm_90"."""
    nvrtc = _bindings()
    return tuple(f"sm_{number}" for number in _checked(nvrtc.nvrtcGetSupportedArchs()))


@cache
def header_options() -> tuple[str, ...]:
    """The options that let sources include NVIDIA's headers (cuda_fp16.h, cooperative_groups.h, cuda/atomic, cub/block/…).

    Raises UnsupportedError when there is no compiler.
    """
    if version() >= _FIRST_WITH_HEADERS:
        return (f"--use-bundled-headers={_bundled_headers()}",)
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    found = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return tuple(f"-I{directory}" for directory in found if directory)


def _bundled_headers() -> Path:
    """Unpack the compiler's own headers once per release: beside the final place, then renamed, so that nobody sees half of them."""
    place = cache_directory() / f"nvrtc-headers-{build_identity().split()[-1]}"
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix="nvrtc-headers-", dir=place.parent))
    except OSError:
        # No cache folder can be written: the headers live as long as the process.
        temporary = tempfile.mkdtemp(prefix="gridstride-nvrtc-headers-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return Path(temporary)
    try:
        output = compile_program("", "unpack.cu", [f"--use-bundled-headers={working}"], "ptx")
        if output.code is None:
            raise UnsupportedError(f"NVIDIA's run-time compiler could not unpack its headers to {working}: {output.log.strip()}")
        try:
            working.rename(place)
        except OSError:
            # Another process was faster, and what it put there is the same.
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return place


def compile_program(
    text: str,
    file_name: str,
    options: Sequence[str],
    product: Literal["ptx", "cubin"],
    *,
    headers: Mapping[str, str] | None = None,
    name_expressions: Sequence[str] = (),
) -> NvrtcOutput:
    """Compile CUDA C++ text. `headers` are texts by the name they are included under.

    Raises UnsupportedError when there is no compiler; a source that does not compile is an answer, not an exception.
    """
    nvrtc = _bindings()
    names = sorted(headers or {})
    contents = [(headers or {})[name].encode() for name in names]
    program = _checked(
        nvrtc.nvrtcCreateProgram(text.encode(), os.fsencode(file_name), len(names), contents, [name.encode() for name in names])
    )
    try:
        for expression in name_expressions:
            _checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [os.fsencode(option) for option in options])
        log = _fetched(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return NvrtcOutput(None, log, {}, status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION)
        if product == "ptx":
            code = _fetched(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        else:
            code = _fetched(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        lowered = {name: _checked(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode() for name in name_expressions}
        return NvrtcOutput(code, log, lowered, False)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    """Second element of a binding's answer, after a look at the first."""
    nvrtc = _bindings()
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise UnsupportedError(f"NVIDIA's run-time compiler failed: {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


def _fetched(program: Any, size_of: Any, fetch: Any) -> bytes:
    """A text or a binary of the program, without the closing zero that texts have."""
    size = _checked(size_of(program))
    buffer = bytes(size)
    _checked(fetch(program, buffer))
    return buffer[:-1] if buffer[-1:] == b"\0" and fetch.__name__ != "nvrtcGetCUBIN" else buffer
