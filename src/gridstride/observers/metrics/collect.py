"""From what native code counted to a `LaunchProfile`."""

from __future__ import annotations

from typing import Any

from gridstride.findings import Dim3
from gridstride.lower.counting import IDEAL, SECTORS, WAVEFRONTS
from gridstride.machine.launch_options import Counts
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile

_WORD = 4


def collect(
    counts: Counts,
    *,
    kernel: str,
    device: str,
    grid: Dim3,
    block: Dim3,
    shared_dynamic: int,
    registers: int | None,
    seconds: float,
    footprint_bytes: int = 0,
) -> LaunchProfile:
    """The profile of one launch; instructions of one PTX line are added up (a function may be inlined often)."""
    totals: dict[tuple[int, str], dict[str, Any]] = {}
    for (executions, lanes), instructions in zip(counts.blocks.tolist(), counts.code.instructions, strict=True):
        for ptx_line, file, line, opcode, site, unused in instructions:
            entry = totals.setdefault(
                (ptx_line, opcode),
                {"ptx_line": ptx_line, "file": counts.file_names.get(file), "line": line, "opcode": opcode, "executions": 0, "lanes": 0},
            )
            entry["executions"] += executions
            entry["lanes"] += lanes
            if site >= 0:
                _add_site(entry, counts, site, opcode, unused, executions)
    instructions_found = tuple(InstructionCounts(**e) for _, e in sorted(totals.items()))
    return LaunchProfile(
        kernel, device, grid, block, counts.code.static_shared, shared_dynamic, registers, seconds, instructions_found, footprint_bytes
    )


def _add_site(entry: dict[str, Any], counts: Counts, site: int, opcode: str, unused: str, executions: int) -> None:
    first, wavefronts, ideal = (int(counts.sites[site][k]) for k in (SECTORS, WAVEFRONTS, IDEAL))
    space, size = counts.code.sites[site][4:6]
    head = opcode.split(".", 1)[0]
    if head == "bra":
        entry["divergent"] = entry.get("divergent", 0) + first
        return
    access = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "reduction"}.get(head, "")
    if not access:
        return
    if access == "atomic" and unused:
        access = "reduction"
    entry.update(space=space, access=access, bytes=size)
    if space == "shared":
        entry["wavefronts"] = entry.get("wavefronts", 0) + wavefronts
        entry["ideal_wavefronts"] = entry.get("ideal_wavefronts", 0) + ideal
        return
    if space == "param":
        return
    words = max(1, size // _WORD) if space == "local" else 1  # local memory: one request a word
    entry["requests"] = entry.get("requests", 0) + executions * words
    entry["sectors"] = entry.get("sectors", 0) + first
    if wavefronts:  # constant memory: distinct words; atomics: the most lanes on any one address
        entry["wavefronts"] = entry.get("wavefronts", 0) + wavefronts
        entry["ideal_wavefronts"] = entry.get("ideal_wavefronts", 0) + executions
