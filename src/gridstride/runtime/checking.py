"""`gs.checking()`: everything launched inside is checked, and what is found is collected.

    with gs.checking() as findings:
        saxpy[blocks, 256](n, 2.0, x, y)
    assert findings.passed, findings
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import overload

from gridstride.errors import LaunchError, UsageError
from gridstride.findings import Finding
from gridstride.machine.memory import Allocation, Memory
from gridstride.machine.raw_findings import CheckReceipt
from gridstride.observers.checks import ALL, NATIVE, api, find_check, order_dependent, parse_kinds
from gridstride.observers.checks.leak import HEAP_NAME, tell_leaks
from gridstride.observers.checks.receipt import Tally
from gridstride.observers.checks.suppress import LineOf, Rule, read_rules, suppress
from gridstride.observers.checks.tell import fold
from gridstride.report.model import Receipt

_open: list[Findings] = []
"""Sessions that are open, the outermost first; what happens goes into all of them."""


class Findings(Sequence[Finding]):
    """What was found, the worst first; repeats of one cause are one finding with a count. It grows while the `with` block runs."""

    def __init__(self, kinds: frozenset[str], *, schedules: int = 0, rules: Sequence[Rule] = ()) -> None:
        self.kinds = kinds
        self.schedules = schedules
        self._rules = tuple(rules)
        self._tally = Tally(kinds)
        self._found: list[Finding] = []
        self._by_comment = self._by_rule = 0
        self._operations = 0  # that the check of streams looked at
        self._heap: list[tuple[str, Memory, Allocation]] = []

    # ---- what was found --------------------------------------------------------------------------------------

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(found for found in self if found.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(found for found in self if found.severity == "warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(found for found in self if found.severity == "note")

    @property
    def passed(self) -> bool:
        """Something was launched, or copied or filled under the check of streams, and there is no error."""
        return self._tally.launches + self._operations > 0 and not self.errors

    @property
    def receipt(self) -> Receipt:
        """What was looked at, and what was not."""
        hidden = []
        for count, where in ((self._by_comment, "comments in the source"), (self._by_rule, "suppression rules")):
            if count:
                hidden.append(f"{count:,} finding{'' if count == 1 else 's'} hidden by {where}")
        tally = self._tally
        return Receipt(tally.launches, tally.threads, tally.accesses, tally.bytes, tally.checks, (*tally.skipped, *hidden))

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return fold(self._found)[index]

    def __len__(self) -> int:
        return len(fold(self._found))

    def __repr__(self) -> str:
        launches = self._tally.launches
        head = f"{len(self)} finding{'' if len(self) == 1 else 's'} in {launches:,} launch{'' if launches == 1 else 'es'}"
        return "\n".join([f"<gridstride.Findings: {head}>", *(f"{f.severity}[{f.code}] {f.kind}: {f.message}" for f in self)])

    # ---- what the runtime reports ----------------------------------------------------------------------------

    def add(self, findings: Sequence[Finding], line_of: LineOf) -> None:
        """Keep what this session looks for and nobody suppressed."""
        wanted = [found for found in findings if found.kind in self.kinds or not _optional(found.kind)]
        left, by_comment, by_rule = suppress(wanted, self._rules, line_of)
        self._found += left
        self._by_comment += by_comment
        self._by_rule += by_rule

    def launched(self, threads: int, receipt: CheckReceipt | None, stopped: bool) -> None:
        self._tally.add(threads, receipt, stopped=stopped)

    def operated(self) -> None:
        self._operations += 1

    def skip(self, what: str) -> None:
        self._tally.skip(what)

    def watch_heap(self, kernel: str, memory: Memory, allocations: Sequence[Allocation]) -> None:
        """Allocations of the device's heap that a launch left behind; at the end of the session they are leaks."""
        known = {id(allocation) for _, _, allocation in self._heap}
        self._heap += [(kernel, memory, a) for a in allocations if id(a) not in known]

    def close(self) -> None:
        """The end of the session: what is left of the device's heap was leaked."""
        for kernel in dict.fromkeys(kernel for kernel, _, _ in self._heap):
            found = tell_leaks(kernel, [a for name, _, a in self._heap if name == kernel and a.live])
            if found is not None:
                self.add([found], lambda file, line: None)
        self._heap.clear()


