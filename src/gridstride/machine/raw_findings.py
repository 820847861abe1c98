"""What native code notes down when a checked launch finds something: facts, not yet told for people."""

from __future__ import annotations

from dataclasses import dataclass

from gridstride.lower import records

REGISTER = records.REGISTER
"""In the place of `origin_site`: the undefined value is a register that nothing was assigned to."""
FOR_EVER = "waits-for-ever"
"""Detail of a finding that is why the launch ended in a deadlock: two places at which threads wait, each for the other."""


@dataclass(frozen=True)
class RawFinding:
    """One cause, folded: repeats with the same kind, sites and severity only raise `count`.

    kind: of CHECKS ("race-shared", "race-global", "uninitialised", "divergent-barrier", "warp-mask", "double-write"). detail: what
    exactly, by kind:
      races         "write-write", "read-write", "write-read", "atomic-plain", "same-value" (two unordered plain writes
                    of the same value: a warning), "unordered-volatile" (values exchanged by luck or lockstep: a warning)
      uninitialised "branch", "address", "decision" (a selection or a comparison that decides an output), "output",
                    "update" (an atomic changes what nobody wrote). space, address and bytes are those of the value's origin, empty where it
                    is not known or is a register that nothing was assigned to (origin_site is REGISTER)
      divergent-barrier  "waits-elsewhere", "goes-on", "exited" (all that is left to the absent is to exit: a note), FOR_EVER
      warp-mask     "reads-absent-lane", "caller-not-in-mask", "lane-elsewhere", "lane-in-the-tail" (all that it still does is to store something), FOR_EVER
      double-write  "two-threads" (under a contract that gives each element to one thread); bytes are those of the element
    site, other_site: indices into the kernel code's sites (-1: unknown). block, thread: linear indices of the thread
    at fault; other_block, other_thread: of the other one (-1: none). space: as in records.SPACES. address: as the
    thread sees it. origin_site: where an undefined value came from (-1: unknown).
    """

    kind: str
    severity: str
    detail: str
    site: int
    block: int
    thread: int
    space: str = ""
    address: int = 0
    bytes: int = 0
    other_site: int = -1
    other_block: int = -1
    other_thread: int = -1
    origin_site: int = -1
    count: int = 1


@dataclass(frozen=True)
class CheckReceipt:
    """What a checked launch looked at: warp accesses and bytes, by all threads. skipped: what it could not look at."""

    accesses: int
    bytes: int
    checks: tuple[str, ...]
    skipped: tuple[str, ...] = ()
