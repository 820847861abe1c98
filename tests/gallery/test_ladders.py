"""Every ladder: right on awkward sizes, nothing for any check to find, the counters worked out by hand, and its page as the documentation has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gallery.counters import COUNTERS
from gridstride.gallery import LADDERS, Workshop, climb, labs, ladder, ladders, pages
from gridstride.gallery.__main__ import measured_page
from gridstride.gallery.columns import values

DOCS = Path(__file__).parents[2] / "docs" / "gallery"


@pytest.mark.parametrize("name", LADDERS)
def test_ladder(name: str) -> None:
    """All in one test, because running is what takes time."""
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
    assert pages.index(ladders(), labs()) == (DOCS / "README.md").read_text(encoding="utf-8"), "python -m gridstride.gallery docs/gallery"


def test_table_of_times() -> None:
    """The page of predicted and measured times is made of the recorded results, and of every step that is there."""
    if not (DOCS / "h200.json").exists():
        pytest.skip("no times of a GPU are recorded (bench/gallery_on_gpu.py)")
    assert measured_page(DOCS) == (DOCS / "h200.md").read_text(encoding="utf-8"), "python -m gridstride.gallery docs/gallery"
