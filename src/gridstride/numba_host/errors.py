"""What a script sees when something goes wrong: the exceptions that numba raises on a GPU, with CUDA's code and Gridstride's sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver as binding
from cuda.core._utils.cuda_utils import CUDAError
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.error import CudaSupportError

from gridstride.errors import GridstrideError, KernelFault, LaunchError, UnsupportedError, UsageError

RESULT = binding.CUresult

_FAULTS = {
    "out-of-bounds": RESULT.CUDA_ERROR_ILLEGAL_ADDRESS,
    "misaligned": RESULT.CUDA_ERROR_MISALIGNED_ADDRESS,
    "assert": RESULT.CUDA_ERROR_ASSERT,
    "deadlock": RESULT.CUDA_ERROR_LAUNCH_TIMEOUT,
    "budget": RESULT.CUDA_ERROR_LAUNCH_TIMEOUT,
}
"""The code of a fault → what CUDA answers after it; CUDA_ERROR_LAUNCH_FAILED for all others."""


class CudaAPIError(driver.CudaAPIError):  # type: ignore[misc]
    """A call of the driver that CUDA would answer with an error. `code` is CUDA's; the message ends with what happened, in a sentence.

    fault_code: Gridstride's code of it, where it was a kernel that was stopped or a launch that was refused.
    """

    def __init__(self, code: object, call: str, what: str, fault_code: str | None = None) -> None:
        self.fault_code = fault_code
        super().__init__(code, f"Call to {call} results in {getattr(code, 'name', code)}: {what}")


class LaunchRefused(CudaAPIError, CUDAError):  # type: ignore[misc]
    """A launch that the device would refuse. Numba raises CUDAError there from 0.23 on, and raised CudaAPIError before: it is both."""


class Unsupported(UnsupportedError, CudaSupportError):  # type: ignore[misc]
    """What a GPU would do and the simulator does not."""


@contextmanager
def as_numba_raises(call: str) -> Iterator[None]:
    """Around one call of the driver: Gridstride's errors leave it as numba's."""
    try:
        yield
    except KernelFault as fault:
        if fault.code == "interrupted":
            raise KeyboardInterrupt from None
        raise CudaAPIError(_FAULTS.get(fault.code, RESULT.CUDA_ERROR_LAUNCH_FAILED), call, str(fault), fault.code) from None
    except LaunchError as error:
        if "out of device memory" in str(error):
            raise CudaAPIError(RESULT.CUDA_ERROR_OUT_OF_MEMORY, call, str(error)) from None
        raise LaunchRefused(RESULT.CUDA_ERROR_INVALID_VALUE, call, str(error), error.code) from None
    except UnsupportedError as error:
        raise Unsupported(str(error)) from None
    except UsageError as error:
        raise CudaAPIError(RESULT.CUDA_ERROR_INVALID_VALUE, call, str(error)) from None
    except GridstrideError as error:
        raise CudaAPIError(RESULT.CUDA_ERROR_UNKNOWN, call, str(error)) from None
