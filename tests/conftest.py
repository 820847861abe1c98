"""With GRIDSTRIDE_TEST_CHECKS=1 (`make test-checks`) every launch of the tests under `CHECKED` runs with all checks on: each correct kernel is
then a test against false alarms."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

import gridstride as gs

# A machine may be busy with other things: no test fails for the time that an example takes.
settings.register_profile("gridstride", deadline=None)
settings.load_profile("gridstride")

# Devices of the tests tell of a fault at its launch, which is where a test looks for it; tests of the default open theirs with blocking=False.
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

# Jobs that a shell runs in the background begin with interrupts ignored, and hand that on; tests of interrupts need them.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKED = ("engine", "engine_coverage", "truth_set", "pipeline")
# What stops a kernel reaches the test as an exception, and refused launches are what some tests are about.
SEEN_BY_THE_TEST = {"out-of-bounds", "misaligned", "trap", "assert", "deadlock", "budget", "double-free", "launch-shape", "api", "barrier-misuse"}
# Kernels of which the memory model says more than hardware minds.
EXPECTED = {
    # a flag or a counter is read by an atomic, and no fence of that thread stands between it and what it hands over
    "test_a_message_from_the_last_block_to_the_first": {"race-global"},
    "test_the_last_block_reduces": {"race-global"},
    "test_shuffles_of_lanes_that_came_apart": {"race-global"},
    # tests of faults
    "test_what_cannot_fill_is_a_deadlock": {"race-shared"},
    "test_a_barrier_that_cannot_fill": {"divergent-barrier"},
    # all threads store what is theirs in one place, to take the path of a uniform address, and nobody reads it
    "test_other_spaces": {"race-shared"},
    # all threads write the same number to one place and read it back
    "test_calls_with_several_results_literals_registers_and_aliases": {"race-global"},
    # a loop around compare-and-swap begins with a plain read
    "test_float_extremes_by_compare_and_swap": {"race-global"},
    "test_a_product_by_compare_and_swap": {"race-global"},
    "test_a_counter_of_16_bits": {"race-global"},
}


@pytest.fixture(autouse=True, scope="module")
def tidy() -> Iterator[None]:
    """Devices of a module's tests that caught exceptions hold on to are ended: with checks on each takes a good part of a process's address space."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test under all checks, if that is asked for; errors that are not expected fail it."""
    parts = request.node.path.relative_to(request.config.rootpath).parts
    if os.environ.get("GRIDSTRIDE_TEST_CHECKS") != "1" or len(parts) < 2 or parts[1] not in CHECKED:
        yield
        return
    expected = SEEN_BY_THE_TEST | EXPECTED.get(request.node.originalname, set())
    with gs.checking() as findings:
        yield
    wrong = [found for found in findings.errors if found.kind not in expected]
    assert not wrong, "\n".join(f"{found.kernel}: {found.kind}: {found.message}" for found in wrong)
