"""From raw findings to findings: each told by its check, and those of one cause folded into one with a count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gridstride.findings import Finding
from gridstride.machine.raw_findings import RawFinding
from gridstride.observers.checks import BY_KIND
from gridstride.observers.checks.scene import Scene

_ONE_SIDED = frozenset({"divergent-barrier", "warp-mask", "uninitialised"})
_ORDER = {"error": 0, "warning": 1, "note": 2}


def tell_all(raw: Iterable[RawFinding], scene: Scene) -> list[Finding]:
    """The findings of one launch, the worst first."""
    found = list(raw)
    kinds = list(dict.fromkeys(one.kind for one in found))
    found.sort(key=lambda one: (kinds.index(one.kind), _within_a_warp(one)))
    return fold(tell_one(one, scene) for one in found)


def _within_a_warp(raw: RawFinding) -> bool:
    """Pairs of one warp come after others: where both are found, what orders threads of the block orders those of a warp too."""
    return raw.block == raw.other_block and raw.thread // 32 == raw.other_thread // 32


def tell_one(raw: RawFinding, scene: Scene) -> Finding:
    """One raw finding in words. Raises KeyError for a kind that no check tells."""
    check = BY_KIND[raw.kind]
    if check.tell is None:
        raise KeyError(f"no check tells {raw.kind}")
    if raw.other_block < 0 and raw.kind in _ONE_SIDED:
        raw = replace(raw, other_thread=-1)  # nobody knows which
    told = check.tell(raw, scene)
    has_other = raw.other_site >= 0 or raw.other_thread >= 0
    target = scene.target(raw.space, raw.address, raw.bytes) if raw.space else None
    return Finding(
        code=check.code,
        kind=check.kind,
        severity=told.severity,
        message=told.message,
        advice=told.advice,
        kernel=scene.kernel,
        site=scene.site(raw.site, raw.block, raw.thread),
        other=scene.site(raw.other_site, raw.other_block, raw.other_thread) if has_other else None,
        space=target.space if target else None,
        buffer=target.buffer if target else None,
        index=target.index if target else None,
        address=target.address if target else None,
        count=raw.count,
    )


def fold(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one cause as one, the first of the worst with the count of all; the worst first, else in order."""
    folded: dict[object, Finding] = {}
    for found in findings:
        key = _cause(found)
        kept = folded.get(key)
        if kept is not None:
            worse = found if _ORDER[found.severity] < _ORDER[kept.severity] else kept
            found = replace(worse, count=kept.count + found.count)
        folded[key] = found
    return sorted(folded.values(), key=lambda found: _ORDER[found.severity])


def _cause(found: Finding) -> object:
    """What makes two findings one: the same check on the same lines (either way round) about the same buffer."""
    sides = (found.site,) if found.kind == "warp-mask" else (found.site, found.other)  # there the operation is the cause, wherever its lanes are
    lines = frozenset((site.file, site.line) if site.line else (None, site.ptx_line) for site in sides if site is not None)
    placeless = found.message if not any(line for _, line in lines) else None
    return (found.code, found.kernel, lines, found.other is None, found.space, found.buffer, placeless)
