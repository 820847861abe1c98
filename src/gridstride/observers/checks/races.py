"""What the two race checks share: how bad a race is, and the sentence with both sides."""

from __future__ import annotations

from typing import cast

from gridstride.findings import Severity
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks.scene import Scene, dim, lines, unravel

_WARNINGS = frozenset({"same-value", "unordered-volatile"})


def severity_of(raw: RawFinding) -> Severity:
    """Of what today's hardware does not mind, a warning; else what native code says (an error)."""
    return "warning" if raw.detail in _WARNINGS else cast(Severity, raw.severity)


def sides(raw: RawFinding, scene: Scene, why: str) -> str:
    """ "thread (1,0,0) reads `s`[3], which thread (3,0,0) writes, and no barrier between them (block (0,0,0), k.cu:7 and k.cu:6)"."""
    first, second = scene.site(raw.site, raw.block, raw.thread), scene.site(raw.other_site, raw.other_block, raw.other_thread)
    target = scene.target(raw.space, raw.address, raw.bytes)
    across = raw.other_block >= 0 and raw.block != raw.other_block
    me, other = _who(scene, raw.block, raw.thread, across), _who(scene, raw.other_block, raw.other_thread, across)
    verb, counter = scene.does(raw.site), scene.does(raw.other_site)
    if raw.detail == "same-value":
        sentence = f"{me} and {other} both write the same value to {target}, and {why}"
    elif verb == counter:
        plural = {"writes": "write", "reads": "read", "accesses": "access", "atomically updates": "atomically update"}[verb]
        sentence = f"{me} and {other} both {plural} {target}, and {why}"
    else:
        sentence = f"{me} {verb} {target}, which {other} {counter}, and {why}"
    if raw.detail == "unordered-volatile":
        sentence += ": the value is there by luck or by lockstep"
    inside = "" if across or first.block is None else f"block {dim(first.block)}, "
    where = lines(first, second)
    return f"{sentence} ({inside}{where})" if where else sentence


def _who(scene: Scene, block: int, thread: int, with_block: bool) -> str:
    if thread < 0:
        return "another thread" if block < 0 or not with_block else f"a thread of block {dim(unravel(block, scene.grid))}"
    name = f"thread {dim(unravel(thread, scene.block))}"
    return f"{name} of block {dim(unravel(block, scene.grid))}" if with_block and block >= 0 else name
