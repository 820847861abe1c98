"""Native code that all kernels share in this process: run-time functions, the scheduler, the race detector."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.cache import DiskCache, key_of
from gridstride.lower.host import compile_object, host_cpu, host_features, load_object
from gridstride.lower.kernel import code_fingerprint
from gridstride.lower.races import build_races
from gridstride.lower.records import (
    RUNTIME_FUNCTIONS,
)
from gridstride.lower.runtime import build_runtime
from gridstride.lower.scheduler import build_scheduler

_RACE_FUNCTIONS = ("race_begin", "race_arrive", "race_release", "race_exit", "note_finding")
_DETECTORS = (*_RACE_FUNCTIONS, "race_access", "race_warp_sync", "cover_write")


@dataclass(frozen=True)
class SharedCode:
    """The functions that all kernels share, in this process."""

    trackers: list[Any]
    table: npt.NDArray[np.int64]
    run: Callable[[int, int, int], int]
    races: dict[str, int]


def shared_functions() -> SharedCode:
    """Loaded once, by whichever thread comes first."""
    with _loading:
        return _shared_functions()


_loading = threading.Lock()


@functools.cache
def _shared_functions() -> SharedCode:
    cache = DiskCache("native", limit_bytes=512 << 20)
    trackers, addresses = [], {}
    for name, build, symbols in (
        ("runtime", build_runtime, [n for n in RUNTIME_FUNCTIONS if n not in ("host", *_DETECTORS)]),
        ("scheduler", build_scheduler, ["run"]),
        ("races", build_races, list(_DETECTORS)),
    ):
        key = key_of("shared", name, host_cpu(), host_features(), code_fingerprint())
        kept = cache.get(key)
        if kept is None:
            image = compile_object(str(build()))
            cache.put(key, image.hex())
        else:
            image = bytes.fromhex(kept)
        tracker, found = load_object(name, image, symbols)
        trackers.append(tracker)
        addresses.update(found)
    table = np.array([addresses.get(n, 0) for n in RUNTIME_FUNCTIONS], dtype=np.int64)
    races = {n: addresses[n] for n in _RACE_FUNCTIONS}
    run = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(addresses["run"])
    return SharedCode(trackers, table, run, races)
