"""Results kept on disk between runs: one checked JSON file an entry, the least recently used leaving first."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import platformdirs

# Changes when the meaning of an entry changes: older entries are then not found.
_FORMAT = 1


def cache_directory() -> Path:
    """Where Gridstride keeps what it can make again: `GRIDSTRIDE_CACHE_DIR`, or the user's cache folder."""
    chosen = os.environ.get("GRIDSTRIDE_CACHE_DIR")
    return Path(chosen) if chosen else platformdirs.user_cache_path("gridstride", appauthor=False)


def key_of(*parts: object) -> str:
    """A name for the result that these parts (JSON values) lead to."""
    text = json.dumps([_FORMAT, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class DiskCache:
    """A folder of JSON values. No failure of the disk reaches the caller: what cannot be read is made again, what cannot be written is not kept."""

    def __init__(self, room: str, *, limit_bytes: int = 256 << 20) -> None:
        self._room = room
        self._limit_bytes = limit_bytes

    @property
    def directory(self) -> Path:
        return cache_directory() / self._room

    def get(self, key: str) -> Any | None:
        """The value kept under a key; None when there is none or it is damaged."""
        path = self.directory / f"{key}.json"
        try:
            checksum, _, payload = path.read_bytes().partition(b"\n")
            if checksum.decode() != hashlib.sha256(payload).hexdigest():
                return None
            value = json.loads(payload)
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of last use decides who leaves first
        return value

    def put(self, key: str, value: Any) -> None:
        """Keep a JSON value: written beside its place and renamed, so that readers see all of it or nothing."""
        payload = json.dumps(value).encode()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="new-", dir=self.directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload)
                os.replace(name, self.directory / f"{key}.json")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
            self._trim()
        except OSError:
            return

    def _trim(self) -> None:
        entries = []
        for entry in self.directory.iterdir():
            with contextlib.suppress(OSError):
                status = entry.stat()
                entries.append((status.st_mtime_ns, status.st_size, entry))
        total = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries):
            if total <= self._limit_bytes:
                return
            with contextlib.suppress(OSError):
                entry.unlink()
            total -= size
