"""Launches on a real GPU through CUDA's driver: as much of it as comparing with the simulator needs.

As a program (`python -m gridstride.runtime.gpu_launch FOLDER --gpu N [--time]`) it makes the launches that `gpu_jobs` described in a
folder: each in a module and buffers of its own, once for its outputs, and with --time some more times for its duration. Without --time a
job is exactly one launch, so that the launches a profiler sees are the jobs in their order.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridstride.runtime.gpu_driver import DEFAULT_DYNAMIC_SHARED, DriverError, checked, load_driver, load_image
from gridstride.runtime.gpu_jobs import Job, JobResult, read_jobs, write_results

WARM_UPS, SAMPLES, LEAST_SAMPLES = 3, 21, 3
SECONDS_FOR_TIMING = 3.0
"""After this long no more samples of one launch are taken, if there are `LEAST_SAMPLES`."""


class _Memory:
    """The buffers of one launch on the GPU, freed together."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._driver = load_driver()
        self._addresses: list[Any] = []
        self._contents: list[tuple[Any, bytes]] = []
        self.parameters = bytearray.fromhex(job.parameters)
        self._out: list[tuple[int, Any, int]] = []
        try:
            for buffer in job.buffers:
                address = checked(self._driver.cuMemAlloc(max(buffer.bytes, 1)), f"allocate {buffer.bytes:,} bytes")
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
            checked(self._driver.cuMemcpyHtoD(address, content, len(content)), "copy to the GPU")

    def save(self, folder: Path, prefix: str) -> dict[str, str]:
        """Write the output buffers to files; their names by argument position."""
        files = {}
        for position, address, size in self._out:
            content = bytearray(size)
            if size:
                checked(self._driver.cuMemcpyDtoH(content, address, size), "copy from the GPU")
            files[str(position)] = f"{prefix}.{position}.out"
            (folder / files[str(position)]).write_bytes(content)
        return files

    def free(self) -> None:
        for address in self._addresses:
            self._driver.cuMemFree(address)


class _Launcher:
    """A loaded kernel and its parameters, ready to be launched any number of times."""

    def __init__(self, job: Job, module: Any, memory: _Memory) -> None:
        self._driver, self._job = load_driver(), job
        self._function = checked(self._driver.cuModuleGetFunction(module, job.entry.encode()), f"find {job.entry} in {job.source}")
        if job.shared > DEFAULT_DYNAMIC_SHARED:
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            what = f"give the kernel {job.shared:,} bytes of dynamic shared memory"
            checked(self._driver.cuFuncSetAttribute(self._function, attribute, job.shared), what)
        self._values = (ctypes.c_char * max(len(memory.parameters), 1)).from_buffer(memory.parameters or bytearray(1))
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * max(len(job.offsets), 1))(*(start + offset for offset in job.offsets))

    def __call__(self) -> None:
        arguments = ctypes.addressof(self._pointers) if self._job.offsets else 0
        checked(
            self._driver.cuLaunchKernel(self._function, *self._job.grid, *self._job.block, self._job.shared, 0, arguments, 0), "launch the kernel"
        )

    def finish(self) -> None:
        checked(self._driver.cuCtxSynchronize(), "run the kernel to its end")


def _load(job: Job, folder: Path) -> Any:
    """The job's code as a module. Raises DriverError that says why the driver does not take it."""
    code = (folder / job.code).read_bytes()
    return load_image(code, ptx=job.code_kind != "cubin", name=job.source, any_version=job.code_kind == "ptx-of-any-version")


def _durations(launcher: _Launcher, memory: _Memory) -> tuple[float, ...]:
    """Microseconds of some launches, each on the first contents of the buffers, which are copied anew between them."""
    driver, samples = load_driver(), []
    start, stop = (checked(driver.cuEventCreate(0), "make an event") for _ in range(2))
    began = time.monotonic()
    for number in range(WARM_UPS + SAMPLES):
        memory.fill()
        launcher.finish()
        checked(driver.cuEventRecord(start, 0), "record an event")
        launcher()
        checked(driver.cuEventRecord(stop, 0), "record an event")
        checked(driver.cuEventSynchronize(stop), "run the kernel to its end")
        if number >= WARM_UPS:
            samples.append(1000.0 * float(checked(driver.cuEventElapsedTime(start, stop), "read the time")))
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
            load_driver().cuModuleUnload(module)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the launches that a folder describes, and leave the results there."""
    parser = argparse.ArgumentParser(prog="gridstride.runtime.gpu_launch", description="Launches on a GPU for `gridstride compare`.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    asked = parser.parse_args(arguments)
    driver = load_driver()
    checked(driver.cuInit(0), "start CUDA's driver")
    device = checked(driver.cuDeviceGet(asked.gpu), "open the GPU")
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device), "open the GPU")), "open the GPU")
    results: list[JobResult] = []
    for number, job in enumerate(read_jobs(asked.folder)):
        results.append(run_job(job, asked.folder, number, timed=asked.time))
        write_results(asked.folder, results)  # after each: a kernel may take the process with it
        if results[-1].lost:
            break


if __name__ == "__main__":
    main()
