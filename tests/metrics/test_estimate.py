"""The time estimate against launches timed on an H200 (tests/truth/times.json, and validation_times.json), and its parts one by one."""

import json
import re
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from gridstride.machine.devices import find_device
from gridstride.observers.metrics.cache import traffic
from gridstride.observers.metrics.estimate import MEDIAN_ERROR, OTHER_KERNELS_ERROR, Estimate, estimate
from gridstride.observers.metrics.profile import InstructionCounts, LaunchProfile
from metrics.timing_launches import HERE, MEASURED_ON, TRUTH, measured_us, profiles

H200 = find_device("h200")
TIMING, VALIDATION, HOLDOUT = profiles("timing"), profiles("validation"), profiles("holdout")
ALL = {**TIMING, **VALIDATION, **HOLDOUT}
SPOKEN_FOR = {name for some in MEASURED_ON.values() for name in some}
PAGE = (HERE.parents[1] / "docs" / "estimates.md").read_text(encoding="utf-8")


def errors(which: str, launches: dict[str, LaunchProfile]) -> dict[str, float]:
    measured = measured_us(which)
    return {name: estimate(p, H200).microseconds / measured[name] - 1 for name, p in launches.items()}


def result(name: str) -> Estimate:
    return estimate(ALL[name], H200)


# ---- the error that is stated --------------------------------------------------------------------------------------


def test_all_timed_launches_are_there() -> None:
    assert list(TIMING) == list(measured_us("timing"))
    assert len(TIMING) == 36
    assert list(VALIDATION) == list(measured_us("validation"))
    assert list(HOLDOUT) == list(measured_us("holdout"))


def test_half_of_the_truth_set_is_within_a_tenth_and_none_is_far_off() -> None:
    found = sorted(abs(e) for e in errors("timing", TIMING).values())
    assert statistics.median(found) < 0.10
    assert found[-1] < 0.5


@pytest.mark.parametrize(("which", "launches", "median"), [("validation", VALIDATION, 0.10), ("holdout", HOLDOUT, 0.20)])
def test_launches_outside_the_fit(which: str, launches: dict[str, LaunchProfile], median: float) -> None:
    found = sorted(abs(e) for name, e in errors(which, launches).items() if name not in SPOKEN_FOR)
    assert statistics.median(found) < median
    assert found[-1] < 0.6


def test_the_stated_errors_are_those_of_the_documentation() -> None:
    stated = {what: float(percent) / 100 for what, percent in re.findall(r"^\| ([^|]+) \| ([\d.]+)%", PAGE, re.MULTILINE)}
    assert pytest.approx(stated["the same, each left out of the fit in its turn"]) == MEDIAN_ERROR
    assert pytest.approx(stated["19 outside the fit: other kernels"]) == OTHER_KERNELS_ERROR


@pytest.mark.parametrize("name", list(ALL))
def test_the_table_of_the_documentation_is_up_to_date(name: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    measured = {**measured_us("timing"), **measured_us("validation"), **measured_us("holdout")}[name]
    got = result(name)
    assert cells[1:4] == [f"{measured:,.1f}", f"{got.microseconds:,.1f}", f"{got.microseconds / measured - 1:+.0%}"]
    assert cells[-1] == got.bound


# ---- what is moved, against Nsight's counters -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, p in TIMING.items() if p.footprint_bytes > H200.l2_bytes])
def test_dram_reads_are_those_that_nsight_counted(name: str) -> None:
    counted = json.loads((TRUTH / "timing_counters.json").read_text(encoding="utf-8"))[name]["dram__bytes_read.sum"]
    # transpose_naive's columns are written in parts, which makes L2 read some of them first
    assert traffic(TIMING[name], H200).dram_read == pytest.approx(counted, rel=0.2 if name == "transpose_naive_8192" else 0.02)


def test_buffers_that_fit_into_l2_stay_there() -> None:
    assert result("strided_1_4M").dram_bytes == 0  # 34 MB of 60
    assert result("strided_4_4M").dram_bytes > 0  # 84 MB


def test_repeated_reads_are_l1s() -> None:
    # Nsight: 24.9 million sectors read by blur_h, of which 8.7 million reach L2 (half of them counted again between L2's halves)
    moved = traffic(TIMING["blur_h_8k"], H200)
    assert moved.reuse == pytest.approx(6.0, rel=0.05)
    assert traffic(TIMING["vec_add_32M"], H200).reuse == 1


def test_random_reads_fetch_a_sector_each() -> None:
    assert traffic(HOLDOUT["gather_16M"], H200).dram_read > 2 * HOLDOUT["gather_16M"].footprint_bytes
    assert traffic(TIMING["aos_4M"], H200).reuse == pytest.approx(2, rel=0.01)  # two fields of 4 bytes in one sector


def test_atomics_on_few_addresses_are_one_slices() -> None:
    assert traffic(VALIDATION["hist_global_4M"], H200).atomic_spread == 1  # 256 counters
    assert traffic(VALIDATION["reduce_atomic_4M"], H200).atomic_spread == 1  # one
    assert traffic(HOLDOUT["count_scattered_16M"], H200).atomic_spread > 30  # 4 million


# ---- bounds that are known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("saxpy_vec4_32M", "dram"),
        ("transpose_tile_8192", "l1"),  # 32 passes over the banks
        ("transpose_pad_8192", "dram"),
        ("const_divergent_16M", "constant"),
        ("mandelbrot_4096", "compute"),
        ("nbody_32k", "latency"),  # 8 warps a multiprocessor
        ("vec_add_32M_b64", "blocks"),
        ("hist_global_4M", "atomics"),
        ("vec_add_1k", "launch"),
    ],
)
def test_bound(name: str, bound: str) -> None:
    assert result(name).bound == bound


