"""CUDA's driver: found when a GPU is first asked for, and its answers turned into errors of one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gridstride.errors import GridstrideError, UnsupportedError

LOST = frozenset(
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
"""After one of these the process can use the GPU no more."""
TOO_NEW = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
DEFAULT_DYNAMIC_SHARED = 48 * 1024
"""More dynamic shared memory than this a kernel has to be allowed (CUDA C++ Programming Guide, "Shared Memory" of each architecture)."""
_LOG_BYTES = 8192


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
        self.lost = status in LOST


def find_gpu(index: int = 0) -> Gpu:
    """The GPU `index` of this machine. Raises UnsupportedError, saying what is missing, where there is none."""
    driver = load_driver()
    try:
        checked(driver.cuInit(0), "start CUDA's driver")
        count = checked(driver.cuDeviceGetCount(), "count the GPUs")
        if not 0 <= index < count:
            raise UnsupportedError(f"there is no GPU {index}: this machine has {count}")
        device = checked(driver.cuDeviceGet(index), "open the GPU")
        name = checked(driver.cuDeviceGetName(256, device), "read the GPU's name")
        attributes = driver.CUdevice_attribute
        major, minor = (
            checked(driver.cuDeviceGetAttribute(attribute, device), "read the GPU's compute capability")
            for attribute in (
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        version = checked(driver.cuDriverGetVersion(), "read the driver's version")
    except (RuntimeError, OSError) as error:  # the bindings look for the driver's library at the first call
        raise UnsupportedError("this needs an NVIDIA GPU, and NVIDIA's driver is not installed here") from error
    except DriverError as error:
        raise UnsupportedError(f"this needs an NVIDIA GPU, and there is none to be used here: {error}") from error
    plain = bytes(name).split(b"\0")[0].decode(errors="replace")
    return Gpu(index, plain, f"sm_{major}{minor}", f"{version // 1000}.{version % 1000 // 10}")


def load_driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise UnsupportedError("this needs an NVIDIA GPU and the package cuda-bindings (`pip install cuda-bindings`)") from error
    return driver


def checked(answer: tuple[Any, ...], what: str) -> Any:
    """Second element of a binding's answer. Raises DriverError unless the first is success."""
    status = answer[0]
    if int(status) != 0:
        name = getattr(status, "name", str(status))
        text = load_driver().cuGetErrorString(status)[1]
        words = text.decode(errors="replace") if isinstance(text, bytes) else ""
        raise DriverError(f"CUDA could not {what}: {name}{f' ({words})' if words else ''}", name)
    return answer[1] if len(answer) > 1 else None


def load_image(image: bytes, *, ptx: bool, name: str, any_version: bool = False) -> Any:
    """Machine code, or PTX that the driver compiles, as a module of the current context. `name` is the source for a message.

    any_version: the PTX names the version of the compiler that wrote it, not one that it needs, so that an older driver is given it as of its own.

    Raises DriverError that says why the driver does not take it.
    """
    try:
        return _load_image(image, ptx, name)
    except DriverError as error:
        if error.status != TOO_NEW or not any_version:
            raise
        number = int(checked(load_driver().cuDriverGetVersion(), "read the driver's version"))
        older = re.sub(rb"\.version\s+\S+", b".version " + ptx_version(number // 1000, number % 1000 // 10).encode(), image, count=1)
        return _load_image(older, ptx, name)


def ptx_version(major: int, minor: int) -> str:
    """The PTX version that a CUDA release brought (PTX ISA, release notes)."""
    if major == 12:
        return f"8.{minor if minor < 6 else minor - 1}"
    return f"{major - 4}.{minor}"


def _load_image(image: bytes, ptx: bool, name: str) -> Any:
    driver = load_driver()
    if not ptx:
        return checked(driver.cuModuleLoadData(image), f"load the machine code of {name}")
    log, option = bytearray(_LOG_BYTES), driver.CUjit_option
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    answer = driver.cuModuleLoadDataEx(image + b"\0", len(options), options, [log, len(log)])
    try:
        return checked(answer, f"compile {name}")
    except DriverError as error:
        if error.status == TOO_NEW:
            raise DriverError(_too_new(image.decode(errors="replace"), name), error.status) from None
        said = " ".join(bytes(log).split(b"\0")[0].decode(errors="replace").split())
        raise DriverError(f"{error}{f': {said}' if said else ''}", error.status) from None


def _too_new(ptx: str, source: str) -> str:
    version = re.search(r"^\s*\.version\s+(\S+)", ptx, re.MULTILINE)
    number = int(checked(load_driver().cuDriverGetVersion(), "read the driver's version"))
    return (
        f"{source} is PTX of version {version[1] if version else '?'}, which is newer than this GPU's driver knows "
        f"(it speaks CUDA {number // 1000}.{number % 1000 // 10}): update the driver, or compare the CUDA source"
    )
