"""What CUDA reports of a kernel that was stopped, in the classes and words of the simulator's faults."""

from __future__ import annotations

from collections.abc import Collection

from gridstride.errors import KernelFault
from gridstride.runtime.gpu_driver import LOST

_FAULTS: dict[str, tuple[str, str]] = {
    "ILLEGAL_ADDRESS": ("out-of-bounds", "read or wrote memory that is not there for it"),
    "INVALID_ADDRESS_SPACE": ("out-of-bounds", "used an address of another kind of memory than the instruction takes"),
    "MISALIGNED_ADDRESS": ("misaligned", "used an address that is no multiple of the access's size"),
    "ASSERT": ("assert", "stopped itself: an assertion does not hold"),
    "LAUNCH_FAILED": ("trap", "was stopped, by a trap of its own or an access that the hardware refused"),
    "ILLEGAL_INSTRUCTION": ("trap", "was stopped by a trap or an instruction that the GPU does not have"),
    "INVALID_PC": ("trap", "jumped to where there is no code"),
    "HARDWARE_STACK_ERROR": ("trap", "was stopped: its stack overflowed or was overwritten"),
    "LAUNCH_TIMEOUT": ("budget", "ran longer than the driver lets a kernel run"),
}
"""CUDA's name for it → the code of the fault, and what the kernel did."""


def failure(status: str, words: str, kernels: Collection[str], what: str) -> KernelFault | None:
    """The error for a status after which the GPU is lost to this process; None for any other status.

    words: CUDA's text for it. kernels: those that may be at fault. what: the call that CUDA answered so.
    """
    if status not in LOST:
        return None
    reported = f"{status}{f' ({words})' if words else ''}"
    known = _FAULTS.get(status.removeprefix("CUDA_ERROR_"))
    if known is None:
        return KernelFault(f"CUDA could not {what}: {reported}; this process can use the GPU no more", "lost")
    code, did = known
    who = f"kernel `{next(iter(kernels))}`" if len(kernels) == 1 else "a kernel"
    return KernelFault(
        f"{who} {did}: CUDA reports {reported} and no more; the simulator with checks names the line and the thread "
        '(the same program with gs.device("sim") inside gs.checking())',
        code,
    )
