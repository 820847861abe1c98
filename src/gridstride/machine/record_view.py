"""Records that native code and Python share, seen from Python (see `lower/records.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gridstride.lower.records import (
    Record,
)


class RecordView:
    """A record in host memory, its fields read and written by name."""

    def __init__(self, record: Record, data: npt.NDArray[np.uint8]) -> None:
        self.record, self.data = record, data

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)

    def array(self, name: str) -> npt.NDArray[Any]:
        entry = self.record.fields[name]
        kind: Any = {"i32": np.int32, "i64": np.int64, "ptr": np.int64}[entry.type]
        size = np.dtype(kind).itemsize * entry.count
        return self.data[entry.offset : entry.offset + size].view(kind)

    def __getitem__(self, name: str) -> int:
        return int(self.array(name)[0])

    def __setitem__(self, name: str, value: int) -> None:
        self.array(name)[0] = value


def column(records: npt.NDArray[np.uint8], record: Record, name: str, *, whole: bool = False) -> npt.NDArray[Any]:
    """One field of many records of which the last axis holds the bytes."""
    entry = record.fields[name]
    kind: Any = {"i32": np.int32, "i64": np.int64, "ptr": np.int64}[entry.type]
    first = records[..., entry.offset : entry.offset + np.dtype(kind).itemsize].view(kind)[..., 0]
    shape = (*records.shape[:-1], entry.count) if whole else records.shape[:-1]
    strides = (*records.strides[:-1], np.dtype(kind).itemsize) if whole else records.strides[:-1]
    return np.lib.stride_tricks.as_strided(first, shape, strides)


def new_record(record: Record) -> RecordView:
    return RecordView(record, _aligned_zeros(record.size))


def _aligned_zeros(size: int) -> npt.NDArray[np.uint8]:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
