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
def test_bandwidth_of_pinned_memory(way: str) -> None:
    """From the difference between two sizes: a pair of events around nothing took as long as a small copy, since Python asked for it."""
    link, sizes = link_of(gs.device("sim:h200").spec), (16 << 20, 256 << 20)
    small, large = (MEASURED["link"]["copies"][str(size)][f"pinned_{way}_us"] for size in sizes)
    modelled = copy_microseconds(link, sizes[1] - sizes[0], to_device=way == "to_device", pageable=False)
    assert abs(modelled / (large - small) - 1) < ERROR
