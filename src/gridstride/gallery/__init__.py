"""The gallery: canonical kernels as ladders from the plain way to the fast one, and laboratories.

    from gridstride import gallery

    ladder = gallery.ladder("transpose")
    for one in gallery.compare("transpose"):
        print(one.step.name, one.values, one.shown.modelled_us, one.passed)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gridstride as gs
from gridstride.errors import UsageError
from gridstride.gallery.catalogue import LADDERS, find, ladder, ladders
from gridstride.gallery.comparing import Climbed, climb
from gridstride.gallery.grading import Goal, Grade, Lab, lab, labs
from gridstride.gallery.model import Data, Fill, Ladder, Launch, Problem, Step, given
from gridstride.gallery.running import Bench, Run, Workshop

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # finding
    "LADDERS",
    "find",
    "ladder",
    "ladders",
    "lab",
    "labs",
    # running
    "compare",
    "check_project",
    "climb",
    "run",
    "Bench",
    "Workshop",
    # what there is
    "Climbed",
    "Data",
    "Fill",
    "Goal",
    "Grade",
    "Lab",
    "Ladder",
    "Launch",
    "Problem",
    "Run",
    "Step",
    "given",
]


def compare(name: str, device: gs.Device | str = "sim") -> list[Climbed]:
    """Every step of `NAME`, or the one of `NAME/STEP`: tried on awkward sizes under all checks, then counted on a simulated device."""
    found, steps = find(name)
    return climb(found, steps, Workshop(device))


def run(name: str, size: tuple[int, ...] | None = None, device: gs.Device | str = "sim") -> Run:
    """`NAME/STEP` at one size (what the tables show unless given), verified, checked and counted where the device is simulated."""
    found, steps = find(name)
    if len(steps) != 1:
        raise UsageError(f"say which step of {name}: {', '.join(f'{name}/{step.name}' for step in steps)}")
    workshop = Workshop(device)
    simulated = workshop.device.name.startswith("sim")
    return workshop.run(found, steps[0], size or steps[0].shown or found.shown, check=simulated, count=simulated)


def check_project(name: str, folder: Path, steps: Sequence[str] = ()) -> int:
    """What the check script of a project does: try the steps with the sources in `folder`, print the comparison, return the exit status."""
    from gridstride.gallery.project import check

    return check(name, folder, steps)
