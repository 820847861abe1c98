"""From what native code counted to a `LaunchProfile`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridstride.findings import Dim3
from gridstride.lower.counting import IDEAL, SECTORS, WAVEFRONTS
from gridstride.machine.launch_options import Counts
from gridstride.observers.metrics.profile import BufferLoads, InstructionCounts, LaunchProfile

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
    buffers: Mapping[int, tuple[str, int]] | None = None,
) -> LaunchProfile:
    """The profile of one launch; instructions of one PTX line are added up (a function may be inlined often).

    buffers: name and bytes of the array that was given, by the offset of the pointer parameter.
    """
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
        kernel,
        device,
        grid,
        block,
        counts.code.static_shared,
        shared_dynamic,
        registers,
        seconds,
        instructions_found,
        footprint_bytes,
        _buffer_loads(counts, buffers or {}),
    )


def _buffer_loads(counts: Counts, buffers: Mapping[int, tuple[str, int]]) -> tuple[BufferLoads, ...]:
    """Bytes loaded through each pointer parameter; what cannot be told apart comes last, without a name."""
    loaded: dict[int, int] = {}
    for (_, lanes), instructions in zip(counts.blocks.tolist(), counts.code.instructions, strict=True):
        for *_, opcode, site, _unused in instructions:
            if site < 0 or not lanes or opcode.split(".", 1)[0] not in ("ld", "ldu") or counts.code.sites[site][4] not in ("global", "generic"):
                continue
            offset, variable, _ = counts.code.provenance[site]
            if not variable:  # variables of the module are no buffers
                loaded[offset if offset in buffers else -1] = loaded.get(offset if offset in buffers else -1, 0) + lanes * counts.code.sites[site][5]
    known = [BufferLoads(*buffers[offset], loaded[offset]) for offset in sorted(loaded) if offset >= 0]
    return (*known, *([BufferLoads("", 0, loaded[-1])] if -1 in loaded else []))


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
