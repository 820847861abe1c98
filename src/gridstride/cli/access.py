"""`gridstride access`: what a warp's accesses cost, from an index expression or a list of addresses."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from gridstride.cli.options import console, parse_dim3, write_json
from gridstride.errors import UsageError
from gridstride.findings import Dim3
from gridstride.machine.devices import DEFAULT_DEVICE, find_device
from gridstride.machine.limits import check_launch, format_dim3
from gridstride.observers.metrics.index_expression import IndexExpression, Integers, parse_index
from gridstride.observers.metrics.pattern import (
    FULL_MASK,
    WARP,
    AccessPattern,
    Kind,
    Space,
    loop_values,
    reads_per_element,
    thread_values,
    warp_slices,
)

_TYPES = {
    "char": 1, "uchar": 1, "u8": 1, "i8": 1, "bool": 1, "half": 2, "short": 2, "u16": 2, "i16": 2, "f16": 2, "bf16": 2,
    "int": 4, "uint": 4, "float": 4, "u32": 4, "i32": 4, "f32": 4, "half2": 4, "uchar4": 4, "char4": 4,
    "double": 8, "long": 8, "u64": 8, "i64": 8, "f64": 8, "float2": 8, "int2": 8, "uint2": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16,
}  # fmt: skip
_MOST_ACCESSES = 200_000
_MOST_READS_SHOWN = 1024


def command(
    access: Annotated[
        str,
        typer.Argument(
            metavar="ACCESS",
            help="An index expression as in the source, 'x\\[i*stride+offset]', 's\\[threadIdx.x]\\[0]', or byte addresses: '0,128,256'.",
        ),
    ],
    type_: Annotated[str, typer.Option("--type", "-t", metavar="TYPE", help="What one lane accesses: float, float4, double, u8, … or bytes.")] = "float",
    space: Annotated[str, typer.Option("--space", metavar="global|shared", help="Where the array lies.")] = "global",
    kind: Annotated[str, typer.Option("--kind", metavar="load|store|atomic", help="What is done.")] = "load",
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="A name of the expression; VALUE may use others. Repeat for more.")
    ] = None,
    block: Annotated[str, typer.Option("--block", "-b", metavar="X[xY[xZ]]", help="Threads a block.")] = "32",
    grid: Annotated[str, typer.Option("--grid", metavar="X[xY[xZ]]", help="Blocks: for totals.")] = "1",
    warp: Annotated[int, typer.Option("--warp", metavar="N", help="The warp of block 0 to draw.")] = 0,
    loop: Annotated[
        list[str] | None, typer.Option("--loop", metavar="NAME=N", help="A loop variable from 0 to N-1: for totals. Repeat for more.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", metavar="CONDITION", help="Threads that take part: 'i < n'.")] = None,
    pitch: Annotated[int | None, typer.Option("--pitch", metavar="N", help="Elements from row to row, of a two-dimensional array.")] = None,
    rows: Annotated[int | None, typer.Option("--rows", metavar="N", help="Rows of a plane, of a three-dimensional array.")] = None,
    base: Annotated[int, typer.Option("--base", metavar="BYTES", help="Where the array begins.")] = 0,
    segment: Annotated[
        int | None, typer.Option("--segment", metavar="BYTES", help="Count transactions of this size beside the 32-byte sectors.")
    ] = None,
    reads: Annotated[
        int | None, typer.Option("--reads", metavar="ELEMENTS", help="Count how often each element of a buffer this long is read.")
    ] = None,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON to FILE (- for standard output).")] = None,
) -> None:
    """Sectors of a global access, bank passes of a shared one, efficiency, and a picture of where the lanes go.

    i is the global index, tid is threadIdx.x, lane and warp count in the block; CUDA's own names work too.
    """
    size = _size(type_)
    wanted_space, wanted_kind = _choice(space, "--space", ("global", "shared")), _choice(kind, "--kind", ("load", "store", "atomic"))
    if wanted_space == "shared" and wanted_kind == "atomic":
        raise UsageError("the passes of shared atomics depend on more than their addresses: use --kind load for the banks they touch")
    if re.fullmatch(r"[\d\s,]+|0[xX][\da-fA-F]+(\s*,\s*0[xX][\da-fA-F]+)*", access.strip()):
        addresses = [int(part, 0) for part in re.split(r"[\s,]+", access.strip().strip(",")) if part]
        answer = Answer(AccessPattern.of_lanes([a + base for a in addresses], size, wanted_space, wanted_kind), None, segment, None, None)
    else:
        threads, blocks = parse_dim3(block, "the block"), parse_dim3(grid, "the grid")
        check_launch(find_device(DEFAULT_DEVICE), blocks, threads)
        question = _Question(parse_index(access), threads, blocks, set_ or [], loop or [], where, pitch, rows, base, size, wanted_space, wanted_kind)
        counts = None if reads is None else question.reads(reads)
        answer = Answer(question.one(warp), question.totals(), segment, question.better_pitch(warp), counts)
    if json is not None:
        write_json(json, answer.describe())
    if json != "-":
        _print(answer)


def _choice(value: str, what: str, allowed: Sequence[str]) -> Any:
    if value not in allowed:
        raise UsageError(f"{what} is {' or '.join(allowed)}, not `{value}`")
    return value


def _size(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text not in _TYPES:
        raise UsageError(f"there is no type `{text}` here; known are {', '.join(_TYPES)}, or a number of bytes")
    return _TYPES[text]


def _pairs(texts: Sequence[str], what: str) -> list[tuple[str, str]]:
    pairs = [(text.partition("=")[0].strip(), text.partition("=")[2].strip()) for text in texts]
    for (name, value), text in zip(pairs, texts, strict=True):
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[xyz])?", name) or not value:
            raise UsageError(f"cannot read {what} `{text}`: write NAME=VALUE")
    return pairs


@dataclass(frozen=True)
class _Question:
    """An index expression with everything that it is computed from."""

    expression: IndexExpression
    block: Dim3
    grid: Dim3
    definitions: Sequence[str]
    loops: Sequence[str]
    where: str | None
    pitch: int | None
    rows: int | None
    base: int
    size: int
    space: Space
    kind: Kind

    def _loops(self) -> dict[str, int]:
        found = {}
        for name, text in _pairs(self.loops, "--loop"):
            if not text.isdigit() or int(text) < 1:
                raise UsageError(f"--loop {name}={text}: the bound is a whole number of at least 1")
            found[name] = int(text)
        return found

    def _defined(self, values: Mapping[str, Integers]) -> dict[str, Integers]:
        """With the names of --set, each of which may use those before it."""
        known = dict(values)
        for name, text in _pairs(self.definitions, "--set"):
            known[name] = parse_index(text).element(known)
        return known

    def _elements(self, values: Mapping[str, Integers], threads: int, pitch: int | None) -> tuple[Integers, Any]:
        """(elements, whether each takes part) of all threads."""
        known = self._defined(values)
        elements = np.broadcast_to(self.expression.element(known, pitch, self.rows), (threads,))
        active = np.ones(threads, dtype=bool)
        if self.where is not None:
            active = np.broadcast_to(parse_index(self.where).element(known) != 0, (threads,))
        return elements, active

    def _pattern(self, elements: Integers, active: Any) -> AccessPattern:
        addresses = [self.base + int(e) * self.size for e in elements]
        mask = sum(1 << lane for lane, takes_part in enumerate(active) if takes_part)
        if any(address < 0 for address, takes_part in zip(addresses, active, strict=True) if takes_part):
            raise UsageError(f"`{self.expression.text}` is negative for a thread that takes part")
        return AccessPattern((*addresses, *[0] * (WARP - len(addresses))), mask, self.size, self.space, self.kind)

    def one(self, warp: int, pitch: int | None = None) -> AccessPattern:
        """The access of one warp of block 0, loop variables at 0."""
        threads = math.prod(self.block)
        slices = warp_slices(threads, threads)
        if not 0 <= warp < len(slices):
            raise UsageError(f"a block of {format_dim3(self.block)} threads has warps 0 to {len(slices) - 1}, not {warp}")
        values = thread_values(self.grid, self.block, [(0, 0, 0)])
        first = next(loop_values(self._loops(), values))
        elements, active = self._elements(first, threads, pitch or self.pitch)
        return self._pattern(elements[slices[warp]], active[slices[warp]])

    def totals(self) -> dict[str, Any] | None:
        """Requests and sectors, or passes, of all warps and loop turns; None for one warp, which has none to add up."""
        loops = self._loops()
        per_block, blocks = math.prod(self.block), math.prod(self.grid)
        warps = blocks * -(-per_block // WARP)
        turns = math.prod(loops.values())
        if warps * turns == 1:
            return None
        if warps * turns > _MOST_ACCESSES:
            raise UsageError(f"{warps * turns:,} warp accesses are too many to add up: the limit is {_MOST_ACCESSES:,}; take a smaller grid")
        values = thread_values(self.grid, self.block)
        patterns = []
        for bound in loop_values(loops, values):
            elements, active = self._elements(bound, per_block * blocks, self.pitch)
            patterns += [self._pattern(elements[s], active[s]) for s in warp_slices(per_block * blocks, per_block) if active[s].any()]
        found: dict[str, Any] = {"requests": len(patterns), "bytes_asked": sum(p.bytes_asked for p in patterns)}
        if self.space == "global":
            found["sectors"] = sum(p.sectors for p in patterns)
        else:
            found["passes"] = sum(p.passes for p in patterns)
            found["fewest_passes"] = sum(p.fewest_passes for p in patterns)
        return found

    def better_pitch(self, warp: int) -> tuple[int, int] | None:
        """(pitch, passes) of the least padding of a shared array's rows that lessens the passes of the drawn access most."""
        if self.space != "shared" or self.pitch is None or len(self.expression.indices) < 2:
            return None
        now = self.one(warp).passes
        tried = [(self.one(warp, self.pitch + more).passes, self.pitch + more) for more in range(1, 33)]
        passes, pitch = min(tried)
        return (pitch, passes) if passes < now else None

    def reads(self, elements: int) -> Any:
        values = self._defined(thread_values(self.grid, self.block))
        condition = None if self.where is None else parse_index(self.where)
        return reads_per_element(self.expression, elements, values, self._loops(), condition, self.pitch)


