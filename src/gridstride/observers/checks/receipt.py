"""What was looked at, and what was not: a clean result is worth as much as its receipt."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridstride.machine.raw_findings import CheckReceipt
from gridstride.observers.checks import ALL, ALWAYS, CHECKS, DECLARED, NATIVE


@dataclass
class Tally:
    """Adds up the launches of a checked run. asked: the kinds that were asked for beside those that every run looks for."""

    asked: frozenset[str]
    launches: int = 0
    threads: int = 0
    accesses: int | None = None
    bytes: int | None = None
    _unchecked: dict[str, int] = field(default_factory=dict)
    _skipped: list[str] = field(default_factory=list)
    _stopped: int = 0
    _declared: frozenset[str] = frozenset()  # kinds that a contract spoke of, so that something was looked at

    def add(self, threads: int, receipt: CheckReceipt | None, *, stopped: bool = False) -> None:
        """One launch, and what native code says it looked at (None: it looked for nothing beyond bounds and alignment).

        stopped: by a fault, so that it was looked at up to there and nobody counted.
        """
        self.launches += 1
        self.threads += threads
        if stopped:
            self._stopped += 1
            return
        done = frozenset(receipt.checks) if receipt is not None else frozenset()
        self._declared |= done & DECLARED
        for kind in (self.asked & NATIVE) - DECLARED - done:
            self._unchecked[kind] = self._unchecked.get(kind, 0) + 1
        if receipt is not None:
            for what in receipt.skipped:
                self.skip(what)
            self.accesses = (self.accesses or 0) + receipt.accesses
            self.bytes = (self.bytes or 0) + receipt.bytes

    def skip(self, what: str) -> None:
        """Note something that was asked for and not looked at."""
        if what not in self._skipped:
            self._skipped.append(what)

    @property
    def checks(self) -> tuple[str, ...]:
        """The kinds that were looked for in every launch, in the order of the manual."""
        on = (self.asked | ALWAYS) - set(self._unchecked) - (DECLARED - self._declared)
        return tuple(check.kind for check in CHECKS if check.kind in on and not check.event)

    @property
    def skipped(self) -> tuple[str, ...]:
        kinds = [check.kind for check in CHECKS if check.kind in self._unchecked]
        said = [f"{kind}: not looked for in {_launches(self._unchecked[kind], self.launches)}" for kind in kinds]
        if not self.asked >= ALL:  # asked for by name
            said += [f"{kind}: no contract speaks of a launch" for kind in sorted((self.asked & DECLARED) - self._declared)]
        if self._stopped:
            said.append(f"what comes after the fault in {_launches(self._stopped, self.launches)}")
        return (*said, *self._skipped)


def _launches(count: int, total: int) -> str:
    if count == total:
        return "the launch" if total == 1 else f"all {total:,} launches"
    return f"{count:,} of {total:,} launches"
