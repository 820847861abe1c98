"""The counters that comparisons show, each with its heading; a column is a metric of `gridstride profile` under its plain name, or made of such."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gridstride.errors import UsageError
from gridstride.observers.metrics.derived import PLAIN_METRICS
from gridstride.observers.metrics.launch_metrics import KernelMetrics, LaunchMetrics

Value = float | int


@dataclass(frozen=True)
class Column:
    """heading: over the column; value: of all launches of a step together."""

    name: str
    heading: str
    value: Callable[[KernelMetrics], Value]


def _plain(name: str) -> Callable[[KernelMetrics], Value]:
    return lambda all_launches: getattr(all_launches, name)


def _of_longest(name: str) -> Callable[[KernelMetrics], Value]:
    """A metric of the launch that takes longest, where adding up makes no sense."""

    def value(all_launches: KernelMetrics) -> Value:
        longest = max(all_launches.launches, key=lambda launch: launch.estimate_us)
        found: Value = getattr(longest, name)
        return found

    return value


def _shared_atomics(quantity: str) -> Callable[[KernelMetrics], Value]:
    return lambda m: sum(getattr(i, quantity) for i in m.instructions if i.space == "shared" and i.access in ("atomic", "reduction"))


_SPECIAL: tuple[Column, ...] = (
    Column("launches", "launches", lambda m: len(m.launches)),
    Column("sectors", "sectors", lambda m: m.bytes_moved // 32),
    Column("requests", "requests", lambda m: m.load_requests + m.store_requests + m.reduction_requests + m.atomic_requests),
    Column("global_atomics", "global atomics (warps)", lambda m: m.reduction_requests + m.atomic_requests),
    Column("atomic_sectors_all", "sectors of atomics", lambda m: m.reduction_sectors + m.atomic_sectors),
    Column("shared_atomics", "shared atomics (warps)", _shared_atomics("executions")),
    Column("shared_atomic_wavefronts", "their passes", _shared_atomics("wavefronts")),
    Column("shared_wavefronts", "shared passes", lambda m: m.shared_load_wavefronts + m.shared_store_wavefronts),
    Column("shared_accesses", "shared accesses (warps)", lambda m: m.shared_loads + m.shared_stores),
    Column("occupancy", "occupancy %", _of_longest("occupancy_percent")),
    Column("registers", "registers", lambda m: max((launch.profile.registers or 0) for launch in m.launches)),
    Column("blocks", "blocks", lambda m: sum(launch.profile.blocks for launch in m.launches)),
    Column("sector_intensity", "FLOP/byte moved", lambda m: m.flops / m.bytes_moved if m.bytes_moved else math.inf),
    Column("flops_per_shared_pass", "FLOPs a shared pass", lambda m: _ratio(m.flops, m.shared_load_wavefronts)),
)
_HEADINGS = {
    "load_requests": "load requests",
    "load_sectors": "load sectors",
    "store_requests": "store requests",
    "store_sectors": "store sectors",
    "sectors_per_load": "sectors a load",
    "sectors_per_store": "sectors a store",
    "bank_conflicts": "bank conflicts",
    "warp_instructions": "warp instructions",
    "lanes_per_instruction": "lanes",
    "divergent_branches": "divergent branches",
    "constant_words_per_load": "words a constant load",
    "load_efficiency": "bytes used ÷ moved",
}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


COLUMNS: dict[str, Column] = {column.name: column for column in _SPECIAL} | {
    name: Column(name, _HEADINGS.get(name, name.replace("_", " ")), _plain(name)) for name in PLAIN_METRICS
}


def column(name: str) -> Column:
    """The column of that name. Raises UsageError for a name that none has."""
    if name not in COLUMNS:
        raise UsageError(f"there is no counter {name!r}; there are {', '.join(sorted(COLUMNS))}")
    return COLUMNS[name]


def values(launches: Sequence[LaunchMetrics], names: Sequence[str]) -> dict[str, Value]:
    """The columns over all launches of a step."""
    together = KernelMetrics.of("", launches)
    return {name: column(name).value(together) for name in names}
