"""The modelled times of five streaming programs against an H200's (h200.json, by measure_on_gpu.py), with its kernels' own times given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gridstride as gs
from gridstride.events.transfers import copy_microseconds, link_of
from timeline.programs import PROGRAMS, Setting, runner, total_us

MEASURED: dict[str, Any] = json.loads((Path(__file__).parent / "h200.json").read_text())
ERROR = 0.15


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(gs.device("sim"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_takes_as_long_as_on_the_card(setting: Setting, name: str) -> None:
    with gs.timeline(MEASURED["programs"]["kernel_us"]):
        modelled = total_us(setting, runner(setting, name))
    measured = MEASURED["programs"]["total_us"][name]
    assert abs(modelled / measured - 1) < ERROR, f"{name}: {modelled:.0f} µs modelled, {measured:.0f} µs measured"


@pytest.mark.parametrize("way", ["to_device", "to_host"])
def test_copies_of_pinned_memory(way: str) -> None:
    """Without what a pair of events around nothing takes, which on that machine was Python's time."""
    link, nothing = link_of(gs.device("sim:h200").spec), MEASURED["link"]["nothing_us"]
    for size in (1 << 20, 16 << 20, 256 << 20):
        measured = MEASURED["link"]["copies"][str(size)][f"pinned_{way}_us"] - nothing
        modelled = copy_microseconds(link, size, to_device=way == "to_device", pageable=False)
        assert abs(modelled - measured) < 0.15 * measured + 6, (size, modelled, measured)
