"""One fuzz case on the simulator, watched: how it ended, and whether it touched memory that it had no right to."""

from __future__ import annotations

import re
import struct
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gridstride.errors import GridstrideError, KernelFault, ParseError, UnsupportedError
from gridstride.machine.devices import find_device
from gridstride.machine.limits import as_dim3
from gridstride.machine.memory import RED_ZONE, Memory
from gridstride.runtime.array import Array
from gridstride.runtime.checking import checking
from gridstride.runtime.commands import Launch
from gridstride.runtime.device import LaunchShape
from gridstride.runtime.module import Kernel
from gridstride.runtime.pointer import pointer
from gridstride.runtime.profiling import profiling
from gridstride.runtime.simulator import Simulator

from .mutate import Case

BUDGET = 20_000  # loop iterations and blocks of a launch
CANARY = 0xC3
_WATCHED: dict[str, Callable[[], AbstractContextManager[Any]]] = {"": nullcontext, "checks": checking, "profile": profiling}
_DTYPES = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "u8": np.uint8, "f32": np.float32, "f64": np.float64}


class Verdict(Exception):
    """A failure of Gridstride's: what, and the details."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail


def run_case(case: Case) -> str:
    """The way the case ended: "ok" or an error's code. Raises Verdict where it ended in a way that it must not."""
    device = Simulator(find_device("h200"), seed=case.order, threads=case.threads, budget=BUDGET, blocking=True)
    watch = Watch(device)
    try:
        _run(case, device, watch)
        ended = "ok"
    except GridstrideError as error:
        must_be_told_well(error)
        ended = error.code
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is a failure
        raise Verdict(type(error).__name__, traceback.format_exc()) from None
    watch.look()
    return ended


def must_be_told_well(error: GridstrideError) -> None:
    if error.__cause__ is not None:
        chain = "".join(traceback.format_exception(error))
        raise Verdict(f"internal {type(error.__cause__).__name__}", chain)
    if isinstance(error, KernelFault) and (error.fault is None or "internal" in str(error) or "request of the kernel failed" in str(error)):
        raise Verdict("internal", str(error))
    if isinstance(error, ParseError | UnsupportedError) and not re.search(r"PTX line \d+", str(error)) and "PTX begins" not in str(error):
        raise Verdict("no line", "".join(traceback.format_exception(error)))


def _run(case: Case, device: Simulator, watch: Watch) -> None:
    module = device.compile("\n" + case.ptx if case.ptx.startswith(".version") else ".version 9.0\n" + case.ptx)
    kernel = module[case.kernel] if case.kernel in module else module[next(iter(module), case.kernel)]
    arguments: list[Any] = []
    rng = np.random.default_rng(case.seed)
    for argument in case.arguments:
        watch.canary()
        match argument:
            case ["buf", dtype, count, fill]:
                arguments.append(watch.buffer(_filled(rng, np.dtype(_DTYPES[dtype]), count, fill)))
            case ["ptr", address]:
                arguments.append(pointer(address))
            case [kind, value]:
                arguments.append(_DTYPES[kind](value))
    watch.canary()
    shape = LaunchShape(as_dim3(case.grid, "grid"), as_dim3(case.block, "block"), case.shared)
    with _WATCHED[case.watched]():
        _launch(case, device, kernel, shape, arguments)


def _launch(case: Case, device: Simulator, kernel: Kernel, shape: LaunchShape, arguments: list[Any]) -> None:
    if case.whole_parameters:
        kernel.launch(shape, arguments)
        return
    packed = bytearray(kernel.parameter_bytes)
    for parameter, argument, value in zip(kernel.parameters, case.arguments, arguments, strict=False):
        size = min(parameter.size, len(packed) - parameter.offset)
        packed[parameter.offset : parameter.offset + size] = _raw(argument, value)[:size].ljust(size, b"\xa5")
    device.launch(Launch(kernel, shape, bytes(packed), {}))


def _filled(rng: np.random.Generator, dtype: np.dtype[Any], count: int, fill: str) -> np.ndarray[Any, Any]:
    if fill in ("zeros", "ones"):
        return np.full(count, fill == "ones", dtype)
    if fill == "small":
        return rng.integers(0, 100, count).astype(dtype)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)


def _raw(argument: list[Any], value: Any) -> bytes:
    if argument[0] == "buf":
        return struct.pack("<Q", value.address)
    if argument[0] == "ptr":
        return struct.pack("<Q", argument[1])
    return bytes(value.tobytes())


class Watch:
    """Small arrays between a launch's buffers, and the red zones around all of them: nothing may write there."""

    def __init__(self, device: Simulator) -> None:
        self.device = device
        self.canaries: list[Array] = []
        self.arrays: list[Array] = []

    def canary(self) -> None:
        self.canaries.append(self.device.array(np.full(64, CANARY, np.uint8)))

    def buffer(self, values: np.ndarray[Any, Any]) -> Array:
        self.arrays.append(self.device.array(values))
        return self.arrays[-1]

    def look(self) -> None:
        for number, canary in enumerate(self.canaries):
            if (canary.numpy() != CANARY).any():
                raise Verdict("neighbour overwritten", f"canary {number}: {canary.numpy()}")
        memory: Memory = self.device.memory
        for array in (*self.arrays, *self.canaries):
            start = array.address - memory.base
            end = start + array.nbytes
            for name, zone in (("below", memory._bytes[start - RED_ZONE : start]), ("above", memory._bytes[end : end + RED_ZONE])):
                if zone.any():
                    raise Verdict("red zone overwritten", f"{name} the array at {array.address:#x}: byte {int(np.flatnonzero(zone)[0])}")
