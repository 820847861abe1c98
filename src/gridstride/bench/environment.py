"""Where a benchmark ran: recorded with its figures, since they mean nothing without."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path


def describe() -> dict[str, str]:
    """Processor, load, system and versions, ready to print."""
    facts = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "processors": f"{os.cpu_count()} (one used)",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
    facts["load before"] = load()
    for package in ("gridstride", "llvmlite", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            facts[package] = metadata.version(package)
    return facts


def load() -> str:
    """The average number of processes that wanted to run during the last minute; other people's work disturbs the figures."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep the process, and what it starts inside, on one processor, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
