"""Launches as data for a process of their own: a folder with the code, the buffers and a description, and the results beside them.

The process that owns the GPU is another one (`gridstride.runtime.gpu_launch`), so that Nsight Compute can wrap it and a kernel that
breaks the driver's context takes nobody else with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gridstride.errors import UnsupportedError
from gridstride.findings import Dim3
from gridstride.runtime.array import row_major
from gridstride.runtime.marshal import pack_arguments
from gridstride.runtime.module import Kernel
from gridstride.runtime.pointer import pointer
from gridstride.runtime.request import Argument, Buffer, LaunchRequest, RawPointer

JOBS, RESULTS = "jobs.json", "results.json"


@dataclass(frozen=True)
class JobBuffer:
    """A buffer: where its address goes in the parameters, its bytes, the file with its first content (None: never written), and
    whether the host wants it back."""

    position: int
    offset: int
    bytes: int
    file: str | None
    out: bool


@dataclass(frozen=True)
class Job:
    """One launch. `parameters` is the parameter buffer in hexadecimal digits, addresses of buffers still zero; `offsets` where each begins."""

    name: str
    code: str
    code_kind: Literal["cubin", "ptx", "ptx-of-any-version"]
    source: str
    entry: str
    grid: Dim3
    block: Dim3
    shared: int
    parameters: str
    offsets: tuple[int, ...]
    buffers: tuple[JobBuffer, ...]


@dataclass(frozen=True)
class JobResult:
    """What became of one launch. `microseconds`: one launch each, by events; `outputs`: argument position → file of bytes.

    lost: the launch broke the process's hold on the GPU, so what came after it was not run.
    """

    name: str
    error: str | None = None
    microseconds: tuple[float, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False


def prepare(folder: Path, request: LaunchRequest, kernel: Kernel, arch: str) -> Job:
    """Write the code for `arch` and the first contents of the buffers of one launch into `folder`.

    CUDA C++ becomes machine code here; PTX goes to the driver as it is. Raises what compiling for `arch` raises (UsageError where the
    compiler does not know it) and what arguments that do not fit raise.
    """
    source = kernel.module.source
    kind: Literal["cubin", "ptx", "ptx-of-any-version"]
    if source.compiled is not None:
        code, kind = source.compiled.cubin(arch), "cubin"
    else:
        code, kind = source.ptx.encode(), "ptx" if source.python is None else "ptx-of-any-version"
    if request.cooperative:
        raise UnsupportedError(f"{request.name} is a cooperative launch, which cannot be made on a GPU yet; `gridstride launch --cooperative` simulates it")
    if request.cluster is not None:
        raise UnsupportedError(f"{request.name} asks for clusters, which only kernels with __cluster_dims__ have on a GPU yet; `gridstride launch --cluster` simulates it")
    buffers, values_to_pack = [], []
    for parameter, value in zip(kernel.parameters, kernel.flat([_host_value(k, argument) for k, argument in enumerate(request.arguments)]), strict=True):
        if isinstance(value, _ToBe):
            first = value.buffer.initial.build(value.dtype, value.size)
            file = None if first is None else _kept(folder, first.tobytes(), "in")
            buffers.append(JobBuffer(value.position, parameter.offset, value.size * value.dtype.itemsize, file, value.buffer.out))
        values_to_pack.append(pointer(0) if isinstance(value, _ToBe) else value)
    parameters = pack_arguments(kernel.name, kernel.parameters, kernel.parameter_bytes, values_to_pack, kernel.device)
    return Job(
        request.name,
        _kept(folder, code, kind),
        kind,
        source.name,
        kernel.entry,
        request.grid,
        request.block,
        request.shared,
        parameters.hex(),
        tuple(parameter.offset for parameter in kernel.parameters),
        tuple(buffers),
    )


class _ToBe:
    """An array that the other process will make."""

    def __init__(self, position: int, buffer: Buffer) -> None:
        self.position, self.buffer = position, buffer
        self.dtype, self.shape, self.size = buffer.dtype, buffer.shape, buffer.count
        self.strides = row_major(buffer.shape, buffer.dtype.itemsize)


def _host_value(position: int, argument: Argument) -> Any:
    """What stands in the parameter buffer before the GPU's addresses are known."""
    if isinstance(argument, Buffer):
        return _ToBe(position, argument)
    return pointer(argument.address) if isinstance(argument, RawPointer) else argument.value


def _kept(folder: Path, content: bytes, suffix: str) -> str:
    """The name of a file with this content; equal contents share one."""
    name = f"{hashlib.sha256(content).hexdigest()[:24]}.{suffix}"
    if not (folder / name).exists():
        (folder / name).write_bytes(content)
    return name


def write_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """Describe the launches to the process that will make them."""
    (folder / JOBS).write_text(json.dumps([asdict(job) for job in jobs]), encoding="utf-8")


def read_jobs(folder: Path) -> list[Job]:
    """What `write_jobs` wrote."""
    entries = json.loads((folder / JOBS).read_text(encoding="utf-8"))
    return [
        Job(
            **{
                **entry,
                "grid": tuple(entry["grid"]),
                "block": tuple(entry["block"]),
                "offsets": tuple(entry["offsets"]),
                "buffers": tuple(JobBuffer(**buffer) for buffer in entry["buffers"]),
            }
        )
        for entry in entries
    ]


def write_results(folder: Path, results: Sequence[JobResult]) -> None:
    """Leave the results for the process that asked."""
    (folder / RESULTS).write_text(json.dumps([asdict(result) for result in results]), encoding="utf-8")


def read_results(folder: Path) -> list[JobResult]:
    """What `write_results` wrote. Raises UnsupportedError where the process ended before it could."""
    try:
        entries = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnsupportedError("the process that launches on the GPU ended without a result") from None
    return [JobResult(**{**entry, "microseconds": tuple(entry["microseconds"])}) for entry in entries]


def outputs_of(folder: Path, result: JobResult, request: LaunchRequest) -> dict[int, npt.NDArray[Any]]:
    """The output buffers that came back, by argument position, in the shapes that the launch asked for."""
    arrays = {}
    for position, file in result.outputs.items():
        buffer = request.arguments[int(position)]
        assert isinstance(buffer, Buffer)
        arrays[int(position)] = np.fromfile(folder / file, buffer.dtype).reshape(buffer.shape)
    return arrays
