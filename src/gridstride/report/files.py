"""Writing files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gridstride.errors import UsageError


def require_writable(path: Path) -> None:
    """Raise UsageError now if nothing can be written at `path` later: better before a long run than after it."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not _is_stream(path):
        with _staged(path):
            pass


def _is_stream(path: Path) -> bool:
    """Something like /dev/stdout or a pipe, which is written in place."""
    return path.exists() and not path.is_file()


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Let `fill` write a file that takes its place when all is written. Raises UsageError where it cannot be written."""
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
