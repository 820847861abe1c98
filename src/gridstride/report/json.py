"""A run as JSON (schema 1) and its output buffers as NPZ; both appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from gridstride.errors import UsageError
from gridstride.report.model import SCHEMA, CaseResult, RunResult
from gridstride.report.profile_json import profile_json


def as_json(run: RunResult) -> dict[str, Any]:
    """The published form: {"schema", "device", "cases": […]}."""
    return {"schema": SCHEMA, "device": run.device, "cases": [_case(case) for case in run.cases]}


def json_text(run: RunResult) -> str:
    """The published form as text."""
    return json.dumps(as_json(run), indent=1, ensure_ascii=False, allow_nan=False)


def write_json(run: RunResult, path: Path) -> None:
    """Write the run to `path`, replacing what is there only when all is written. Raises UsageError where it cannot be written."""
    text = json_text(run) + "\n"
    _write(path, lambda file: file.write(text.encode()))


def write_arrays(run: RunResult, path: Path) -> None:
    """Write the output buffers as compressed NPZ under `CASE.ARGUMENT_POSITION`, whole or not at all."""
    arrays: dict[str, Any] = run.arrays()
    # NumPy takes the names as keywords; they cannot collide with its own, since each of ours holds a dot.
    _write(path, lambda file: np.savez_compressed(file, **arrays))


def require_writable(path: Path) -> None:
    """Raise UsageError now if nothing can be written at `path` later: better before a long run than after it."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not _is_stream(path):
        with _staged(path):
            pass


def _case(case: CaseResult) -> dict[str, Any]:
    return {
        "name": case.name,
        "kernel": case.kernel,
        "status": case.status,
        "error": asdict(case.failure) if case.failure else None,
        "seconds": case.seconds,
        "counters": {name: value for name, value in case.counters.items() if math.isfinite(value)},
        "occupancy": case.occupancy.as_json() if case.occupancy else None,
        "estimate_us": case.estimate_us,
        "findings": [finding.as_json() for finding in case.findings],
        "receipt": {**asdict(case.receipt), "checks": list(case.receipt.checks), "skipped": list(case.receipt.skipped)},
        **({"profile": profile_json(case.metrics)} if case.metrics is not None else {}),
    }


def _is_stream(path: Path) -> bool:
    """Something like /dev/stdout or a pipe, which is written in place."""
    return path.exists() and not path.is_file()


def _write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    if _is_stream(path):
        try:
            with path.open("wb") as stream:
                fill(stream)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
        return
    with _staged(path) as staged:
        with staged.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)


@contextmanager
def _staged(path: Path) -> Iterator[Path]:
    """A fresh file beside `path` to write into; gone afterwards unless it was moved into place."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        staged = Path(name)
        # mkstemp makes files only the owner can read; a result should have the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        staged.chmod(0o666 & ~mask)
        try:
            yield staged
        finally:
            staged.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
