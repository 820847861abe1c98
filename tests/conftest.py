"""With GRIDSTRIDE_TEST_CHECKS=1 every launch of the tests under `CHECKED` runs with all checks on: each correct kernel is then a test against
false alarms. A test that launches faulty kernels on purpose says so: `@pytest.mark.findings("race-global")` names what may be found."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import gridstride as gs

CHECKED = ("engine", "engine_coverage", "truth_set", "pipeline")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "findings(*kinds): kinds of findings that the kernels of this test are meant to have (GRIDSTRIDE_TEST_CHECKS=1)")


@pytest.fixture(autouse=True)
def checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test under all checks, if that is asked for; errors that are not expected fail it."""
    parts = request.node.path.relative_to(request.config.rootpath).parts
    if os.environ.get("GRIDSTRIDE_TEST_CHECKS") != "1" or len(parts) < 2 or parts[1] not in CHECKED:
        yield
        return
    expected = {kind for mark in request.node.iter_markers("findings") for kind in mark.args}
    with gs.checking() as findings:
        yield
    # What stops a kernel reaches the test as an exception, and refused launches are what some tests are about.
    own = {"out-of-bounds", "misaligned", "trap", "assert", "deadlock", "budget", "double-free", "launch-shape", "api"}
    wrong = [found for found in findings.errors if found.kind not in expected | own]
    assert not wrong, "\n".join(f"{found.kernel}: {found.kind}: {found.message}" for found in wrong)
