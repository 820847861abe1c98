"""The C++ loops: built with g++ on the spot, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gridstride.bench.cases import Array
from gridstride.errors import GridstrideError
from gridstride.runtime.request import LaunchRequest, Scalar

SOURCE = Path(__file__).parent / "data" / "loops.cpp"
FLAGS = ("-O3", "-march=native")


class _Dim(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int), ("z", ctypes.c_int))


class Loops:
    """The compiled loops, one function per kernel: called with grid, block and the kernel's own arguments."""

    def __init__(self, compiler: str, folder: Path) -> None:
        library = folder / "loops.so"
        command = [compiler, *FLAGS, "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
        built = subprocess.run(command, check=False, capture_output=True, text=True)
        if built.returncode:
            reason = (built.stderr.strip() or f"exit status {built.returncode}").splitlines()[0]
            raise GridstrideError(f"{compiler} could not build the C++ loops: {reason}")
        self.command = " ".join((Path(compiler).name, *FLAGS))
        version = subprocess.run([compiler, "--version"], check=False, capture_output=True, text=True).stdout
        self.version = version.splitlines()[0] if version else compiler
        self._library = ctypes.CDLL(str(library))

    def has(self, kernel: str) -> bool:
        return hasattr(self._library, kernel)

    def call(self, case: LaunchRequest, arrays: Sequence[Array | None]) -> float:
        """Run one launch's loops; returns seconds. `arrays` holds, per argument, the host array of a buffer or None for a scalar."""
        values: list[object] = [_Dim(*case.grid), _Dim(*case.block)]
        for argument, array in zip(case.arguments, arrays, strict=True):
            if isinstance(argument, Scalar):
                values.append(np.ctypeslib.as_ctypes_type(argument.value.dtype)(argument.value.item()))
            else:
                assert array is not None
                values.append(ctypes.c_void_p(array.ctypes.data))
        function = getattr(self._library, case.kernel)
        function.restype = None
        begin = time.perf_counter()
        function(*values)
        return time.perf_counter() - begin


def find_compiler() -> str | None:
    """The g++ on PATH, or None."""
    return shutil.which("g++")