def _optional(kind: str) -> bool:
    """Whether a finding of this kind is only shown where it was asked for; what stops a launch is always shown."""
    try:
        return not find_check(kind).stops
    except UsageError:
        return False


@contextmanager
def checking(checks: str = "all", *, schedules: int = 0, suppress: str | Path | None = None) -> Iterator[Findings]:
    """Check everything launched inside, on any thread, on the simulator. Sessions nest; each gets what happens inside it.

    checks: `all`, or kinds with commas between, such as "race-shared,uninitialised" (docs/checks.md).
    schedules: run every launch again under so many other orders of blocks and warps, and compare what they leave in memory.
    suppress: a file of rules for findings that are not wanted.

    A kernel that is stopped still raises KernelFault, at the next call that waits (at its launch on a `blocking` device); the finding is here at once. Raises UsageError for an unknown kind or an unreadable file.
    """
    with session(parse_kinds(checks), schedules=schedules, rules=read_rules(Path(suppress)) if suppress is not None else ()) as findings:
        yield findings


@contextmanager
def session(kinds: frozenset[str] = ALL, *, schedules: int = 0, rules: Sequence[Rule] = ()) -> Iterator[Findings]:
    """`checking` for callers that have parsed what they want."""
    if schedules < 0:
        raise UsageError(f"schedules must be at least 0, not {schedules}")
    if schedules:
        kinds |= {order_dependent.CHECK.kind}
    elif order_dependent.CHECK.kind in kinds:
        raise UsageError("order-dependent runs each launch again: say how often with schedules (--schedules N)")
    findings = Findings(kinds, schedules=schedules, rules=rules)
    _open.append(findings)
    try:
        yield findings
    finally:
        _open.remove(findings)
        findings.close()


def is_checking(kind: str | None = None) -> bool:
    """Whether any open session looks for anything, or for this kind."""
    return any(kind is None or kind in findings.kinds for findings in _open)


def native_kinds() -> frozenset[str]:
    """The kinds that native code has to look for now."""
    return frozenset().union(*(findings.kinds for findings in _open)) & NATIVE


def schedules() -> int:
    """How many other orders each launch has to run under now."""
    return max((findings.schedules for findings in _open), default=0)


def record(findings: Sequence[Finding], line_of: LineOf = lambda file, line: None) -> None:
    """Put findings into every open session."""
    for session_ in tuple(_open):
        session_.add(findings, line_of)


@contextmanager
def api_call(kernel: str = "") -> Iterator[None]:
    """Around what the host asks for: a call that is refused is a finding too."""
    try:
        yield
    except (LaunchError, UsageError) as error:
        record([api.tell(kernel, str(error))])
        raise


def launched(threads: int, receipt: CheckReceipt | None = None, *, stopped: bool = False) -> None:
    """Count a launch in every open session."""
    for session_ in tuple(_open):
        session_.launched(threads, receipt, stopped)


def operated() -> None:
    """Count an operation that the check of streams looked at, in every open session."""
    for session_ in tuple(_open):
        session_.operated()


def skip(what: str) -> None:
    """Say in every open session's receipt that something was not looked at."""
    for session_ in tuple(_open):
        session_.skip(what)


def watch_heap(kernel: str, memory: Memory, before: Sequence[Allocation]) -> None:
    """Remember which allocations of the device's heap a launch of `kernel` left that were not there `before`."""
    known = set(map(id, before))
    new = [allocation for allocation in heap_of(memory) if id(allocation) not in known]
    for session_ in tuple(_open):
        session_.watch_heap(kernel, memory, new)


def heap_of(memory: Memory) -> list[Allocation]:
    """The live allocations of the device's heap."""
    found = (memory.find(int(start)) for start, _ in memory.table())
    return [a for a in found if a is not None and a.name == HEAP_NAME]
