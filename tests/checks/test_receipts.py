"""What a receipt says was looked at, and what was not."""

from __future__ import annotations

from gridstride.machine.raw_findings import CheckReceipt
from gridstride.observers.checks.receipt import Tally

NATIVE = ("divergent-barrier", "race-global", "race-shared", "uninitialised", "warp-mask")


def test_launches_add_up() -> None:
    tally = Tally(frozenset({"race-shared", "launch-shape"}))
    tally.add(256, CheckReceipt(10, 400, NATIVE))
    tally.add(64, CheckReceipt(1, 4, ("race-shared",)))
    assert (tally.launches, tally.threads, tally.accesses, tally.bytes) == (2, 320, 11, 404)
    assert tally.checks == ("out-of-bounds", "misaligned", "deadlock", "race-shared", "launch-shape")
    assert tally.skipped == ()


def test_what_native_code_did_not_look_for_is_said() -> None:
    tally = Tally(frozenset({"race-shared", "race-global"}))
    tally.add(1, None)
    assert (tally.accesses, tally.bytes) == (None, None)
    assert tally.skipped == ("race-shared: not looked for in the launch", "race-global: not looked for in the launch")
    tally.add(1, CheckReceipt(1, 4, ("race-shared",)))
    assert tally.skipped == ("race-shared: not looked for in 1 of 2 launches", "race-global: not looked for in all 2 launches")
    assert tally.checks == ("out-of-bounds", "misaligned", "deadlock")


def test_a_launch_that_was_stopped_is_not_wholly_checked() -> None:
    tally = Tally(frozenset({"race-shared"}))
    tally.add(32, None, stopped=True)
    tally.skip("something else")
    tally.skip("something else")
    assert "race-shared" in tally.checks
    assert tally.skipped == ("what comes after the fault in the launch", "something else")
