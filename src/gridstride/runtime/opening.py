"""`gs.device()`: opens a device by its name."""

from __future__ import annotations

import os
from numbers import Integral

from gridstride.errors import UnsupportedError, UsageError
from gridstride.machine.devices import DEFAULT_DEVICE, find_device
from gridstride.runtime.device import Device

BLOCKING_VARIABLE = "CUDA_LAUNCH_BLOCKING"
DEVICE_VARIABLE = "GRIDSTRIDE_DEVICE"
"""The environment's name for the device that `auto` means; `gridstride run` sets it for its script."""


def device(
    name: str = "auto",
    *,
    blocking: bool | None = None,
    per_thread_default: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    budget: int | None = None,
    lockstep: bool = False,
) -> Device:
    """A device with memory of its own.

    name: "auto" (what the environment's GRIDSTRIDE_DEVICE names; else a GPU if there is one, else the simulator as an H200), "sim", "sim:NAME" for another GPU of the device table, such as
    "sim:a100", "gpu" or "gpu:N".
    blocking: every launch is waited for, and a kernel that is stopped raises KernelFault at its launch. Otherwise, as CUDA has it, the fault
    comes with the next call that waits (synchronize, a copy to or from the host) and from then on with every call; None is what the
    environment's CUDA_LAUNCH_BLOCKING says (1 for blocking).
    per_thread_default: what is asked of no stream goes to a stream of the calling thread instead of to the legacy default stream.

    The rest is the simulator's and means nothing on a GPU:
    seed: run blocks and warps in another order; the same seed gives the same run. None: the natural order.
    threads: processor cores for a launch; None is all of them where it is proved that no order of blocks can be seen (each
    block writes places of its own that nobody else reads), else one. With a number, equal bits from run to run are promised for kernels whose blocks
    do not race (float atomics between blocks add in another order).
    budget: loop iterations, of all warps that a core runs together, after which a launch is stopped; None: no limit.
    lockstep: lanes of a warp never run apart, as on GPUs before Volta: a lock that lanes of one warp contend for deadlocks.

    Raises UsageError for a name that means no device, UnsupportedError where "gpu" or "gpu:N" is not there.
    """
    if not isinstance(name, str):
        raise UsageError(f"a device is opened by its name, such as \"sim\" or \"sim:a100\", not by {type(name).__name__} {name!r}")
    if name == "auto":
        name = os.environ.get(DEVICE_VARIABLE) or name
    if blocking is None:
        blocking = os.environ.get(BLOCKING_VARIABLE, "0").strip() not in ("", "0")
    kind, colon, rest = name.partition(":")
    if name == "auto" or (kind == "gpu" and (not colon or rest.isdecimal())):
        gpu = _gpu(int(rest or 0), required=kind == "gpu", blocking=blocking, per_thread_default=per_thread_default)
        if gpu is not None:
            return gpu
    if name in ("auto", "sim"):
        rest = DEFAULT_DEVICE
    elif kind != "sim" or not rest:
        raise UsageError(f"unknown device `{name}`; write auto, sim, sim:NAME (such as sim:a100), gpu or gpu:N{_suggestion(name)}")
    for option, value, least in (("threads", threads, 1), ("budget", budget, 1), ("seed", seed, 0)):
        if value is not None and not isinstance(value, Integral):
            raise UsageError(f"{option} is a whole number, not {type(value).__name__} {value!r}")
        if value is not None and value < least:
            raise UsageError(f"{option} must be at least {least}, not {value}")
    from gridstride.runtime.simulator import Simulator  # here, so that errors and listings do not wait for the engine

    spec = find_device(rest)
    return Simulator(
        spec, seed=seed, threads=threads, budget=budget, lockstep=lockstep, blocking=blocking, per_thread_default=per_thread_default
    )


def _gpu(index: int, *, required: bool, blocking: bool, per_thread_default: bool) -> Device | None:
    """The GPU `index`; None where there is none and it need not be."""
    from gridstride.runtime.gpu_device import open_gpu  # here: most programs have no GPU

    try:
        return open_gpu(index, blocking=blocking, per_thread_default=per_thread_default)
    except UnsupportedError:
        if required:
            raise
        return None


def _suggestion(name: str) -> str:
    try:
        return f"; did you mean sim:{find_device(name).key}?"
    except UsageError:
        return ""
