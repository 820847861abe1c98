"""`gs.device()`: opens a device by its name."""

from __future__ import annotations

from numbers import Integral

from gridstride.errors import UnsupportedError, UsageError
from gridstride.machine.devices import DEFAULT_DEVICE, find_device
from gridstride.runtime.device import Device


def device(name: str = "auto", *, seed: int | None = None, threads: int | None = None, budget: int | None = None, lockstep: bool = False) -> Device:
    """A device with memory of its own.

    name: "auto" (the simulator as an H200, until there is support for GPUs), "sim", or "sim:NAME" for another GPU of the
    device table, such as "sim:a100".
    seed: run blocks and warps in another order; the same seed gives the same run. None: the natural order.
    threads: processor cores for a launch; None is all of them where it is proved that no order of blocks can be seen (each
    block writes places of its own that nobody else reads), else one. With a number, equal bits from run to run are promised for kernels whose blocks
    do not race (float atomics between blocks add in another order).
    budget: loop iterations, of all warps that a core runs together, after which a launch is stopped; None: no limit.

    lockstep: lanes of a warp never run apart, as on GPUs before Volta: a lock that lanes of one warp contend for deadlocks.

    Raises UsageError for a name that means no device, UnsupportedError for "gpu" and "gpu:N".
    """
    if not isinstance(name, str):
        raise UsageError(f"a device is opened by its name, such as \"sim\" or \"sim:a100\", not by {type(name).__name__} {name!r}")
    kind, colon, rest = name.partition(":")
    if kind == "gpu" and (not colon or rest.isdecimal()):
        raise UnsupportedError(f"running on a GPU (`{name}`) is not supported yet; use `sim` or `sim:NAME`, which need none")
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

    return Simulator(find_device(rest), seed=seed, threads=threads, budget=budget, lockstep=lockstep)


def _suggestion(name: str) -> str:
    try:
        return f"; did you mean sim:{find_device(name).key}?"
    except UsageError:
        return ""