@dataclass(frozen=True)
class Answer:
    """`better_pitch`: (pitch, passes); `reads`: reads of each element."""

    pattern: AccessPattern
    totals: dict[str, Any] | None
    segment: int | None
    better_pitch: tuple[int, int] | None
    reads: Any

    def describe(self) -> dict[str, Any]:
        """The answer as a JSON document; sizes and addresses in bytes, inactive lanes' addresses null."""
        pattern = self.pattern
        found: dict[str, Any] = {
            "schema": 1,
            "space": pattern.space,
            "kind": pattern.kind,
            "bytes_per_lane": pattern.size,
            "addresses": [address if pattern.mask >> lane & 1 else None for lane, address in enumerate(pattern.addresses)],
            "active_lanes": len(pattern.lanes),
            "bytes_asked": pattern.bytes_asked,
            "bytes_needed": pattern.bytes_needed,
        }
        if pattern.space == "global":
            found |= {
                "sectors": pattern.sectors,
                "fewest_sectors": pattern.fewest_sectors,
                "bytes_moved": pattern.bytes_moved,
                "efficiency_pct": round(100 * pattern.efficiency, 2),
            }
        else:
            found |= {"passes": pattern.passes, "fewest_passes": pattern.fewest_passes}
            if self.better_pitch is not None:
                found["better_pitch"] = {"elements": self.better_pitch[0], "passes": self.better_pitch[1]}
        if self.segment is not None:
            moved = pattern.transactions(_segment(self.segment))
            found["transactions"] = {
                "segment_bytes": self.segment,
                "number": moved,
                "efficiency_pct": round(100 * pattern.bytes_needed / (moved * self.segment), 2) if moved else 0.0,
            }
        if self.totals is not None:
            found["totals"] = self.totals
        if self.reads is not None:
            found["reads"] = {"per_element": self.reads.tolist(), "total": int(self.reads.sum()), "elements_read": int((self.reads > 0).sum())}
        return found


