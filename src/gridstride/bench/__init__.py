"""Honest benchmarks: the simulator against the same loops in C++, against NumPy, and against two other simulators.

Everything is verified before it is timed; what is not installed is skipped in sight. `gridstride bench` is the front door.
"""

from gridstride.bench.results import Goal, KernelResult, Options, Results
from gridstride.bench.runner import run

__all__ = ["Goal", "KernelResult", "Options", "Results", "run"]
