"""A warp's access as a picture in text: which lanes touch which sectors, which banks."""

from __future__ import annotations

from collections.abc import Sequence

from gridstride.observers.metrics import rules
from gridstride.observers.metrics.pattern import AccessPattern

_WORDS = rules.SECTOR_BYTES // rules.BANK_BYTES
_MOST_ROWS = 32


def sector_picture(pattern: AccessPattern) -> str:
    """One line a sector: where it lies, its eight words (█ wanted, ░ moved for nothing), the lanes that touch it.

    Words are half filled (▄) where only some of their bytes are wanted.
    """
    wanted: dict[int, set[int]] = {}
    for lane in pattern.lanes:
        for byte in range(pattern.addresses[lane], pattern.addresses[lane] + pattern.size):
            wanted.setdefault(byte // rules.BANK_BYTES, set()).add(byte)
    sectors = pattern.by_sector()
    lines = ["   sector at  words     lanes"]
    for number, lanes in list(sectors.items())[:_MOST_ROWS]:
        cells = "".join(_word(len(wanted.get(number * _WORDS + k, ()))) for k in range(_WORDS))
        lines.append(f"{number * rules.SECTOR_BYTES:>12,}  {cells}  {lane_ranges(lanes)}")
    if len(sectors) > _MOST_ROWS:
        lines.append(f"{'…':>12}  {len(sectors) - _MOST_ROWS} more")
    return "\n".join(lines)


def _word(wanted_bytes: int) -> str:
    return "░" if wanted_bytes == 0 else "█" if wanted_bytes == rules.BANK_BYTES else "▄"


def bank_picture(pattern: AccessPattern) -> str:
    """One line a bank that is used: how many different words of it are wanted, a ■ each, and the lanes word by word.

    Words of one bank can only be had one after the other; lanes that want the same word get it together. Banks are shown for the warp as a
    whole, also where the hardware takes it in parts (8 and 16 bytes a lane).
    """
    banks: dict[int, list[tuple[int, list[int]]]] = {}
    for word, lanes in pattern.by_word().items():
        banks.setdefault(word % rules.BANKS, []).append((word, lanes))
    lines = ["bank  words  lanes of each word"]
    for bank, words in sorted(banks.items()):
        shown = " | ".join(lane_ranges(lanes) for _, lanes in words[:8]) + (f" | … {len(words) - 8} more" if len(words) > 8 else "")
        lines.append(f"{bank:>4}  {len(words):>5}  {'■' * len(words)} {shown}")
    idle = rules.BANKS - len(banks)
    if idle and banks:
        lines.append(f"{idle} banks idle")
    return "\n".join(lines)


def lane_ranges(lanes: Sequence[int]) -> str:
    """`0-7`, `0, 4, 8`, `0-3, 16-19`: rising lanes, neighbours as ranges."""
    parts: list[list[int]] = []
    for lane in lanes:
        if parts and lane == parts[-1][-1] + 1:
            parts[-1].append(lane)
        elif not parts or lane != parts[-1][-1]:
            parts.append([lane])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
