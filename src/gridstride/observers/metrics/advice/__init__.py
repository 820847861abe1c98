"""Advice: what a launch's counters say costs time, where, how much, and what to do. One rule a file; `RULES` lists them all.

To add one: a file with a `Rule`, a line here, and in tests/metrics/advice_kernels.py a kernel that it speaks about and one it does not.
"""

from __future__ import annotations

from gridstride.observers.metrics.advice.atomic_contention import AtomicContention
from gridstride.observers.metrics.advice.bank_conflict import BankConflict
from gridstride.observers.metrics.advice.constant_divergence import ConstantDivergence
from gridstride.observers.metrics.advice.divergence import Divergence
from gridstride.observers.metrics.advice.far_from_roof import FarFromRoof
from gridstride.observers.metrics.advice.local_memory import LocalMemory
from gridstride.observers.metrics.advice.low_occupancy import LowOccupancy
from gridstride.observers.metrics.advice.partial_warps import PartialWarps
from gridstride.observers.metrics.advice.repeated_reads import RepeatedReads
from gridstride.observers.metrics.advice.rule import Advice, Rule
from gridstride.observers.metrics.advice.scalar_access import ScalarAccess
from gridstride.observers.metrics.advice.small_launch import SmallLaunch
from gridstride.observers.metrics.advice.tail_waste import TailWaste
from gridstride.observers.metrics.advice.uncoalesced_access import UncoalescedAccess
from gridstride.observers.metrics.advice.unfused_arithmetic import UnfusedArithmetic
from gridstride.observers.metrics.launch_metrics import LaunchMetrics

RULES: tuple[Rule, ...] = (
    UncoalescedAccess(),
    BankConflict(),
    Divergence(),
    LowOccupancy(),
    PartialWarps(),
    TailWaste(),
    AtomicContention(),
    ConstantDivergence(),
    LocalMemory(),
    ScalarAccess(),
    RepeatedReads(),
    SmallLaunch(),
    FarFromRoof(),
    UnfusedArithmetic(),
)


def advise(launch: LaunchMetrics) -> tuple[Advice, ...]:
    """All advice on a launch, what weighs most first."""
    return tuple(sorted((advice for rule in RULES for advice in rule.look(launch)), key=lambda advice: -advice.weight))


def find_rule(name: str) -> Rule | None:
    """The rule of a code (`GA02`) or name (`bank-conflict`)."""
    wanted = name.strip().lower()
    return next((rule for rule in RULES if wanted in (rule.code.lower(), rule.name)), None)


__all__ = ["RULES", "Advice", "Rule", "advise", "find_rule"]
