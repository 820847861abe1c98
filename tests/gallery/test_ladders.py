"""Every ladder: right on awkward sizes, nothing for any check to find, the counters worked out by hand, and its page as the documentation has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gallery.counters import COUNTERS
from gridstride.cases import read_cases
from gridstride.gallery import LADDERS, Launch, Workshop, climb, labs, ladder, ladders, pages
from gridstride.gallery.__main__ import measured_page
from gridstride.gallery.columns import values
from gridstride.gallery.measuring import sizes
from gridstride.gallery.project import open_ladder

DOCS = Path(__file__).parents[2] / "docs" / "gallery"


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in ("matrix-product", "scan") else ()) for name in LADDERS])
def test_ladder(name: str) -> None:
    """All in one test, because running is what takes time; the two ladders that take a minute each are long tests."""
    found = ladder(name)
    climbed = climb(found, found.steps, Workshop("sim"))  # as pages are made: some counts depend a little on where arrays lie
    assert [complaint for one in climbed for complaint in one.complaints] == []
    expected = COUNTERS[name]
    assert set(expected) == {step.name for step in found.steps}, "every step has counters worked out by hand"
    counted = {one.step.name: values(one.shown.launches, list(expected[one.step.name])) for one in climbed}
    assert counted == expected
    assert pages.page(found, climbed) == (DOCS / f"{name}.md").read_text(encoding="utf-8"), f"python -m gridstride.gallery docs/gallery {name}"


@pytest.mark.parametrize("name", LADDERS)
def test_sizes_are_awkward(name: str) -> None:
    """Every step is tried where its blocks and warps do not divide, and on the smallest there is."""
    found = ladder(name)
    for step in found.steps:
        sizes = found.sizes(step)
        assert len(sizes) >= 5, step.name
        assert any(extent % 32 for size in sizes for extent in size), step.name
        assert step.claim.endswith((".", "?")) and set(step.moves) <= set(found.columns), step.name


def test_index() -> None:
    assert pages.index(ladders(), labs(), measured=(DOCS / "h200.json").exists()) == (DOCS / "README.md").read_text(encoding="utf-8"), "python -m gridstride.gallery docs/gallery"


@pytest.mark.parametrize("name", LADDERS)
def test_projects(name: str, tmp_path: Path) -> None:
    """Every ladder opens, with all its sources, and with cases that `gridstride launch` can read."""
    found = ladder(name)
    made = {path.name for path in open_ladder(found, found.steps, tmp_path / "project")}
    assert made >= {found.source_of(step).name for step in found.steps} | {"check.py", "cases.json", "README.md"}
    cases = read_cases(tmp_path / "project" / "cases.json")
    singles = [step.name for step in found.steps if step.source is None and len([a for a in step.launches(max(found.sizes(step))) if isinstance(a, Launch)]) == 1]
    assert len(cases) == len(singles)


def test_predictions_are_of_the_steps_that_there_are() -> None:
    modelled = json.loads((DOCS / "modelled.json").read_text(encoding="utf-8"))
    predicted = {(one["ladder"], one["step"], tuple(one["size"])) for one in modelled["steps"] if "us" in one}
    timed = {(found.name, step.name, size) for found in ladders() for step in found.steps if not step.finds for size in sizes(found, step)[-1:]}
    assert timed == predicted, "python bench/gallery_on_gpu.py --predict docs/gallery/modelled.json"


def test_table_of_times() -> None:
    """The page of predicted and measured times is made of the recorded results, and of every step that is there."""
    if not (DOCS / "h200.json").exists():
        pytest.skip("no times of a GPU are recorded (bench/gallery_on_gpu.py)")
    assert measured_page(DOCS) == (DOCS / "h200.md").read_text(encoding="utf-8"), "python -m gridstride.gallery docs/gallery"
