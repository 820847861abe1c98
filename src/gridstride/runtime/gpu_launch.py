"""Launches on a real GPU through CUDA's driver: as much of it as comparing with the simulator needs.

As a program (`python -m gridstride.runtime.gpu_launch FOLDER --gpu N [--time]`) it makes the launches that `gpu_jobs` described in a
folder: each in a module and buffers of its own, once for its outputs, and with --time some more times for its duration. Without --time a
job is exactly one launch, so that the launches a profiler sees are the jobs in their order.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridstride.errors import GridstrideError, UnsupportedError
from gridstride.runtime.gpu_jobs import Job, JobResult, read_jobs, write_results

WARM_UPS, SAMPLES, LEAST_SAMPLES = 3, 21, 3
SECONDS_FOR_TIMING = 3.0
"""After this long no more samples of one launch are taken, if there are `LEAST_SAMPLES`."""
_LOG_BYTES = 8192
_DEFAULT_DYNAMIC_SHARED = 48 * 1024
"""More dynamic shared memory than this a kernel has to be allowed (CUDA C++ Programming Guide, "Shared Memory" of each architecture)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine. arch: as "sm_90"; cuda: the newest CUDA version that the driver speaks, as "13.0"."""

    index: int
    name: str
    arch: str
    cuda: str


class DriverError(GridstrideError):
    """The driver refused or failed. `status` is CUDA's name for it; `lost` whether this process can use the GPU no more."""

    code = "launch"

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status
        self.lost = status in _LOST


_LOST = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS",
        "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT",
        "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "ILLEGAL_INSTRUCTION",
        "HARDWARE_STACK_ERROR",
        "ASSERT",
        "ECC_UNCORRECTABLE",
        "UNKNOWN",
    )
)


