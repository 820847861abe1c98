"""What native code counts for single accesses, against the rules in Python (`test_rules.py` compares those with an H200).

Each kernel makes many accesses under one mask, one PTX line each; a launch is one warp. Closed forms are reached through affine
addresses, the rest through a table of offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import gridstride as gs
from gridstride.observers.metrics import rules
from gridstride.observers.metrics.profile import InstructionCounts

FULL = 0xFFFFFFFF
MIDDLE = 40960  # where lanes are around: bytes into the buffer, or into shared memory
SHARED_BYTES = 98304
GLOBAL_BYTES = 4 << 20
TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "v2.u64"}
HEAD = """.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry probe(.param .u64 buffer, .param .u64 table, .param .u32 mask, .param .s32 first, .param .s32 row)
{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
ld.param.u64 %d1, [buffer];
ld.param.u64 %d2, [table];
ld.param.u32 %r1, [mask];
ld.param.s32 %r2, [first];
ld.param.s32 %r3, [row];
mov.u32 %r4, %tid.x;
mov.u32 %r5, %tid.y;
mov.u32 %r6, %ntid.x;
mad.lo.s32 %r7, %r5, %r6, %r4;
shr.u32 %r8, %r1, %r7;
and.b32 %r8, %r8, 1;
setp.eq.u32 %p1, %r8, 0;
mul.wide.u32 %d3, %r7, 4;
add.u64 %d3, %d2, %d3;
ld.global.s32 %r9, [%d3];
mov.u32 %r10, room;
mov.b64 %d8, 0;
mov.b64 %d9, 0;
@%p1 bra END;
"""


@dataclass(frozen=True)
class Access:
    """One access of a kernel. offset: bytes from the start of its memory for lane x of row y, given `first`, `row` and the table's entry."""

    op: str  # "ld", "st", "red" or "atom", and for those what follows, up to the type
    size: int
    text: str
    offset: Callable[[int, int, int, int, int], int]


def instruction(op: str, space: str, size: int, address: str) -> str:
    kind = TYPES[size]
    register = {1: "%h1", 2: "%h1", 4: "%r20", 8: "%d8", 16: "{%d8, %d9}"}[size]
    if op == "ld":
        return f"ld.{space}.{kind} {register}, [{address}];"
    if op == "st":
        return f"st.{space}.{kind} [{address}], {register};"
    head, _, rest = op.partition(".")
    kind = kind.replace("u", "b") if rest == "exch" else kind
    if head == "red":
        return f"red.{space}.{rest}.{kind} [{address}], {1 if rest == 'add' else 3};"
    return f"atom.{space}.{rest}.{kind} {register}, [{address}], 3;"


def affine_accesses(space: str, size: int, steps: Sequence[int]) -> list[Access]:
    """Loads and stores at elements first + step * x + row * y."""
    found = []
    for step in steps:
        index = [f"mul.lo.s32 %r11, %r4, {step};", "mad.lo.s32 %r11, %r5, %r3, %r11;", "add.s32 %r11, %r11, %r2;"]
        for op in ("ld", "st"):
            if space == "global":
                place = [f"mul.wide.s32 %d4, %r11, {size};", "add.u64 %d4, %d1, %d4;"]
                access = instruction(op, space, size, f"%d4+{MIDDLE}")
            else:
                place = [f"mul.lo.s32 %r12, %r11, {size};", "add.s32 %r12, %r12, %r10;"]
                access = instruction(op, space, size, f"%r12+{MIDDLE}")
            text = "\n".join([*index, *place, access])
            found.append(Access(op, size, text, lambda x, y, first, row, entry, step=step: (step * x + row * y + first) * size))
    return found


def uniform_accesses(space: str, size: int) -> list[Access]:
    """All lanes at one place."""
    base = "%d1" if space == "global" else "%r10"
    return [
        Access(op, size, instruction(op, space, size, f"{base}+{MIDDLE + 48}"), lambda *_: 48) for op in ("ld", "st")
    ]


def table_accesses(space: str, size: int, ops: Sequence[str]) -> list[Access]:
    """At the table's elements, and at twice as many bytes."""
    found = []
    for scale in (size, 2 * size):
        for op in ops:
            if space == "global":
                place = [f"mul.wide.s32 %d4, %r9, {scale};", "add.u64 %d4, %d1, %d4;"]
                access = instruction(op, space, size, f"%d4+{MIDDLE}")
            else:
                place = [f"mul.lo.s32 %r12, %r9, {scale};", "add.s32 %r12, %r12, %r10;"]
                access = instruction(op, space, size, f"%r12+{MIDDLE}")
            found.append(Access(op, size, "\n".join([*place, access]), lambda x, y, first, row, entry, scale=scale: entry * scale))
    return found


class Probe:
    """A kernel with these accesses, compiled; `run` gives what was counted and the bytes that the lanes were at, access by access."""

    def __init__(self, space: str, accesses: Sequence[Access]) -> None:
        self.space, self.accesses = space, accesses
        text = HEAD + "\n".join(access.text for access in accesses) + "\nEND:\nret;\n}\n"
        self.lines: list[int] = []
        line = HEAD.count("\n")
        for access in accesses:
            line += access.text.count("\n") + 1
            self.lines.append(line)
        self.device = gs.device("sim", threads=1)
        self.kernel = self.device.compile(text)["probe"]
        self.buffer = self.device.array(np.zeros(GLOBAL_BYTES, np.uint8))
        self.table = self.device.array(np.zeros(32, np.int32))

    def run(self, mask: int, width: int = 32, first: int = 0, row: int = 0, table: Sequence[int] = (0,) * 32) -> Iterator[tuple[Access, InstructionCounts, list[int]]]:
        self.table.copy_from(np.array(table, np.int32))
        with gs.profiling() as profile:
            arguments = (self.buffer, self.table, np.uint32(mask), np.int32(first), np.int32(row))
            self.kernel[(1, 1, 1), (width, 32 // width, 1)](*arguments, shared=SHARED_BYTES if self.space == "shared" else 0)
        counted = {entry.ptx_line: entry for entry in profile.launches[0].profile.instructions}
        start = self.buffer.address if self.space == "global" else 0
        for access, line in zip(self.accesses, self.lines, strict=True):
            places = [start + MIDDLE + access.offset(k % width, k // width, first, row, table[k]) for k in range(32)]
            yield access, counted[line], places


def expected(space: str, access: Access, places: Sequence[int], mask: int) -> dict[str, int]:
    """Counts by the rules."""
    op, size = access.op, access.size
    if space == "global":
        if op in ("ld", "st"):
            return {"requests": 1, "sectors": rules.sectors(places, mask, size)}
        most = max(sum(mask >> k & 1 for k in range(32) if places[k] == place) for place in places)
        return {"requests": 1, "sectors": rules.reduction_sectors(places, mask, size), "wavefronts": most}
    if op in ("ld", "st"):
        rule = rules.shared_wavefronts_load if op == "ld" else rules.shared_wavefronts_store
        passes = rule(places, mask, size)
        return {"wavefronts": passes, "ideal_wavefronts": min(passes, -(-mask.bit_count() * size // 128))}
    kind = "increment" if op == "red.add" else "cas" if "cas" in op else "native"
    return {"wavefronts": rules.shared_atomic_wavefronts(places, mask, size, kind)}


def compare(probe: Probe, mask: int, width: int = 32, first: int = 0, row: int = 0, table: Sequence[int] = (0,) * 32) -> None:
    wrong = []
    for access, counted, places in probe.run(mask, width, first, row, table):
        want = {"executions": 1, "lanes": mask.bit_count(), **expected(probe.space, access, places, mask)}
        got = {name: getattr(counted, name) for name in want}
        if got != want:
            wrong.append(f"{access.text.splitlines()[-1]} at {[p - places[0] for p in places]} from {places[0] % 256}: {got}, not {want}")
    assert not wrong, f"mask {mask:#010x}, width {width}, first {first}, row {row}:\n" + "\n".join(wrong)


MASKS = (FULL, 1, 1 << 31, 0x0000FFFF, 0xFFFF0000, 0x00FFFF00, 0x55555555, 0xAAAAAAAA, 0x01010101, 0x80000001, 0x7FFFFFFF, 0x0F0F3C01, 0x00010001, 0xFFFFFFFE)
STEPS = {1: (1, -1, 2, 4, 5, 12), 2: (1, -1, 2, 3, 8), 4: (1, -1, 2, 3, 4, 7, 8, -8, 12, 16, 32, 64), 8: (1, -1, 2, 3, 4, 8, 16), 16: (1, -1, 2, 3, 8)}


@cache
def affine_probe(space: str, size: int) -> Probe:
    return Probe(space, [*affine_accesses(space, size, STEPS[size]), *uniform_accesses(space, size)])


@pytest.mark.parametrize("size", TYPES)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_lines(space: str, size: int) -> None:
    probe = affine_probe(space, size)
    for number, mask in enumerate(MASKS):
        compare(probe, mask, first=(0, 1, 3, 7)[number % 4])
    for first in (1, 2, 3, 5):
        compare(probe, FULL, first=first)


@pytest.mark.parametrize(("size", "width"), [(1, 16), (2, 8), (4, 16), (4, 8), (4, 4), (8, 16), (16, 8), (16, 16)])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_rows(space: str, size: int, width: int) -> None:
    """Rows apart, side by side, one over the other, on the same banks, and downwards; then masks in which rows differ."""
    probe = affine_probe(space, size)
    for first, row in ((0, 0), (1, width), (3, width + 1), (0, 1), (2, 17), (0, 32), (1, 64), (5, -width), (0, -3), (0, 16), (0, 8), (1, 0)):
        compare(probe, FULL, width, first, row)
    for mask in MASKS[1:8]:
        compare(probe, mask, width, 1, 17)
    compare(probe, 0x00FF0FF0, width, 1, 0)


def test_rows_of_one_place() -> None:
    """Lanes of a row at one word: the columns of a matrix product."""
    for space in ("global", "shared"):
        probe = Probe(space, affine_accesses(space, 4, (0,)) + affine_accesses(space, 16, (0,)))
        for width in (16, 8, 4, 2):
            for row in (0, 1, 2, 3, 4, 7, 8, 16, 24, 32, 48, 64, -1, -32):
                compare(probe, FULL, width, 1, row)
            compare(probe, 0x0FFFFFF0, width, 0, 16)


def tables() -> list[list[int]]:
    rng = np.random.default_rng(5)
    lanes = np.arange(32)
    found = [
        *(lanes + first for first in (0, 1, 5, -3)),
        *(lanes * step for step in (-1, 2, 3, 5, 16, 32, 33, 0)),
        *(lanes ^ flip for flip in (1, 2, 7, 16, 31)),
        *(lanes // part for part in (2, 4, 16)),
        *(2 * lanes - (lanes & (j - 1)) for j in (2, 4, 8)),
        lanes * 18 // 16,
        *(rng.integers(0, most, 32) for most in (2, 4, 8, 32, 64, 256, 1000) for _ in range(2)),
        *(rng.permutation(32) for _ in range(2)),
        np.where(lanes < 7, 3, 1000 + lanes),
    ]
    return [[int(v) for v in table] for table in found]


@pytest.mark.parametrize("size", TYPES)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_any_places(space: str, size: int) -> None:
    atomics = ("red.add", "atom.add", "atom.exch") if size == 4 else ("atom.exch",) if size == 8 else ()
    probe = Probe(space, table_accesses(space, size, ("ld", "st", *atomics)))
    rng = np.random.default_rng(6)
    for number, table in enumerate(tables()):
        compare(probe, FULL, table=table)
        compare(probe, MASKS[number % len(MASKS)], table=table)
        compare(probe, int(rng.integers(1, 1 << 32)), table=table)
    for _ in range(4 if space == "global" else 0):  # megabytes apart, some of them together
        far = [int(v) for v in rng.choice(rng.integers(0, 3_800_000 // (2 * size), 20), 32)]
        compare(probe, FULL, table=far)
        compare(probe, int(rng.integers(1, 1 << 32)), table=far)
