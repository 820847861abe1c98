"""The cells in which a checked launch notes who wrote each element of the outputs that its contract covers (see `lower/coverage.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridstride.lower.race_cells import BLOCK_SHIFT, THREAD_MASK, TIME_BITS
from gridstride.lower.records import COVER, COVER_CELL
from gridstride.machine.launch_options import Covered, Writers
from gridstride.machine.record_view import RecordView, column
from gridstride.machine.reserve import reserve

_CELL = np.dtype({"names": ["owner", "site"], "formats": ["<u8", "<i4"], "offsets": [0, 8], "itemsize": COVER_CELL})


class CoveredOutputs:
    """Memory for the writers of each output; address space until an element is written."""

    def __init__(self, outputs: Sequence[Covered]) -> None:
        self._cells = [np.frombuffer(reserve(max(1, output.elements) * COVER_CELL), _CELL)[: output.elements] for output in outputs]
        self._records = np.zeros((len(outputs), COVER.size), np.uint8)
        for name, values in (
            ("low", [output.low for output in outputs]),
            ("high", [output.high for output in outputs]),
            ("unit", [output.unit for output in outputs]),
            ("cells", [cells.ctypes.data for cells in self._cells]),
        ):
            column(self._records, COVER, name)[...] = np.array(values, np.int64)

    def give_to(self, worker: RecordView) -> None:
        """Let native code find the cells."""
        worker["covered"], worker["covered_count"] = self._records.ctypes.data, len(self._cells)

    def writers(self, first_block: int) -> tuple[Writers, ...]:
        """Who wrote what. first_block: the number of the launch's first block among all that the detectors have seen."""
        found = []
        for cells in self._cells:
            owners = cells["owner"]
            blocks = (owners >> np.uint64(BLOCK_SHIFT)).astype(np.int64) - first_block
            threads = ((owners >> np.uint64(TIME_BITS)) & np.uint64(THREAD_MASK)).astype(np.int64)
            found.append(Writers(np.where(owners == 0, -1, blocks), threads, cells["site"].copy()))
        return tuple(found)