def find_gpu(index: int = 0) -> Gpu:
    """The GPU `index` of this machine. Raises UnsupportedError, saying what is missing, where there is none."""
    driver = _driver()
    try:
        _checked(driver.cuInit(0), "start CUDA's driver")
        count = _checked(driver.cuDeviceGetCount(), "count the GPUs")
        if not 0 <= index < count:
            raise UnsupportedError(f"there is no GPU {index}: this machine has {count}")
        device = _checked(driver.cuDeviceGet(index), "open the GPU")
        name = _checked(driver.cuDeviceGetName(256, device), "read the GPU's name")
        attributes = driver.CUdevice_attribute
        major, minor = (
            _checked(driver.cuDeviceGetAttribute(attribute, device), "read the GPU's compute capability")
            for attribute in (
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        version = _checked(driver.cuDriverGetVersion(), "read the driver's version")
    except (RuntimeError, OSError) as error:  # the bindings look for the driver's library at the first call
        raise UnsupportedError("this needs an NVIDIA GPU, and NVIDIA's driver is not installed here") from error
    except DriverError as error:
        raise UnsupportedError(f"this needs an NVIDIA GPU, and there is none to be used here: {error}") from error
    plain = bytes(name).split(b"\0")[0].decode(errors="replace")
    return Gpu(index, plain, f"sm_{major}{minor}", f"{version // 1000}.{version % 1000 // 10}")


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise UnsupportedError("this needs an NVIDIA GPU and the package cuda-bindings (`pip install cuda-bindings`)") from error
    return driver


def _checked(answer: tuple[Any, ...], what: str) -> Any:
    """Second element of a binding's answer. Raises DriverError unless the first is success."""
    status = answer[0]
    if int(status) != 0:
        name = getattr(status, "name", str(status))
        text = _driver().cuGetErrorString(status)[1]
        words = text.decode(errors="replace") if isinstance(text, bytes) else ""
        raise DriverError(f"CUDA could not {what}: {name}{f' ({words})' if words else ''}", name)
    return answer[1] if len(answer) > 1 else None


class _Memory:
    """The buffers of one launch on the GPU, freed together."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._driver = _driver()
        self._addresses: list[Any] = []
        self._contents: list[tuple[Any, bytes]] = []
        self.parameters = bytearray.fromhex(job.parameters)
        self._out: list[tuple[int, Any, int]] = []
        try:
            for buffer in job.buffers:
                address = _checked(self._driver.cuMemAlloc(max(buffer.bytes, 1)), f"allocate {buffer.bytes:,} bytes")
                self._addresses.append(address)
                self.parameters[buffer.offset : buffer.offset + 8] = int(address).to_bytes(8, "little")
                if buffer.file is not None and buffer.bytes:
                    self._contents.append((address, (folder / buffer.file).read_bytes()))
                if buffer.out:
                    self._out.append((buffer.position, address, buffer.bytes))
        except BaseException:
            self.free()
            raise

    def fill(self) -> None:
        """Give every buffer its first content."""
        for address, content in self._contents:
            _checked(self._driver.cuMemcpyHtoD(address, content, len(content)), "copy to the GPU")

    def save(self, folder: Path, prefix: str) -> dict[str, str]:
        """Write the output buffers to files; their names by argument position."""
        files = {}
        for position, address, size in self._out:
            content = bytearray(size)
            if size:
                _checked(self._driver.cuMemcpyDtoH(content, address, size), "copy from the GPU")
            files[str(position)] = f"{prefix}.{position}.out"
            (folder / files[str(position)]).write_bytes(content)
        return files

    def free(self) -> None:
        for address in self._addresses:
            self._driver.cuMemFree(address)


class _Launcher:
    """A loaded kernel and its parameters, ready to be launched any number of times."""

    def __init__(self, job: Job, module: Any, memory: _Memory) -> None:
        self._driver, self._job = _driver(), job
        self._function = _checked(self._driver.cuModuleGetFunction(module, job.entry.encode()), f"find {job.entry} in {job.source}")
        if job.shared > _DEFAULT_DYNAMIC_SHARED:
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            what = f"give the kernel {job.shared:,} bytes of dynamic shared memory"
            _checked(self._driver.cuFuncSetAttribute(self._function, attribute, job.shared), what)
        self._values = (ctypes.c_char * max(len(memory.parameters), 1)).from_buffer(memory.parameters or bytearray(1))
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * max(len(job.offsets), 1))(*(start + offset for offset in job.offsets))

    def __call__(self) -> None:
        arguments = ctypes.addressof(self._pointers) if self._job.offsets else 0
        _checked(
            self._driver.cuLaunchKernel(self._function, *self._job.grid, *self._job.block, self._job.shared, 0, arguments, 0), "launch the kernel"
        )

    def finish(self) -> None:
        _checked(self._driver.cuCtxSynchronize(), "run the kernel to its end")


def _load(job: Job, folder: Path) -> Any:
    """The job's code as a module. Raises DriverError that says why the driver does not take it."""
    driver = _driver()
    image = (folder / job.code).read_bytes()
    if job.code_kind == "cubin":
        return _checked(driver.cuModuleLoadData(image), f"load the machine code of {job.source}")
    log, option = bytearray(_LOG_BYTES), driver.CUjit_option
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    answer = driver.cuModuleLoadDataEx(image + b"\0", len(options), options, [log, len(log)])
    try:
        return _checked(answer, f"compile {job.source}")
    except DriverError as error:
        if error.status == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
            raise DriverError(_too_new(image.decode(errors="replace"), job.source), error.status) from None
        said = " ".join(bytes(log).split(b"\0")[0].decode(errors="replace").split())
        raise DriverError(f"{error}{f': {said}' if said else ''}", error.status) from None


def _too_new(ptx: str, source: str) -> str:
    version = re.search(r"^\s*\.version\s+(\S+)", ptx, re.MULTILINE)
    number = int(_checked(_driver().cuDriverGetVersion(), "read the driver's version"))
    return (
        f"{source} is PTX of version {version[1] if version else '?'}, which is newer than this GPU's driver knows "
        f"(it speaks CUDA {number // 1000}.{number % 1000 // 10}): update the driver, or compare the CUDA source"
    )


def _durations(launcher: _Launcher, memory: _Memory) -> tuple[float, ...]:
    """Microseconds of some launches, each on the first contents of the buffers, which are copied anew between them."""
    driver, samples = _driver(), []
    start, stop = (_checked(driver.cuEventCreate(0), "make an event") for _ in range(2))
    began = time.monotonic()
    for number in range(WARM_UPS + SAMPLES):
        memory.fill()
        launcher.finish()
        _checked(driver.cuEventRecord(start, 0), "record an event")
        launcher()
        _checked(driver.cuEventRecord(stop, 0), "record an event")
        _checked(driver.cuEventSynchronize(stop), "run the kernel to its end")
        if number >= WARM_UPS:
            samples.append(1000.0 * float(_checked(driver.cuEventElapsedTime(start, stop), "read the time")))
        if len(samples) >= LEAST_SAMPLES and time.monotonic() - began > SECONDS_FOR_TIMING:
            break
    for event in (start, stop):
        driver.cuEventDestroy(event)
    return tuple(samples)


def run_job(job: Job, folder: Path, number: int, *, timed: bool) -> JobResult:
    """Make one launch; what goes wrong is in the result."""
    memory = module = None
    try:
        module = _load(job, folder)
        memory = _Memory(job, folder)
        launcher = _Launcher(job, module, memory)
        memory.fill()
        launcher()
        launcher.finish()
        outputs = memory.save(folder, f"job{number}")
        return JobResult(job.name, None, _durations(launcher, memory) if timed else (), outputs)
    except DriverError as error:
        return JobResult(job.name, str(error), lost=error.lost)
    finally:
        if memory is not None:
            memory.free()
        if module is not None:
            _driver().cuModuleUnload(module)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the launches that a folder describes, and leave the results there."""
    parser = argparse.ArgumentParser(prog="gridstride.runtime.gpu_launch", description="Launches on a GPU for `gridstride compare`.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    asked = parser.parse_args(arguments)
    driver = _driver()
    _checked(driver.cuInit(0), "start CUDA's driver")
    device = _checked(driver.cuDeviceGet(asked.gpu), "open the GPU")
    _checked(driver.cuCtxSetCurrent(_checked(driver.cuDevicePrimaryCtxRetain(device), "open the GPU")), "open the GPU")
    results: list[JobResult] = []
    for number, job in enumerate(read_jobs(asked.folder)):
        results.append(run_job(job, asked.folder, number, timed=asked.time))
        write_results(asked.folder, results)  # after each: a kernel may take the process with it
        if results[-1].lost:
            break


if __name__ == "__main__":
    main()
