"""The worker processes of a local cluster, started by us and not by Dask's nannies: a nanny whose process dies in the moment it starts gives up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

ENDING = 2.0
"""Seconds that a process has to end by itself."""

LOOKING = 0.2
"""Seconds between looks at whether processes are alive."""

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Processes:
    """`count` processes, each a worker with one thread of the scheduler at `address`. One that dies is started anew; they end with this
    process, however that ends."""

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._processes = [self._start() for _ in range(count)]
        self._ending = threading.Event()
        self._watch = threading.Thread(target=self._revive, name="workers", daemon=True)
        self._watch.start()

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C at a terminal is for the process that asked for the work, which then ends the workers in order.
        # Standard input is a pipe of which this process holds the other end: it closes when this process is gone.
        path = os.pathsep.join(filter(None, sys.path))  # what this process can import, they can
        return subprocess.Popen(
            [sys.executable, "-m", "gridstride.cluster.process", self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "DASK_LOGGING__DISTRIBUTED": "critical", "PYTHONPATH": path},
        )

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def _revive(self) -> None:
        while not self._ending.wait(LOOKING):
            self._processes = [process if process.poll() is None else self._start() for process in self._processes]

    def end(self) -> None:
        """End all of them, and wait for that."""
        self._ending.set()
        self._watch.join()
        for process in self._processes:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
