"""Jobs for the tests of clusters, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def process(number: int) -> int:
    """Which process does it; slow enough for the others to get some."""
    time.sleep(0.05)
    return os.getpid()


def die(job: tuple[int, Path | None]) -> int:
    """Give the number back; kill the worker where the file is there (which it takes away first), or always, without a file."""
    number, file = job
    if file is not None:
        try:
            file.unlink()
        except FileNotFoundError:
            return number
    elif number >= 0:
        return number
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def broken(number: int) -> int:
    raise RuntimeError(f"{number} is broken")


def slow(number: int) -> int:
    time.sleep(0.5)
    return number