def _segment(size: int) -> int:
    if size < 1:
        raise UsageError(f"a transaction has at least 1 byte, not {size}")
    return size


def _print(answer: Answer) -> None:
    from rich.text import Text

    from gridstride.report.lanes import bank_picture, lane_ranges, sector_picture

    pattern = answer.pattern
    lanes = "all 32 lanes" if pattern.mask == FULL_MASK else f"lanes {lane_ranges(pattern.lanes)}" if pattern.mask else "no lane"
    lines = [f"{pattern.space} {pattern.kind} of {pattern.size} bytes a lane by {lanes}: {pattern.bytes_asked} bytes asked, {pattern.bytes_needed} distinct"]
    details = answer.describe()
    if pattern.space == "global":
        lines.append(
            f"{pattern.sectors} {'sector' if pattern.sectors == 1 else 'sectors'} a request (at least {pattern.fewest_sectors}): {pattern.bytes_moved:,} bytes moved, "
            f"{100 * pattern.efficiency:.1f} % of them needed"
        )
    else:
        lines.append(f"{pattern.passes} {'pass' if pattern.passes == 1 else 'passes'} over the banks (at least {pattern.fewest_passes})")
    if (transactions := details.get("transactions")) is not None:
        number, size, used = transactions["number"], transactions["segment_bytes"], transactions["efficiency_pct"]
        lines.append(f"{number} transactions of {size} bytes, {used:g} % of them used")
    if answer.better_pitch is not None:
        pitch, passes = answer.better_pitch
        lines.append(f"rows of {pitch} elements would make it {passes} {'pass' if passes == 1 else 'passes'}")
    lines += [f"  {hint}" for hint in _hints(pattern)]
    if answer.totals is not None:
        lines.append("all warps: " + ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in answer.totals.items()))
    lines += ["", sector_picture(pattern) if pattern.space == "global" else bank_picture(pattern)]
    if answer.reads is not None:
        lines += ["", *_reads(answer.reads)]
    console().print(Text("\n".join(lines)), soft_wrap=True)


