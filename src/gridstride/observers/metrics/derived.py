"""Metrics under plain names, made from what a launch counted, for any set of instructions (`Metrics`) and for a line (`LineMetrics`).
Launches and kernels have more: `launch_metrics.py`.

A ratio whose denominator is zero is NaN: nothing of the kind happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gridstride.observers.metrics.flops import FloatingCounts, count_floating
from gridstride.observers.metrics.mix import Group, group_of
from gridstride.observers.metrics.profile import InstructionCounts

SECTOR_BYTES = 32
GLOBAL = ("global", "generic")


def ratio(part: float, whole: float) -> float:
    """part ÷ whole, NaN where there is no whole."""
    return part / whole if whole else math.nan


@dataclass(frozen=True)
class Metrics:
    """What a set of instructions did. Counts are over all warps of the launch (or launches)."""

    instructions: tuple[InstructionCounts, ...] = field(repr=False)

    def where(self, access: str, *spaces: str) -> tuple[InstructionCounts, ...]:
        """Instructions of one kind of access to the given spaces."""
        return tuple(i for i in self.instructions if i.access == access and i.space in spaces)

    def _total(self, quantity: str, access: str, *spaces: str) -> int:
        return sum(getattr(i, quantity) for i in self.where(access, *spaces))

    # ---- global memory -------------------------------------------------------------------------------------

    @property
    def load_requests(self) -> int:
        """Warp-level loads from global memory."""
        return self._total("requests", "load", *GLOBAL)

    @property
    def load_sectors(self) -> int:
        return self._total("sectors", "load", *GLOBAL)

    @property
    def store_requests(self) -> int:
        return self._total("requests", "store", *GLOBAL)

    @property
    def store_sectors(self) -> int:
        return self._total("sectors", "store", *GLOBAL)

    @property
    def reduction_requests(self) -> int:
        """Atomics on global memory whose old value nobody reads."""
        return self._total("requests", "reduction", *GLOBAL)

    @property
    def reduction_sectors(self) -> int:
        return self._total("sectors", "reduction", *GLOBAL)

    @property
    def atomic_requests(self) -> int:
        """Atomics on global memory whose old value is read."""
        return self._total("requests", "atomic", *GLOBAL)

    @property
    def atomic_sectors(self) -> int:
        return self._total("sectors", "atomic", *GLOBAL)

    @property
    def atomic_operations(self) -> int:
        """Threads' atomics and reductions, in global and shared memory, each counted once."""
        return sum(i.lanes for i in self.instructions if i.access in ("atomic", "reduction"))

    @property
    def sectors_per_load(self) -> float:
        """Sectors of a global load request: 4 where 32 lanes read 4 neighbouring bytes each."""
        return ratio(self.load_sectors, self.load_requests)

    @property
    def sectors_per_store(self) -> float:
        return ratio(self.store_sectors, self.store_requests)

    @property
    def load_bytes_asked(self) -> int:
        """Bytes that threads asked for in global loads; a word that 32 lanes read counts 32 times."""
        return sum(i.lanes * i.bytes for i in self.where("load", *GLOBAL))

    @property
    def store_bytes_asked(self) -> int:
        return sum(i.lanes * i.bytes for i in self.where("store", *GLOBAL))

    @property
    def bytes_moved(self) -> int:
        """Bytes of all sectors of global memory that were asked for, before any cache."""
        return SECTOR_BYTES * (self.load_sectors + self.store_sectors + self.reduction_sectors + self.atomic_sectors)

    @property
    def load_efficiency(self) -> float:
        """Bytes asked for ÷ bytes moved; above 1 where lanes share a word."""
        return ratio(self.load_bytes_asked, SECTOR_BYTES * self.load_sectors)

    @property
    def store_efficiency(self) -> float:
        return ratio(self.store_bytes_asked, SECTOR_BYTES * self.store_sectors)

    # ---- local, shared and constant memory ------------------------------------------------------------------

    @property
    def local_requests(self) -> int:
        return self._total("requests", "load", "local") + self._total("requests", "store", "local")

    @property
    def local_sectors(self) -> int:
        return self._total("sectors", "load", "local") + self._total("sectors", "store", "local")

    @property
    def shared_loads(self) -> int:
        """Warp-level loads from shared memory."""
        return self._total("executions", "load", "shared")

    @property
    def shared_stores(self) -> int:
        return self._total("executions", "store", "shared")

    @property
    def shared_load_wavefronts(self) -> int:
        return self._total("wavefronts", "load", "shared")

    @property
    def shared_store_wavefronts(self) -> int:
        return self._total("wavefronts", "store", "shared")

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared loads and stores above the fewest that their widths and lanes allow."""
        accesses = (*self.where("load", "shared"), *self.where("store", "shared"))
        return sum(i.wavefronts - i.ideal_wavefronts for i in accesses)

    @property
    def constant_loads(self) -> int:
        """Warp-level loads from constant memory."""
        return self._total("executions", "load", "const")

    @property
    def constant_words(self) -> int:
        """Distinct words of each constant load, summed: as many passes the constant cache takes."""
        return sum(constant_passes(i) for i in self.where("load", "const"))

    @property
    def constant_words_per_load(self) -> float:
        return ratio(self.constant_words, self.constant_loads)

    # ---- instructions ----------------------------------------------------------------------------------------

    @property
    def warp_instructions(self) -> int:
        """PTX instructions that warps ran (the machine's instructions are others)."""
        return sum(i.executions for i in self.instructions)

    @property
    def thread_instructions(self) -> int:
        return sum(i.lanes for i in self.instructions)

    @property
    def lanes_per_instruction(self) -> float:
        """Active lanes of an instruction, 32 at most."""
        return ratio(self.thread_instructions, self.warp_instructions)

    @property
    def branches(self) -> int:
        """Conditional branches that warps ran."""
        return self.group("branch")

    @property
    def divergent_branches(self) -> int:
        """Executions of branches at which some lanes went another way than others."""
        return sum(i.divergent for i in self.instructions)

    @cached_property
    def instruction_mix(self) -> dict[Group, int]:
        """Warp instructions by group, the largest first."""
        mix: dict[Group, int] = {}
        for i in self.instructions:
            group = group_of(i.opcode)
            mix[group] = mix.get(group, 0) + i.executions
        return dict(sorted(((g, n) for g, n in mix.items() if n), key=lambda item: -item[1]))

    def group(self, group: Group) -> int:
        return self.instruction_mix.get(group, 0)

    @property
    def barriers(self) -> int:
        """Barriers of a block that warps arrived at."""
        return self.group("barrier")

    @property
    def shuffles(self) -> int:
        return self.group("shuffle")

    @property
    def votes(self) -> int:
        """Votes, matches and warp-wide reductions."""
        return self.group("vote")

    @cached_property
    def floating(self) -> FloatingCounts:
        return count_floating(self.instructions)

    @property
    def floating_operations(self) -> int:
        """Additions, multiplications and fused multiply-adds by threads, each instruction counting one."""
        return sum(self.floating.threads.values())

    @property
    def flops(self) -> int:
        """Floating-point operations of all widths, a fused multiply-add counting two."""
        return self.floating.flops

    def as_dict(self) -> dict[str, Any]:
        """Every metric of `PLAIN_METRICS` by its name."""
        return {name: getattr(self, name) for name in PLAIN_METRICS}


PLAIN_METRICS = tuple(name for name, member in vars(Metrics).items() if isinstance(member, property))


def constant_passes(instruction: InstructionCounts) -> int:
    """Distinct words of a constant load over its executions; where only sectors were counted, those: a lower bound."""
    return instruction.wavefronts or max(instruction.executions, instruction.sectors)


@dataclass(frozen=True)
class LineMetrics(Metrics):
    """The instructions of one line. file and line: of the source, None where PTX has no line information or this is a line of PTX;
    ptx_lines: lines of PTX that belong to it."""

    file: str | None = None
    line: int | None = None
    ptx_lines: tuple[int, ...] = ()


def by_source_line(instructions: Iterable[InstructionCounts]) -> tuple[LineMetrics, ...]:
    """The instructions gathered by source line, in the order of files and lines; those without a line come first."""
    return _gather(instructions, lambda i: (i.file or "", i.line or 0))


def by_ptx_line(instructions: Iterable[InstructionCounts]) -> tuple[LineMetrics, ...]:
    """The instructions gathered by line of the PTX text."""
    return _gather(instructions, lambda i: ("", i.ptx_line))


def _gather(instructions: Iterable[InstructionCounts], key: Callable[[InstructionCounts], tuple[str, int]]) -> tuple[LineMetrics, ...]:
    groups: dict[tuple[str, int], list[InstructionCounts]] = {}
    for instruction in instructions:
        groups.setdefault(key(instruction), []).append(instruction)
    found = []
    for _, members in sorted(groups.items()):
        ptx_lines = tuple(sorted({i.ptx_line for i in members}))
        found.append(LineMetrics(tuple(members), members[0].file, members[0].line, ptx_lines))
    return tuple(found)


_COUNTED = ("executions", "lanes", "requests", "sectors", "wavefronts", "ideal_wavefronts", "divergent")


def merged(instructions: Iterable[InstructionCounts]) -> tuple[InstructionCounts, ...]:
    """Counts of the same instruction added up, in the order of PTX lines."""
    found: dict[tuple[Any, ...], InstructionCounts] = {}
    for i in instructions:
        key = (i.ptx_line, i.file, i.line, i.opcode, i.space, i.access, i.bytes)
        known = found.get(key)
        found[key] = i if known is None else replace(known, **{name: getattr(known, name) + getattr(i, name) for name in _COUNTED})
    return tuple(found[key] for key in sorted(found, key=lambda k: (k[0], k[3])))