def test_parts_and_time_agree() -> None:
    for name in TIMING:
        got = result(name)
        others = [us for part, us in got.parts.items() if part != "launch"]
        assert got.parts["launch"] + max(others) <= got.microseconds <= got.parts["launch"] + sum(others)
        assert got.parts[got.bound] == max(got.parts.values())


# ---- how it answers to changes -------------------------------------------------------------------------------------------


def copy_kernel(blocks: int, threads: int = 256, **changes: int | str | None) -> LaunchProfile:
    """One coalesced load and store of four bytes a thread."""
    warps = blocks * -(-threads // 32)
    one = {"executions": warps, "lanes": blocks * threads, "bytes": 4, "requests": warps, "sectors": 4 * warps}
    access = [
        InstructionCounts(1, None, None, "ld.global.f32", space="global", access="load", **one),
        InstructionCounts(2, None, None, "st.global.f32", space="global", access="store", **one),
    ]
    plain = LaunchProfile("copy", "h200", (blocks, 1, 1), (threads, 1, 1), 0, 0, 16, 0.0, tuple(access), footprint_bytes=8 * blocks * threads)
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_twice_the_blocks_take_longer_and_no_more_than_twice_as_long() -> None:
    times = [estimate(copy_kernel(1 << k), H200).microseconds for k in range(20)]
    assert all(a <= b <= 2 * a + 20 for a, b in pairwise(times))


def test_shared_memory_that_lowers_occupancy_costs_time() -> None:
    free, held = (estimate(copy_kernel(1 << 15, shared_dynamic=size), H200) for size in (0, 100 << 10))
    assert held.parts["latency"] == pytest.approx(4 * free.parts["latency"], rel=0.01)  # 2 blocks a multiprocessor for 8


def test_a_block_more_than_the_multiprocessors_have_counts_as_a_whole_one() -> None:
    even, odd = (estimate(copy_kernel(blocks), H200).parts for blocks in (H200.multiprocessors, H200.multiprocessors + 1))
    assert odd["l1"] == pytest.approx(2 * even["l1"])


def test_a_device_of_half_the_bandwidth_takes_twice_as_long_for_dram() -> None:
    slow = replace(H200, memory_bandwidth_gbs=H200.memory_bandwidth_gbs / 2)
    launch = copy_kernel(1 << 16)
    assert estimate(launch, slow).parts["dram"] == pytest.approx(2 * estimate(launch, H200).parts["dram"])


def test_a_launch_without_accesses_is_a_launch() -> None:
    nothing = replace(copy_kernel(1), instructions=())
    assert estimate(nothing, H200).bound == "launch"
    assert estimate(nothing, H200).microseconds == pytest.approx(6.5, abs=1)


def test_it_says_how_good_it_is() -> None:
    assert "estimated" in estimate(copy_kernel(1), H200).statement
    assert "no measurement for this device" in estimate(copy_kernel(1), find_device("a100")).statement
    assert "no measurement" not in estimate(copy_kernel(1), H200).statement


@pytest.mark.parametrize("device", ["t4", "a100", "rtx3060", "rtx4090", "h100", "b200"])
def test_every_device_can_be_estimated(device: str) -> None:
    spec = find_device(device)
    # 403 MB, more than any of them has L2: never faster than the published bandwidth
    assert estimate(TIMING["vec_add_32M"], spec).microseconds > 402_653_184 / (spec.memory_bandwidth_gbs * 1e3)