def _hints(pattern: AccessPattern) -> list[str]:
    """What the addresses say about the mistake, where they say something."""
    lanes = pattern.lanes
    if pattern.space != "global" or pattern.kind == "atomic" or len(lanes) < 2 or pattern.sectors <= pattern.fewest_sectors:
        return []
    steps = {pattern.addresses[b] - pattern.addresses[a] for a, b in itertools.pairwise(lanes)}
    (step,) = steps if len(steps) == 1 else (None,)
    if step == pattern.size:
        return [f"the first lane's address is {pattern.addresses[lanes[0]] % 32} bytes past a sector: aligned, it would be {pattern.fewest_sectors}"]
    if step is not None and abs(step) > pattern.size:
        return [f"stride {abs(step)} bytes: neighbouring lanes should access neighbouring elements, {pattern.size} bytes apart"]
    return []


def _reads(counts: Any) -> list[str]:
    total, read = int(counts.sum()), int((counts > 0).sum())
    average = f"{total / read:.4g} reads each" if read else "none is read"
    lines = [f"{total:,} reads of {read:,} elements, {average}; loaded once into shared memory: {read:,}"]
    if len(counts) <= _MOST_READS_SHOWN:
        side = math.isqrt(len(counts))
        row = side if side * side == len(counts) else 16
        width = len(str(int(counts.max(initial=0))))
        lines += [" ".join(f"{int(n):>{width}}" for n in counts[k : k + row]) for k in range(0, len(counts), row)]
    return lines
